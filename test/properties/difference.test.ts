import assert from 'node:assert/strict';
import fc from 'fast-check';
import type { Row } from '../../apis/difference/row.ts';
import type { ClusterObject } from '../../apis/objects.ts';
import { compile, compiler } from '../../controller/compile/compile.ts';
import {
  changeKey,
  clusterDifference,
  type WideChange,
} from '../../controller/difference/cluster-difference.ts';
import { type Address, formatAddress } from '../../lib/net/address.ts';
import { seededRandom } from '../../perf/generate/random.ts';
import { editSteps } from '../generate/edit.ts';
import { ALL_FEATURES, type Scenario, scenario } from '../generate/scenario.ts';
import { parseAddress } from '../oracle/address.ts';
import { toCluster } from '../oracle/cluster.ts';
import { type Answer, oracle } from '../oracle/oracle.ts';
import { count, type Seen } from './agree.ts';
import { flowsAtRows } from './flows-at-rules.ts';
import { resolver, toClusterObjects, toConfig } from './pipeline.ts';
import { check, flowCount, missingOf } from './runs.ts';
import { isInRow, toFlow, type WholeFlow, wholeFlow } from './whole-flow.ts';

const SIZES = fc.constantFrom(1, 3, 8, 8, 20);

describe('the difference of two clusters', function () {
  this.timeout(0);

  it('holds exactly the flows whose verdict differs', function () {
    const seen: Seen = new Map();
    const drawn = SIZES.chain((size) => scenario({ size, flows: flowCount(60), features: ALL_FEATURES }));
    const pairs = fc.record({
      from: drawn,
      other: drawn,
      seed: fc.nat(1000),
      steps: fc.constantFrom(1, 2, 6, 0),
    });
    check(
      this,
      60,
      fc.noShrink(pairs),
      ({ from, other, seed, steps }) => {
        // Without steps: two clusters with nothing in common.
        const after =
          steps === 0 ? other.objects : (editSteps(from, other, { steps, seed }).at(-1)?.objects ?? []);
        const interfaceGroups = { ...other.config.interfaceGroups, ...from.config.interfaceGroups };
        compare(
          { ...from, config: { ...from.config, interfaceGroups } },
          after,
          [...from.flows, ...other.flows],
          seed,
          seen,
        );
      },
      missingOf(seen, EXPECTED),
    );
  });
});

const EXPECTED = [
  'Allow to Drop',
  'Drop to Allow',
  'Allow to Reject',
  'Drop to Reject',
  'same',
  'NodePort',
  'IPv6',
  'icmp',
  'igmp',
  'one compiler',
  'two compilers',
  'wide change',
  'exception of a wide change',
];

function compare(
  { objects, config: written, names }: Scenario,
  others: readonly object[],
  flows: Scenario['flows'],
  seed: number,
  seen: Seen,
): void {
  const config = toConfig(written);
  // Of one compiler, both states share what did not change, and that is left out of the comparison.
  const one = compiler();
  const known = new WeakMap<object, ClusterObject | null>();
  const isShared = seed % 2 === 0;
  count(seen, isShared ? 'one compiler' : 'two compilers');
  const [before, after] = [objects, others].map((list) =>
    isShared ? one(toClusterObjects(list, known)) : compile(toClusterObjects(list)),
  );
  if (before === undefined || after === undefined) throw new Error('nothing compiled');
  const found = clusterDifference(before, after, {
    config,
    resolve: { before: resolver(names), after: resolver(names) },
  });
  const random = seededRandom(`flows ${seed}`);
  for (const node of [...before.nodeAddresses.keys()]
    .filter((name) => after.nodeAddresses.has(name))
    .slice(0, 3)) {
    const group = found.groups.find(({ nodes }) => nodes.includes(node));
    const rows = group?.changes ?? [];
    const wide = group === undefined ? [] : found.wide(group);
    const [from, to] = [objects, others].map((list) => ({
      judge: oracle({ objects: list, node, config: written, names }),
      own: toCluster(list).nodes.find(({ name }) => name === node)?.addresses ?? [],
    }));
    if (from === undefined || to === undefined) throw new Error('no judges');
    const families = ([4, 6] as const).filter((family) =>
      [from, to].every(({ own }) => own.some((one) => one.family === family)),
    );
    const own = [...from.own, ...to.own];
    const isOwn = (text: string): boolean => {
      const address = parseAddress(text);
      const isLoopback = address?.family === 4 ? address.value >> 24n === 127n : address?.value === 1n;
      return (
        isLoopback || own.some(({ family, value }) => family === address?.family && value === address.value)
      );
    };
    const whole = [
      ...flows.flatMap((flow) => wholeFlow(flow, random, written, families) ?? []),
      ...flowsAtRows(rows, random, families, flowCount(60)),
    ].filter(({ peer }) => !isOwn(peer));
    for (const flow of whole) {
      const local = (side: typeof from): string =>
        text(side.own.find(({ family }) => family === flow.family));
      const answers = [from.judge(toFlow(flow, local(from))), to.judge(toFlow(flow, local(to)))] as const;
      assertRow(rows, flow, answers, seen);
      assertWide({ rows, wide }, flow, answers, seen);
    }
  }
}

/** Flows that are neither exempt nor spoofed are in a row of the change, or in an exception. */
function assertWide(
  { rows, wide }: { readonly rows: readonly Row[]; readonly wide: readonly WideChange[] },
  flow: WholeFlow,
  answers: readonly Answer[],
  seen: Seen,
): void {
  if (answers.some(({ reason }) => reason === 'exempt' || reason === 'spoofed')) return;
  for (const { change, exceptions } of wide) {
    if (flow.direction !== change.direction || flow.traffic !== change.traffic) continue;
    const isChanged = rows.some((row) => changeKey(row) === changeKey(change) && isInRow(row, flow));
    const isExcepted = exceptions.some((row) => isInRow(row, flow));
    count(seen, isChanged ? 'wide change' : 'exception of a wide change');
    assert.equal(isExcepted, !isChanged, JSON.stringify({ flow, change, exceptions }));
  }
}

function assertRow(
  rows: readonly Row[],
  flow: WholeFlow,
  [before, after]: readonly [Answer, Answer],
  seen: Seen,
): void {
  const holding = rows.filter((row) => isInRow(row, flow));
  const differs = before.verdict !== after.verdict;
  count(seen, differs ? `${before.verdict} to ${after.verdict}` : 'same');
  if (differs) {
    if (flow.traffic === 'NodePort') count(seen, 'NodePort');
    if (flow.family === 6) count(seen, 'IPv6');
    if ([1, 58].includes(flow.protocol)) count(seen, 'icmp');
    if (flow.protocol === 2) count(seen, 'igmp');
  }
  const what = JSON.stringify({ flow, before, after, holding });
  assert.equal(holding.length, differs ? 1 : 0, what);
  const [row] = holding;
  if (row === undefined) return;
  assert.deepEqual([row.before, row.after], [before.verdict, after.verdict], what);
  for (const [rule, answer] of [
    [row.ruleBefore, before],
    [row.ruleAfter, after],
  ] as const) {
    assert.equal(rule?.policy ?? null, answer.policy, what);
    assert.equal(rule?.ruleIndex ?? null, answer.ruleIndex, what);
    if (answer.rule !== null) assert.equal(rule?.rule, answer.rule, what);
  }
}

function text(address: Address | undefined): string {
  if (address === undefined) throw new Error('no address of the family');
  return formatAddress(address);
}
