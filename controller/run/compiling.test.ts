import assert from 'node:assert/strict';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { DEFAULT_EGRESS_CONFIG } from '../../apis/egress/config.ts';
import { type ClusterObjects, NO_OBJECTS, type Pod } from '../../apis/objects.ts';
import type { Log } from '../../lib/process/log.ts';
import { fakeGateway, fakeNode, fakePod, fakePolicy } from '../../test/fake/egress-objects.ts';
import { fakeClock } from '../../test/fake/fake-clock.ts';
import { compiler } from '../compile/compile.ts';
import { EgressCompiling } from '../egress/egress-compiling.ts';
import { Hub } from '../publish/hub.ts';
import type { Snapshot } from '../watch/source.ts';
import { Compiling } from './compiling.ts';

const SNAPSHOT: Snapshot = { objects: NO_OBJECTS, problems: [], files: 0, complete: true };

describe('compiling', () => {
  function compiling(failures: number, delivered = (): void => {}) {
    const said: string[] = [];
    let made = 0;
    const one = new Compiling({
      hub: {
        prepare: function* () {
          return () => said.push('publish') && 0;
        },
        setEndpoints: () => void said.push('endpoints'),
        revision: 'a.1',
      },
      metrics: {
        compiled: () => void said.push('measured'),
        published: () => {},
        failed: () => void said.push('failed'),
        delayed: () => void said.push('delayed'),
      },
      log: { error: (text: string) => said.push(text) } as unknown as Log,
      clock: fakeClock(),
      compiler: () => {
        made++;
        if (made > failures) return compiler();
        const fault = (): never => {
          throw new Error('a fault');
        };
        return Object.assign(fault, { prepare: fault });
      },
      sayProblems: () => void said.push('problems'),
      published: ({ revision }) => void said.push(`published ${revision}`),
      delivered,
    });
    return { one, said };
  }
  const FAULT = ['failed', 'internal error; agents keep the published rules'];
  const GOOD = ['endpoints', 'publish', 'measured', 'published a.1'];

  it('publishes, then calls back', async () => {
    const { one, said } = compiling(0);
    await one.deliver(SNAPSHOT);
    assert.deepEqual(said, ['problems', ...GOOD]);
    assert.equal(one.snapshot, SNAPSHOT);
  });

  it('does not compile again for what fails when all is published', async () => {
    const { one, said } = compiling(0, () => {
      throw new Error('a reader fails');
    });
    await assert.rejects(one.deliver(SNAPSHOT), /a reader fails/);
    assert.deepEqual(said, ['problems', ...GOOD]);
  });

  it('retries once from scratch after an internal error', async () => {
    const { one, said } = compiling(1);
    await one.deliver(SNAPSHOT);
    assert.deepEqual(said, ['problems', ...FAULT, ...GOOD]);
  });

  it('keeps the published state after two internal errors, and continues with the next snapshot', async () => {
    const { one, said } = compiling(2);
    await one.deliver(SNAPSHOT);
    assert.deepEqual(said.splice(0), ['problems', ...FAULT, ...FAULT]);
    assert.equal(one.snapshot, null);
    await one.deliver(SNAPSHOT);
    assert.deepEqual(said, ['problems', ...GOOD]);
  });

  it('says once which Services have endpoints that no pod has, and counts them', async () => {
    const said: object[] = [];
    const counts: number[] = [];
    const nothing = () => {};
    const one = new Compiling({
      hub: new Hub({ gate: true }),
      metrics: {
        compiled: (_, { ignoredEndpoints }) => void counts.push(ignoredEndpoints),
        published: nothing,
        failed: nothing,
        delayed: nothing,
      },
      log: { warn: (_: string, fields: object) => said.push(fields) } as unknown as Log,
      clock: fakeClock(),
      sayProblems: nothing,
      published: nothing,
    });
    const web = { namespace: 'shop', name: 'web' };
    const egress = [{ action: 'Allow' as const, toServices: [web] }];
    const spec = { priority: 1, appliedTo: [{ nodeSelector: {} }], egress };
    const slice = { kind: 'EndpointSlice', namespace: 'shop', name: 'web-1', service: 'web' } as const;
    const objects: ClusterObjects = {
      ...NO_OBJECTS,
      services: [{ kind: 'Service', ...web, selector: null, clusterIPs: [], ports: [] }],
      endpointSlices: [
        { ...slice, addresses: ['10.1.0.1', '203.0.113.9'], ports: [{ protocol: 'TCP', port: 80 }] },
      ],
      policies: [
        {
          kind: 'ClusterNetworkPolicy',
          apiGroup: 'nodewall.io',
          name: 'p',
          uid: '',
          generation: 0,
          spec,
        },
      ],
    };
    const pod = (name: string, address: string): Pod => {
      const rest = { labels: {}, serviceAccount: 'default', addresses: [address] };
      return { kind: 'Pod', namespace: 'shop', name, ...rest };
    };
    const states = [
      [pod('a', '10.1.0.1')],
      [],
      [pod('a', '10.1.0.1'), pod('b', '203.0.113.9')],
      [pod('a', '10.1.0.1')],
    ];
    for (const pods of states) await one.deliver({ ...SNAPSHOT, objects: { ...objects, pods } });
    assert.deepEqual(counts, [1, 2, 0, 1]);
    const fields = { stage: 'compile', name: 'shop/web', count: 1, ignored: ['203.0.113.9'] };
    assert.deepEqual(said, [fields, fields]);
    assert.deepEqual(one.leftOutServices, ['shop/web']);
  });
});

const [NODES, PODS, POLICIES] = [20, 400, 16];

/** Nothing takes time but what is measured: each look at the clock finds a slice used up. */
function hastyClock() {
  let now = 0;
  return { ...fakeClock(), now: () => (now += 1_000) };
}

function snapshotOf(pods: readonly Pod[]): Snapshot {
  const list = <T>(length: number, of: (i: number) => T): T[] => Array.from({ length }, (_, i) => of(i));
  const objects = {
    ...NO_OBJECTS,
    nodes: [
      fakeNode('g', ['192.0.2.200']),
      ...list(NODES, (i) => fakeNode(`w${i}`, [`192.0.2.${i}`], { labels: {} })),
    ],
    namespaces: [{ kind: 'Namespace' as const, name: 'shop', labels: {} }],
    egressGateways: [fakeGateway('g', { source: 'Node', default: true })],
    egressPolicies: list(POLICIES, (i) => {
      const appliedTo = [{ podSelector: { matchLabels: { [`l${i}`]: 'yes' } } }];
      return fakePolicy(`shop/p${i}`, { appliedTo, to: [`198.51.${i}.0/24`] });
    }),
    pods,
  };
  return { objects, problems: [], files: 0, complete: true };
}

/** Each pod has labels, and so policies, that few others have. */
const pods = (isLabelled: boolean): Pod[] =>
  Array.from({ length: PODS }, (_, n) => {
    const chosen = Array.from({ length: POLICIES }, (_, i) => i).filter(
      (i) => isLabelled && (n >> (i % 8)) & 1,
    );
    const labels = Object.fromEntries(chosen.map((i) => [`l${i}`, 'yes']));
    return fakePod(`shop/p${n}`, [`10.244.${n >> 8}.${n & 255}`], { node: `w${n % NODES}`, labels });
  });

describe('compiling of what a namespace can cause', () => {
  function start() {
    const said: string[] = [];
    const hub = new Hub({ gate: true, epoch: 'e' });
    const nothing = (): void => {};
    const log = { warn: nothing } as unknown as Log;
    const compiling = new Compiling({
      hub,
      extension: new EgressCompiling({
        config: DEFAULT_EGRESS_CONFIG,
        published: nothing,
        log,
      }),
      metrics: { compiled: nothing, published: nothing, failed: assert.fail, delayed: nothing },
      log,
      clock: hastyClock(),
      sayProblems: () => void said.push('begun'),
      published: () => void said.push('published'),
    });
    return { compiling, hub, said };
  }

  it('lets the event loop serve others, who see nothing of it before it is whole', async () => {
    const { compiling, hub } = start();
    await compiling.deliver(snapshotOf(pods(false)));
    const lines: string[] = [];
    hub.watch('w1', null, (sent) => lines.push(...sent.map(({ body }) => body.toString())), { egress: true });
    lines.length = 0;
    const [objects, before] = [compiling.objects, hub.view('w1')];
    const snapshot = snapshotOf(pods(true));
    let publishedAt = -1;
    let turns = 0;
    let isDone = false;
    const delivered = compiling
      .deliver(snapshot, () => {
        publishedAt = turns;
        assert.deepEqual([compiling.objects, lines], [objects, []]);
      })
      .then(() => {
        isDone = true;
      });
    for (; !isDone; turns++) {
      const wasPublished = publishedAt >= 0;
      assert.equal(compiling.snapshot === snapshot, wasPublished);
      assert.equal(lines.length > 0, wasPublished);
      if (!wasPublished) assert.deepEqual(hub.view('w1'), before);
      await nextTurn();
    }
    await delivered;
    assert.ok(turns > PODS + NODES, `others had ${turns} turns`);
    assert.notDeepEqual(hub.view('w1').egress?.classes, before.egress?.classes);
    // The same as if it were compiled at once.
    const anew = start();
    await anew.compiling.deliver(snapshot);
    for (const node of ['g', 'w1', 'w7']) assert.deepEqual(hub.view(node), anew.hub.view(node));
  });

  it('serves who begins or ends to watch meanwhile', async () => {
    const { compiling, hub } = start();
    await compiling.deliver(snapshotOf(pods(false)));
    const seen = { lines: 0 };
    const delivered = compiling.deliver(snapshotOf(pods(true)));
    await nextTurn();
    const one = hub.watch('w1', null, () => {}, { egress: true });
    hub.watch('w2', null, (sent) => (seen.lines += sent.length), { egress: true });
    const whole = seen.lines;
    await nextTurn();
    one.close();
    hub.setGate(false);
    hub.setGate(true);
    await delivered;
    assert.ok(seen.lines > whole + 4, `${seen.lines} lines, ${whole} of them at first`);
    assert.deepEqual(hub.gate, true);
  });

  it('does not begin with a state before the last one is published', async () => {
    const { compiling, said } = start();
    await compiling.deliver(snapshotOf(pods(false)));
    said.length = 0;
    const first = compiling.deliver(snapshotOf(pods(true)));
    await nextTurn();
    await Promise.all([first, compiling.useReports(), compiling.deliver(snapshotOf(pods(false)))]);
    assert.deepEqual(said, ['begun', 'published', 'begun', 'published', 'begun', 'published']);
    await compiling.close();
  });
});
