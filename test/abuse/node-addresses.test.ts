/**
 * A stolen node token: it may write its Node's labels, addresses and annotation, and send reports.
 * Other nodes must get few changes of it, and none of an address that others have.
 */

import assert from 'node:assert/strict';
import { namedBy } from '../../apis/compiled.ts';
import type { NodeReport } from '../../apis/node-report.ts';
import { NO_OBJECTS, type Node, type Pod } from '../../apis/objects.ts';
import { validateObject } from '../../apis/validate/object.ts';
import { Hub } from '../../controller/publish/hub.ts';
import { Compiling } from '../../controller/run/compiling.ts';
import { formatMembers } from '../../lib/net/member-set.ts';
import type { Log } from '../../lib/process/log.ts';
import { type FakeClock, fakeClock } from '../fake/fake-clock.ts';

const POLICY = {
  apiVersion: 'nodewall.io/v1alpha1',
  kind: 'ClusterNetworkPolicy',
  metadata: { name: 'p' },
  spec: {
    priority: 1,
    appliedTo: [{ nodeSelector: {} }],
    ingress: [{ action: 'Allow', from: [{ nodeSelector: { matchLabels: { role: 'worker' } } }] }],
  },
};
const node = (name: string, addresses: readonly string[], role = 'worker'): Node => ({
  kind: 'Node',
  name,
  labels: { role },
  addresses,
});
const VICTIM = node('victim', ['192.0.2.1']);
const SILENT = { debug() {}, info() {}, warn() {}, error() {} } as unknown as Log;
const SECOND = 1000;

describe('a stolen node token', () => {
  let clock: FakeClock;
  let hub: Hub;
  let compiling: Compiling;
  let lines: string[];
  let nodes: readonly Node[];
  let pods: readonly Pod[];
  let delayed: number;

  beforeEach(async () => {
    clock = fakeClock();
    hub = new Hub({ gate: true });
    await start([]);
  });
  afterEach(() => compiling.close());

  async function start(nodeCIDRs: readonly string[]): Promise<void> {
    delayed = 0;
    compiling = new Compiling({
      hub,
      metrics: { compiled() {}, published() {}, failed: assert.fail, delayed: () => void delayed++ },
      log: SILENT,
      clock,
      nodeCIDRs,
      sayProblems: () => {},
      published: () => {},
    });
    lines = [];
    pods = [];
    nodes = [VICTIM, node('thief', ['192.0.2.66'])];
    await deliver();
    hub.watch('victim', null, (sent) => lines.push(...sent.map(({ body }) => `{${body}`)));
    lines.length = 0;
    clock.pass(600 * SECOND);
  }
  async function deliver(): Promise<void> {
    const policies = [validateObject(POLICY).object] as never;
    const objects = { ...NO_OBJECTS, nodes, pods, policies };
    await compiling.deliver({ objects, problems: [], files: 0, complete: true });
  }
  async function thief(addresses: readonly string[], role?: string): Promise<void> {
    nodes = [VICTIM, node('thief', addresses, role)];
    await deliver();
  }
  function report(hostAddresses: readonly string[], from = 'thief'): void {
    compiling.receiveReport({ node: from, hostAddresses } as unknown as NodeReport);
  }
  async function pass(milliseconds: number): Promise<void> {
    clock.pass(milliseconds);
    for (let i = 0; i < 3; i++) await new Promise(setImmediate);
  }
  /** The changes that the victim got since the last call. */
  const changes = (): number => lines.splice(0).filter((line) => !line.includes('"type":"bookmark"')).length;
  /** The addresses that the policy allows. */
  function allowed(): string[] {
    const { rules, addressSets } = hub.view('victim');
    const sets = namedBy(rules).addressSets.flatMap((id) => addressSets.get(id) ?? []);
    return sets.flatMap(({ members }) => formatMembers(members));
  }

  /** One minute in which the thief changes something each 100 ms. */
  async function storm(change: (i: number) => void | Promise<void>): Promise<number> {
    changes();
    for (let i = 0; i < 600; i++) {
      await change(i);
      await pass(100);
    }
    return changes();
  }

  // At first ten at once, then one in ten seconds, and a removal each second; two sets have it.
  const MOST = (10 + 6 + 1 + 10 + 60) * 2;
  const renumber = (i: number): Promise<void> => thief([`198.51.100.${i % 200}`]);
  const storms: Readonly<Record<string, (i: number) => void | Promise<void>>> = {
    addresses: renumber,
    'an address that comes and goes': (i) => thief(i % 2 === 0 ? ['198.51.100.1'] : []),
    labels: (i) => thief(['198.51.100.1'], i % 2 === 0 ? 'worker' : 'none'),
    'its Node, made and deleted': (i) => {
      nodes = i % 2 === 0 ? [VICTIM, node('thief', ['198.51.100.1'])] : [VICTIM];
      return deliver();
    },
    reports: (i) => report([`198.51.100.${i % 200}`]),
    'reports, from the end of a long list': (i) =>
      report(Array.from({ length: 1000 - i }, (_, n) => `10.9.${(n + i) >> 8}.${(n + i) & 255}`).reverse()),
    "an address that another node's agent reports": (i) => {
      if (i === 0) report(['198.51.100.9'], 'victim');
      return thief(i % 2 === 0 ? ['198.51.100.9'] : []);
    },
  };
  for (const [what, change] of Object.entries(storms)) {
    it(`cannot send other nodes a change each 100 ms: ${what}`, async () => {
      const sent = await storm(change);
      assert.ok(sent > 0 && sent <= MOST, `${sent} changes`);
      assert.ok(delayed > 0);
      // The last state is never lost.
      await thief(['203.0.113.7']);
      report(['203.0.113.8']);
      for (let i = 0; i < 30; i++) await pass(SECOND);
      const mine = allowed().filter((address) => address.startsWith('203.'));
      assert.deepEqual(mine, ['203.0.113.7', '203.0.113.8']);
    });
  }

  it('loses an address at once, however often it changed before', async () => {
    await storm(renumber);
    const published = allowed().filter((address) => address.startsWith('198.'));
    assert.equal(published.length <= 1, true);
    for (let i = 0; i < 30; i++) await pass(SECOND);
    assert.deepEqual(allowed(), ['192.0.2.1', '198.51.100.199']);
    await storm((i) => thief(['198.51.100.199', `198.51.100.${i % 100}`]));
    assert.ok(allowed().includes('198.51.100.199'));
    await thief(['203.0.113.7']);
    assert.equal(allowed().includes('198.51.100.199'), false);
  });

  it('does not delay changes of other Nodes, nor the first ones of its own', async () => {
    await storm(renumber);
    nodes = [node('victim', ['192.0.2.1', '192.0.2.2']), ...nodes.slice(1)];
    await deliver();
    assert.ok(allowed().includes('192.0.2.2'));
    for (let i = 0; i < 100; i++) await pass(SECOND);
    for (let i = 0; i < 5; i++) {
      await thief(['203.0.113.7'], i % 2 === 0 ? 'none' : 'worker');
      assert.equal(allowed().includes('203.0.113.7'), i % 2 === 1);
    }
  });

  it('reports addresses of pods in vain, also of those that are there later', async () => {
    report(['10.244.0.9', '10.244.0.10']);
    await pass(SECOND);
    assert.deepEqual(allowed(), ['10.244.0.9', '10.244.0.10', '192.0.2.1', '192.0.2.66']);
    const { labels } = VICTIM;
    const addresses = ['10.244.0.9'];
    pods = [{ kind: 'Pod', namespace: 'n', name: 'p', labels, serviceAccount: 's', addresses }];
    await deliver();
    assert.deepEqual(allowed().includes('10.244.0.9'), false);
    pods = [];
    await deliver();
    assert.deepEqual(allowed().includes('10.244.0.9'), true);
  });

  it("reports another Node's bridge in vain", async () => {
    nodes = [
      { ...VICTIM, podCIDRs: ['10.244.0.0/24'] },
      { ...node('thief', ['192.0.2.66'], 'none'), podCIDRs: ['10.244.1.0/24'] },
    ];
    await deliver();
    report(['10.244.0.1'], 'victim');
    report(['10.244.0.1', '192.0.2.1']);
    await pass(SECOND);
    assert.deepEqual(allowed(), ['10.244.0.1', '192.0.2.1']);
  });

  it('adds no address outside nodeCIDRs', async () => {
    await compiling.close();
    await start(['192.0.2.0/24']);
    report(['10.244.0.9', '192.0.2.67']);
    const raw = {
      apiVersion: 'v1',
      kind: 'Node',
      metadata: {
        name: 'thief',
        labels: VICTIM.labels,
        annotations: { 'nodewall.io/addresses': '0.0.0.0, 192.0.2.68, 203.0.113.1, 2001:db8::1' },
      },
      status: { addresses: [{ type: 'ExternalIP', address: '203.0.113.2' }] },
    };
    const { object, problems } = validateObject(raw, { nodeCIDRs: ['192.0.2.0/24'] });
    nodes = [VICTIM, object as Node];
    await deliver();
    await pass(SECOND);
    assert.deepEqual(allowed(), ['192.0.2.1', '192.0.2.67', '192.0.2.68']);
    assert.deepEqual(
      problems.map(({ severity, message }) => `${severity}: ${message}`),
      ['warning: outside nodeCIDRs, and left out: 203.0.113.2, 0.0.0.0, 203.0.113.1, 2001:db8::1'],
    );
  });
});
