/**
 * A stolen node token: its reports change the statuses of all policies on the node, as often as the
 * server accepts. Statuses and Events due to other nodes must not wait, and the leader must not
 * compute all day.
 */
import assert from 'node:assert/strict';
import { type FailingRule, MOST_FAILING, type NodeReport } from '../../apis/node-report.ts';
import { type ClusterNetworkPolicy, NO_OBJECTS, type Node } from '../../apis/objects.ts';
import type { PolicyStatus } from '../../apis/policy-status.ts';
import { compiler } from '../../controller/compile/compile.ts';
import type { KubeApi } from '../../controller/kubeapi/kube-api.ts';
import { Hub } from '../../controller/publish/hub.ts';
import { FailureEvents } from '../../controller/status/failure-events.ts';
import { StatusKeeper } from '../../controller/status/keeper.ts';
import { ANTREA_TARGET, POLICY_TARGET, statusWriter } from '../../controller/status/writer.ts';
import { type FakeClock, fakeClock } from '../fake/fake-clock.ts';

/** 2,000 by `npm run test:long`. Either way they cannot all be written during an attack. */
const POLICIES = process.env.NODEWALL_RUNS === undefined ? 1300 : 2000;
const NODES = process.env.NODEWALL_RUNS === undefined ? 200 : 500;
/** The statuses of all policies take this long to write (seconds). */
const WHOLE = POLICIES / 10;

const nodes = Array.from({ length: NODES }, (_, i): Node => {
  return { kind: 'Node', name: `n${i}`, labels: {}, addresses: [] };
});
const policy = (index: number, generation = 1): ClusterNetworkPolicy => ({
  kind: 'ClusterNetworkPolicy',
  apiGroup: 'nodewall.io',
  name: `p${index}`,
  uid: `uid-${index}`,
  generation,
  spec: {
    priority: 1,
    appliedTo: [{ nodeSelector: {} }],
    ingress: [{ name: 'r', action: 'Drop', ports: [{ protocol: 'TCP', port: generation }] }],
  },
});
const failing = (index: number): FailingRule => {
  return { apiGroup: 'nodewall.io', policy: `p${index}`, generation: 1, rule: 'r', reason: 'x'.repeat(2048) };
};
const numbers = (from: number, count: number): number[] =>
  Array.from({ length: count }, (_, i) => (from + i) % POLICIES);

describe('reports of a stolen node token', function () {
  this.timeout(60_000);
  let clock: FakeClock;
  let hub: Hub;
  let keeper: StatusKeeper;
  const compile = compiler();
  let policies: readonly ClusterNetworkPolicy[];
  /** The statuses of p7 that were written. */
  let written: { readonly at: number; readonly status: PolicyStatus }[];
  let events: { readonly path: string; readonly time: number }[];
  /** How often a status was computed: each time asks for the date. */
  let computed = 0;

  const request: KubeApi = async ({ path, body }) => {
    const { status: patch, metadata } = body as { status?: object; metadata?: { name?: string } };
    if (path.includes('/events')) events.push({ path: `${path}/${metadata?.name ?? ''}`, time: clock.now() });
    const [, name] = /\/(p\d+)\/status$/.exec(path) ?? [];
    if (name === undefined || patch === undefined) return undefined as never;
    const fields = Object.entries(patch).filter(([, value]) => value !== null);
    const status = Object.fromEntries(fields) as unknown as PolicyStatus;
    if (name === 'p7') written.push({ at: clock.now(), status });
    const generation = policies[Number(name.slice(1))]?.generation ?? 1;
    const uid = `uid-${name.slice(1)}`;
    keeper.version(null, { apiGroup: 'nodewall.io', name, uid, generation, since: 0, status });
    return undefined as never;
  };

  async function pass(seconds: number, each = (_second: number): void => {}): Promise<void> {
    for (let i = 0; i < seconds * 10; i++) {
      if (i % 300 === 0) for (const { name } of nodes) report(name, said.get(name));
      if (i % 10 === 0) each(i / 10);
      clock.pass(100);
      for (let j = 0; j < 4; j++) await new Promise(setImmediate);
    }
  }
  function publish(): void {
    const compiled = compile({ ...NO_OBJECTS, nodes, policies });
    hub.publish(compiled);
    const objects = { ...NO_OBJECTS, nodes, policies };
    keeper.publish({ objects, problems: [], files: 0, complete: true }, compiled, hub.revision);
  }
  /** What each node reports each half a minute. */
  const said = new Map<string, Partial<NodeReport>>();
  function report(node: string, more: Partial<NodeReport> = {}): void {
    said.set(node, more);
    keeper.report({ node, enforced: hub.revision, enabled: true, failing: [], ...more } as NodeReport);
  }

  before(async () => {
    clock = fakeClock();
    hub = new Hub({ gate: true });
    const date = (): Date => {
      computed++;
      return new Date(clock.now());
    };
    const failed = (error: unknown): never => assert.fail(error as Error);
    const all = Object.assign(clock, { date });
    keeper = new StatusKeeper({
      writer: statusWriter(request, clock, { written() {}, failed }, POLICY_TARGET),
      antreaWriter: statusWriter(request, clock, { written() {}, failed }, ANTREA_TARGET),
      events: new FailureEvents({ request, clock: all, identity: 'c', failed }),
      clock: all,
    });
    policies = numbers(0, POLICIES).map((index) => policy(index));
    keeper.gate(true);
    await keeper.lead(true);
    events = [];
    written = [];
    for (const { name, uid, generation } of policies)
      keeper.version(null, { apiGroup: 'nodewall.io', name, uid, generation, since: 0, status: null });
    publish();
    for (const { name } of nodes) report(name);
    await pass(WHOLE + 70);
    assert.equal(written.at(-1)?.status.phase, 'Realized');
  });

  const attacks: Readonly<Record<string, (second: number) => Partial<NodeReport>>> = {
    'other failures each second': (second) => {
      return { failing: numbers(second * MOST_FAILING, MOST_FAILING).map(failing) };
    },
    'off and on': (second) => (second % 2 === 0 ? { off: 'x' } : {}),
    'nothing in force, and all': (second) => (second % 2 === 0 ? { enforced: null } : {}),
    'old and new revisions': (second) => (second % 2 === 0 ? { enforced: 'x.1' } : {}),
  };
  for (const [what, attack] of Object.entries(attacks)) {
    it(`delay no status of others: ${what}`, async () => {
      await pass(200);
      const before = computed;
      let at = 0;
      events = [];
      written = [];
      await pass(120, (second) => {
        report('n0', attack(second));
        if (second !== 60) return;
        at = clock.now();
        report('n1', { failing: [failing(7)] });
      });
      const told = written.find(({ status }) => status.failingNodes?.some(({ node }) => node === 'n1'));
      assert.ok(told !== undefined, 'not written');
      assert.ok(told.at - at <= 3000, `the status came after ${told.at - at} ms`);
      assert.ok(JSON.stringify(told.status).length < 20_000);
      assert.ok(events.some(({ path, time }) => path.includes('/p7.') && time >= at && time < at + 40_000));
      // Without ReportDamper each of the 120 reports computes the statuses that it touches.
      const touched = what === 'other failures each second' ? 2 * MOST_FAILING : POLICIES;
      assert.ok(computed - before < 60 * touched, `${computed - before} statuses computed`);
      report('n0');
      report('n1');
      await pass(WHOLE + 30);
      assert.equal(written.at(-1)?.status.phase, 'Realized');
    });
  }
});
