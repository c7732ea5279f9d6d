/**
 * The rows of `nodewall diff` are true of the kernel: what is in a row has one verdict while the
 * agent enforces the old manifests and another with the new ones; all other flows have one verdict.
 */

import assert from 'node:assert/strict';
import type { Row } from '../../apis/difference/row.ts';
import { compile } from '../../controller/compile/compile.ts';
import { clusterDifference } from '../../controller/difference/cluster-difference.ts';
import { seededRandom } from '../../perf/generate/random.ts';
import type { AddressPlan } from '../netns/topology.ts';
import { toClusterObjects, toConfig } from '../properties/pipeline.ts';
import { isInRow, wholeFlow } from '../properties/whole-flow.ts';
import { dataplaneSuite, NFTABLES } from './dataplane.ts';
import { draw, PLAN } from './drawn.ts';
import { createEnforcedNode, type EnforcedNode } from './enforced-node.ts';
import { asObserved, type Flow, type Verdict } from './flow.ts';
import { NODE_NAME } from './manifests.ts';
import { hindrance, packetsFor, plansFor } from './row-packets.ts';
import { observe } from './verdicts.ts';

/** Pairs of seeds of drawn.ts: two states of the same node, in NodePort policies too. */
const PAIRS: readonly (readonly [number, number])[] = [
  [1001, 1002],
  [1004, 1003],
  [1008, 1012],
  // difference.long.ts sets how many more; every fourth seed has NodePort policies.
  ...Array.from({ length: Number(process.env.NODEWALL_PAIRS ?? 0) }, (_, i) => {
    return [2000 + 2 * i, 2001 + 2 * i + 2 * (i % 3)] as const;
  }),
];
dataplaneSuite('exact difference: the kernel agrees', NFTABLES, () => {
  let node: EnforcedNode;
  const seen = new Map<string, number>();
  const count = (key: string) => seen.set(key, (seen.get(key) ?? 0) + 1);
  before(async () => {
    node = await createEnforcedNode(PLAN);
  });
  after(() => node?.close());

  for (const [old, now] of PAIRS) {
    it(`seeds ${old} and ${now}`, async function () {
      this.timeout(120_000);
      const drawn = [old, now].map((seed) => draw(seed, { flows: 200, names: false }));
      const config = drawn[0]?.scenario.config ?? {};
      const random = seededRandom(`${old} ${now}`);
      const states = drawn.map(({ scenario }) => scenario.objects);
      const rows = rowsOf(states, config);
      const isIn = (flow: Flow) => {
        const whole = wholeFlow(flow as Parameters<typeof wholeFlow>[0], random, config, [4, 6]);
        return (row: Row): boolean => whole !== null && isInRow(row, whole);
      };
      const packetOf = (row: Row, plan: AddressPlan): Flow | undefined =>
        [...packetsFor(row, plan)].find((one) => isIn(one)(row));

      /** Observes both states on a node; the rows and the kernel agree. */
      const agree = async (at: EnforcedNode, flows: readonly Flow[]): Promise<void> => {
        const options = await at.configure({ ...config });
        const observed: Verdict[][] = [];
        for (const objects of states) {
          await at.write('node.json', objects);
          await at.again('--strict', ...options);
          observed.push(await observe(at.topology, flows));
        }
        const wrong = flows.flatMap((flow, i) => {
          const [before, after] = observed.map((verdicts) => verdicts[i]);
          const row = rows.find(isIn(flow));
          count(row === undefined ? 'same' : `${row.direction} ${row.traffic}`);
          if (row !== undefined) count(`${row.before} to ${row.after}`);
          const isRight =
            row === undefined
              ? before === after
              : before === asObserved(flow, row.before) && after === asObserved(flow, row.after);
          return isRight
            ? []
            : [`${JSON.stringify(flow)}: ${before} to ${after}; row ${JSON.stringify(row)}`];
        });
        const shown = wrong.slice(0, 5).join('\n');
        assert.equal(wrong.length, 0, `${wrong.length} of ${flows.length} flows:\n${shown}`);
      };

      const here = rows.map((row) => packetOf(row, PLAN));
      const flows = [...here, ...drawn.flatMap((one) => one.flows)]
        .filter((flow) => flow !== undefined)
        .filter(({ src, dst }) => [src, dst].some((end) => !OWN.has(end)));
      await agree(node, flows);
      const others = rows.filter((row, i) => {
        const reason = here[i] === undefined ? hindrance(row, PLAN) : null;
        count(here[i] === undefined ? `no packet: ${reason ?? 'of a client of the plan'}` : 'a packet');
        return here[i] === undefined && reason === null;
      });
      const plans = plansFor(others, PLAN);
      for (const { plan, rows: some } of plans) {
        const elsewhere = await createEnforcedNode(plan);
        try {
          const packets = some.map(
            (row) => packetOf(row, plan) ?? assert.fail(`no packet for ${JSON.stringify(row)}`),
          );
          await agree(elsewhere, packets);
        } finally {
          await elsewhere.close();
        }
        for (const _ of some) count('a packet of a client placed for its row');
      }
      assert.equal(plans.flatMap((one) => one.rows).length, others.length);
    });
  }

  it('has seen every kind of difference', () => {
    process.stdout.write(`${[...seen].map(([key, times]) => `${times} ${key}`).join('; ')}\n`);
    for (const key of EXPECTED) assert.ok((seen.get(key) ?? 0) >= 5, `${key}: ${JSON.stringify([...seen])}`);
  });
});

const EXPECTED = [
  'same',
  'a packet',
  'a packet of a client placed for its row',
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
