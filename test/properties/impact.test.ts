import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { FlowInventory, inventoryText, parseInventory } from '../../agent/flows/flow-inventory.ts';
import { fromFlowQuery, type SeenFlow, toFlowFilter } from '../../agent/flows/flow-kind.ts';
import { nodeFlows } from '../../agent/inspect/explanation.ts';
import { explainMany } from '../../agent/observe/indexed-rules.ts';
import type { Config } from '../../apis/config.ts';
import { allFlows, type NodeFlows } from '../../apis/node-flows.ts';
import type { ClusterObject, ClusterObjects } from '../../apis/objects.ts';
import { displayName, identityOf } from '../../apis/validate/metadata.ts';
import { compiler } from '../../controller/compile/compile.ts';
import { type ChangedFlow, FlowImpact } from '../../controller/impact/flow-impact.ts';
import { appliedObjects } from '../../controller/watch/applied-objects.ts';
import { addObject, emptyContent, LIST_NAMES } from '../../controller/watch/content.ts';
import { formatAddress, parseAddress } from '../../lib/net/address.ts';
import { seededRandom } from '../../perf/generate/random.ts';
import { editSteps } from '../generate/edit.ts';
import { ALL_FEATURES, type Scenario, scenario } from '../generate/scenario.ts';
import { toCluster } from '../oracle/cluster.ts';
import { type Answer, oracle } from '../oracle/oracle.ts';
import { count, type Seen } from './agree.ts';
import { toClusterObjects, toConfig } from './pipeline.ts';
import { checkAsync, flowCount, missingOf } from './runs.ts';
import { toFlow, type WholeFlow, wholeFlow } from './whole-flow.ts';

const SIZES = fc.constantFrom(1, 3, 8, 20);
const NOW = Date.parse('2026-01-08T00:00:00Z');
const EXPECTED = ['denied', 'allowed', 'same', 'NodePort', 'IPv6', 'icmp', 'untouched', 'applied'];

describe('the impact of a change on an inventory', function () {
  this.timeout(0);
  let stateDir: string;
  before(async () => {
    stateDir = await mkdtemp(join(tmpdir(), 'nodewall-impact-'));
  });
  after(() => rm(stateDir, { recursive: true }));

  it('is what the oracle says of each flow before and after', async function () {
    const seen: Seen = new Map();
    const drawn = SIZES.chain((size) => scenario({ size, flows: flowCount(80), features: ALL_FEATURES }));
    const pairs = fc.record({
      from: drawn,
      other: drawn,
      seed: fc.nat(1000),
      steps: fc.constantFrom(1, 3, 8),
    });
    await checkAsync(
      this,
      90,
      fc.noShrink(pairs),
      async ({ from, other, seed, steps }) => {
        const after = editSteps(from, other, { steps, seed }).at(-1)?.objects ?? [];
        const interfaceGroups = { ...other.config.interfaceGroups, ...from.config.interfaceGroups };
        const config = { ...from.config, interfaceGroups };
        const flows = [...from.flows, ...other.flows];
        await compare({ ...from, config, flows }, after, { seed, seen, stateDir });
      },
      missingOf(seen, EXPECTED, 1),
    );
  });
});

interface Run {
  readonly seed: number;
  readonly seen: Seen;
  readonly stateDir: string;
}

async function compare(
  from: Scenario,
  others: readonly object[],
  { seed, seen, stateDir }: Run,
): Promise<void> {
  const { objects, config: written, names, node } = from;
  const own = [objects, others].map(
    (list) => toCluster(list).nodes.find(({ name }) => name === node)?.addresses,
  );
  const [ownBefore, ownAfter] = own;
  if (ownBefore === undefined || ownAfter === undefined) return;
  const config = toConfig(written);
  const known = new WeakMap<object, ClusterObject | null>();
  const [was, will] = [toClusterObjects(objects, known), toClusterObjects(others, known)];
  const next = seed % 2 === 0 ? will : applied(was, others, will, config);
  if (next !== will) count(seen, 'applied');
  const compile = compiler();
  const [before, after] = [was, next].map((one) => ({ objects: one, compiled: compile(one) }));
  if (before === undefined || after === undefined) throw new Error('nothing compiled');

  const random = seededRandom(`flows ${seed}`);
  const families = ([4, 6] as const).filter((family) => ownBefore.some((one) => one.family === family));
  // An inventory has addresses in their shortest form.
  const canonical = (text: string) => formatAddress(parseAddress(text) ?? assert.fail(text));
  const whole = from.flows.flatMap((flow) => {
    const one = wholeFlow(flow, random, written, families);
    return one === null ? [] : [{ ...one, peer: canonical(one.peer) }];
  });
  const local = ({ family }: WholeFlow): string => {
    const address = ownBefore.find((one) => one.family === family);
    if (address === undefined) throw new Error('no address of the family');
    return formatAddress(address);
  };
  const inventory = new FlowInventory(NOW - 3_600_000);
  const byKind = new Map<string, WholeFlow>();
  for (const flow of whole) {
    const one = toSeenFlow(flow, local(flow));
    const kind = inventory.kindOf(one, NOW);
    inventory.seen(kind, one, { now: NOW, connections: 1 });
    byKind.set(kind.key, flow);
  }
  const lower = Object.entries(names).map(
    ([name, addresses]) => [name.toLowerCase().replace(/\.$/, ''), addresses] as const,
  );
  const flows = await answered(inventory, { node, config, stateDir });
  const impact = new FlowImpact(before, after, (state) => explainMany(state, config));
  const found = impact.of({ flows, names: new Map(lower) });

  const judges = [objects, others].map((list) => oracle({ objects: list, node, config: written, names }));
  const expected: Record<'denied' | 'allowed', string[]> = { denied: [], allowed: [] };
  for (const flow of byKind.values()) {
    const [a, b] = judges.map((judge) => judge(toFlow(flow, local(flow))));
    if (a === undefined || b === undefined) throw new Error('no judges');
    const change =
      a.verdict === 'Allow'
        ? b.verdict === 'Allow'
          ? 'same'
          : 'denied'
        : b.verdict === 'Allow'
          ? 'allowed'
          : 'same';
    count(seen, change);
    if (change === 'same') continue;
    expected[change].push(text(toFlow(flow, local(flow)), a, b));
    if (flow.traffic === 'NodePort') count(seen, 'NodePort');
    if (flow.family === 6) count(seen, 'IPv6');
    if ([1, 58].includes(flow.protocol)) count(seen, 'icmp');
  }
  for (const which of ['denied', 'allowed'] as const) {
    const ours = found[which].map((one) => text(one.flow, one.before, one.after));
    assert.deepEqual(ours.sort(), expected[which].sort(), which);
  }
  const isSame = ({ after: is }: ChangedFlow) => is.verdict === 'Allow';
  assert.ok(found.audited.every(isSame));
  if (!impact.concerned().includes(node)) {
    count(seen, 'untouched');
    assert.deepEqual([...expected.denied, ...expected.allowed], [], 'a node that is not touched');
  }
}

/** The answers of an agent that has saved and read this inventory, in pages. */
function answered(
  inventory: FlowInventory,
  { node, config, stateDir }: { readonly node: string; readonly config: Config; readonly stateDir: string },
): Promise<NodeFlows> {
  const read = parseInventory(inventoryText(inventory, node), NOW);
  const source = { ...read, read: async () => NOW, lastRead: () => NOW };
  return allFlows((query) => {
    query.set('lines', '20');
    return nodeFlows(stateDir, config, toFlowFilter(fromFlowQuery(query), NOW), source);
  });
}

function toSeenFlow(whole: WholeFlow, own: string): SeenFlow {
  const { direction, traffic, peer, group, protocol } = whole;
  const flow = toFlow(whole, own);
  return {
    direction,
    traffic,
    peer,
    group,
    protocol,
    verdict: 'Allow',
    port: flow.dstPort ?? null,
    type: flow.icmpType ?? flow.igmpType ?? null,
    code: flow.icmpCode ?? null,
    local: (direction === 'ingress' ? flow.dst : flow.src) ?? '',
    srcPort: flow.srcPort ?? null,
    originalDst: null,
    originalPort: null,
  };
}

/** The change as files with what differs, and the names of what is removed. */
function applied(
  was: ClusterObjects,
  others: readonly object[],
  will: ClusterObjects,
  config: Config,
): ClusterObjects {
  const all = (objects: ClusterObjects) =>
    LIST_NAMES.flatMap((list): readonly ClusterObject[] => objects[list]);
  const [old, stays] = [new Set(all(was)), new Set(all(will).map(identityOf))];
  const content = emptyContent('changed.yaml');
  const options = { interfaceGroups: Object.keys(config.interfaceGroups) };
  const isNew = new Set(
    all(will)
      .filter((object) => !old.has(object))
      .map(identityOf),
  );
  for (const raw of others) {
    const [object] = all(toClusterObjects([raw]));
    if (object !== undefined && isNew.has(identityOf(object)))
      addObject({ content, options, interned: new Map() }, raw, () => 1);
  }
  const removed = all(was)
    .filter((object) => !stays.has(identityOf(object)))
    .map((object) => ({ kind: object.kind.toUpperCase(), name: displayName(object) }));
  // A removal is of both API groups.
  const isAmbiguous = removed.some(({ kind, name }) =>
    all(will).some((one) => one.kind.toUpperCase() === kind && displayName(one) === name),
  );
  if (isAmbiguous) return will;
  const { objects, problems, absent } = appliedObjects(was, { contents: [content], removed }, options);
  const errors = problems.filter(({ severity }) => severity === 'error');
  assert.deepEqual([errors, absent], [[], []]);
  return objects;
}

function text(
  flow: object,
  ...answers: readonly Pick<Answer, 'verdict' | 'policy' | 'ruleIndex' | 'reason'>[]
): string {
  const fields = Object.entries(flow).sort(([a], [b]) => (a < b ? -1 : 1));
  const told = answers.map(({ verdict, policy, ruleIndex, reason }) => [verdict, policy, ruleIndex, reason]);
  return JSON.stringify([fields, told]);
}
