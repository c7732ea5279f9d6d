/**
 * The rows of `nodewall diff` are true of the kernel: what is in a row has one verdict while the
 * agent enforces the old manifests and another with the new ones; all other flows have one verdict.
 */
import assert from 'node:assert/strict';
import type { Row } from '../../apis/difference/row.ts';
import { compile } from '../../controller/compile/compile.ts';
import { clusterDifference } from '../../controller/difference/cluster-difference.ts';
import { seededRandom } from '../../perf/generate/random.ts';
import { toClusterObjects, toConfig } from '../properties/pipeline.ts';
import { isInRow, wholeFlow } from '../properties/whole-flow.ts';
import { type PartialFlow, toCompleteFlow } from './complete-flow.ts';
import { dataplaneSuite, NFTABLES } from './dataplane.ts';
import { draw, PLAN } from './drawn.ts';
import { createEnforcedNode, type EnforcedNode } from './enforced-node.ts';
import { asObserved, type Flow, type Verdict } from './flow.ts';
import { NODE_NAME } from './manifests.ts';
import { observe } from './verdicts.ts';

/** Pairs of seeds of drawn.ts: two states of the same node, in NodePort policies too. */
const PAIRS = [
  [1001, 1002],
  [1004, 1003],
  [1008, 1012],
] as const;
/** Protocols that packets of the topology can have. */
const PROTOCOLS = ['tcp', 'udp', 'sctp', 'icmp', 'icmpv6', 'igmp', 47] as const;

dataplaneSuite('exact difference: the kernel agrees', NFTABLES, () => {
  let node: EnforcedNode;
  const seen = new Map<string, number>();
  const count = (key: string) => seen.set(key, (seen.get(key) ?? 0) + 1);
  before(async () => {
    node = await createEnforcedNode(PLAN);
  });
  after(() => node?.close());

  for (const [old, now] of PAIRS) {
    it(`seeds ${old} and ${now}`, async () => {
      const drawn = [old, now].map((seed) => draw(seed, { flows: 200, names: false }));
      const config = drawn[0]?.scenario.config ?? {};
      const random = seededRandom(`${old} ${now}`);
      const states = drawn.map(({ scenario }) => scenario.objects);
      const rows = rowsOf(states, config);
      const isIn = (flow: Flow) => {
        const whole = wholeFlow(flow as Parameters<typeof wholeFlow>[0], random, config, [4, 6]);
        return (row: Row): boolean => whole !== null && isInRow(row, whole);
      };
      const ofRows = rows.flatMap((row) => candidates(row).find((flow) => isIn(flow)(row)) ?? []);
      assert.ok(ofRows.length > rows.length / 2, `a packet for ${ofRows.length} of ${rows.length} rows`);
      const flows = [...ofRows, ...drawn.flatMap((one) => one.flows)].filter(({ src, dst }) => {
        return [src, dst].some((end) => !OWN.has(end));
      });
      const options = await node.configure({ ...config });
      const observed: Verdict[][] = [];
      for (const objects of states) {
        await node.write('node.json', objects);
        await node.again('--strict', ...options);
        observed.push(await observe(node.topology, flows));
      }
      const wrong = flows.filter((flow, i) => {
        const [before, after] = observed.map((verdicts) => verdicts[i]);
        const row = rows.find(isIn(flow));
        if (row === undefined) {
          count('same');
          return before !== after;
        }
        count(`${row.direction} ${row.traffic}`);
        count(`${row.before} to ${row.after}`);
        return before !== asObserved(flow, row.before) || after !== asObserved(flow, row.after);
      });
      const shown = wrong.slice(0, 5).map((flow) => {
        const verdicts = observed.map((list) => list[flows.indexOf(flow)]);
        return `${JSON.stringify(flow)}: ${verdicts.join(' to ')}; row ${JSON.stringify(rows.find(isIn(flow)))}`;
      });
      assert.equal(wrong.length, 0, `${wrong.length} of ${flows.length} flows:\n${shown.join('\n')}`);
    });
  }

  it('has seen every kind of difference', () => {
    for (const key of EXPECTED) assert.ok((seen.get(key) ?? 0) >= 5, `${key}: ${JSON.stringify([...seen])}`);
  });
});

const EXPECTED = [
  'same',
  'ingress Host',
  'ingress NodePort',
  'egress Host',
  'Allow to Drop',
  'Drop to Allow',
  'Allow to Reject',
  'Reject to Allow',
];

const OWN = new Set(PLAN.nodeAddresses.flatMap(({ v4, v6 }) => [v4, v6]));

function rowsOf(states: readonly (readonly object[])[], config: Parameters<typeof toConfig>[0]) {
  const [before, after] = states.map((objects) => compile(toClusterObjects(objects)));
  if (before === undefined || after === undefined) throw new Error('nothing compiled');
  const { groups } = clusterDifference(before, after, { config: toConfig(config), node: NODE_NAME });
  return groups.flatMap(({ changes }) => changes);
}

/** Packets of the topology that may be in a row. */
function candidates({ direction, traffic, ports, sourcePorts, icmp, igmp }: Row): Flow[] {
  return PLAN.clientAddresses.flatMap(({ v4, v6 }) =>
    [v4, v6].flatMap((peer) =>
      PROTOCOLS.flatMap((protocol) => {
        const flow: PartialFlow = {
          ...{ direction, traffic, protocol },
          ...(direction === 'ingress' ? { src: peer } : { dst: peer }),
          dstPort: ports?.[0]?.[0] ?? 8080,
          srcPort: sourcePorts?.[0]?.[0] ?? 33_000,
          icmpType: icmp?.types[0]?.[0] ?? 8,
          icmpCode: icmp?.codes?.[0]?.[0] ?? 0,
          igmpType: igmp?.types?.[0]?.[0] ?? 0x16,
        };
        return toCompleteFlow(flow, PLAN, 0) ?? [];
      }),
    ),
  );
}
