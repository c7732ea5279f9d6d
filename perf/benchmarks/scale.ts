import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import type { Namespace } from '../../test/netns/namespace.ts';
import { addressPlan, createTopology } from '../../test/netns/topology.ts';
import { type Floor, kernelFloor } from '../floor/floor.ts';
import { ruleSet } from '../generate/kinds.ts';
import { addressLists, distinctSets, ipv4Only, withCrowd } from '../generate/large.ts';
import { type RuleSet, writeRuleSet } from '../generate/ruleset.ts';
import { startAgent } from '../measure/agent.ts';
import { amount, atMost, type Benchmark, type Figure, figure, type Settings } from '../measure/figure.ts';
import { column, runTrial } from '../measure/process.ts';
import { median } from '../measure/statistics.ts';

const RULES = 10_000;
const CROWD = 100_000;
const LISTS = { rules: 200, addresses: 5000 } as const;
/** After the agent has enforced. */
const QUIET = 8_000;
type Row = Record<string, number>;

export const scale: Benchmark = {
  name: 'scale',
  title: '10,000 rules, 1,000,000 addresses',
  how: 'A cluster of IPv4, unless it says otherwise. perf/trials/scale.ts: compile, view, render and NodeRuleReconciler.apply in an empty network namespace, then 21 policies edited and 21 times a pod taken away and added (the medians are one trial). perf/floor: the smallest transaction by libnftnl that does the same, sent to a table with 10,000 chains of IPv4 rules, the processor’s caches emptied before each change of it; ×: nodewall’s time in the kernel against it. Memory is VmRSS of `bin/nodewall agent`.',
  async run(settings) {
    const shared = await rows(ipv4Only(ruleSet('ports', RULES)), settings, { edits: 21, pods: 0 });
    const both = await rows(ruleSet('ports', RULES), settings, { edits: 21, pods: 0 });
    const distinct = await rows(distinctSets(RULES), settings, { edits: 0, pods: 0 });
    const crowded = await rows(withCrowd(distinctSets(RULES), CROWD), settings, { edits: 0, pods: 21 });
    const floors = {
      element: await floor(settings, 'element'),
      chain: await floor(settings, 'chain'),
      rule: await floor(settings, 'rule'),
      sets: await floor(settings, 'sets'),
      setsByName: await floor(settings, 'setsByName'),
      setsAndRules: await floor(settings, 'setsAndRules'),
    };
    return [
      ...applyFigures(shared, distinct, floors),
      ...changeFigures(shared, crowded, floors),
      ...bothFamilies(both),
      ...(await millionFigures(settings)),
    ];
  },
};

type Floors = Readonly<Record<Floor, readonly number[]>>;

const seconds = (values: readonly number[]) => values.map((milliseconds) => milliseconds / 1000);

function applyFigures(shared: readonly Row[], distinct: readonly Row[], floors: Floors): Figure[] {
  const ofFloor = column(distinct, 'applyKernel').map((value) => value / median(floors.setsAndRules));
  return [
    figure(
      'compile + render of 10,000 rules, 200 lists of peers',
      's',
      seconds(column(shared, 'compileRender')),
      {
        target: atMost(0.4),
      },
    ),
    figure('… of it render', 's', seconds(column(shared, 'render'))),
    figure('full apply of them', 's', seconds(column(shared, 'apply')), { target: atMost(0.4) }),
    figure('… of it in the kernel', 's', seconds(column(shared, 'applyKernel'))),
    figure(
      'full apply of 10,000 rules with 10,000 distinct address sets',
      's',
      seconds(column(distinct, 'apply')),
      {
        target: atMost(1.5),
        note: `${distinct[0]?.sets} kernel sets`,
      },
    ),
    figure('… of it in the kernel', 's', seconds(column(distinct, 'applyKernel'))),
    figure('floor: 10,000 sets of three addresses in one transaction', 's', seconds(floors.sets)),
    figure('floor: the same, elements by the set’s name as nft sends them', 's', seconds(floors.setsByName)),
    figure('floor: those sets, and 10,000 rules that each look one up', 's', seconds(floors.setsAndRules)),
    figure('… the kernel’s part of the full apply against that floor', '×', ofFloor),
  ];
}

function changeFigures(shared: readonly Row[], crowded: readonly Row[], floors: Floors): Figure[] {
  const against = (rows: readonly Row[], name: string, floor: readonly number[]) =>
    column(rows, name).map((value) => value / median(floor));
  return [
    figure('one policy of 10,000 rules’ worth edited: event to enforced', 'ms', column(shared, 'edit'), {
      target: atMost(10),
      note: 'no debounce',
    }),
    figure('… of it in the kernel', 'ms', column(shared, 'editKernel'), { target: atMost(2) }),
    figure('… of it apply', 'ms', column(shared, 'editApply')),
    figure('floor: one chain’s rule replaced among 10,000 chains', 'ms', floors.rule),
    figure('… in the kernel against that floor', '×', against(shared, 'editKernel', floors.rule)),
    figure('floor: one chain, its rule and its map element more', 'ms', floors.chain),
    figure(
      'one address added to a 100,000-member set, 10,000 other sets: apply',
      'ms',
      column(crowded, 'add'),
      {
        target: atMost(1),
      },
    ),
    figure('… of it in the kernel', 'ms', column(crowded, 'addKernel')),
    figure('… compile, view and render included', 'ms', column(crowded, 'addAll')),
    figure('one address taken from it: apply', 'ms', column(crowded, 'remove')),
    figure('floor: one element in a table with 10,000 chains', 'ms', floors.element),
    figure('… in the kernel against that floor', '×', against(crowded, 'addKernel', floors.element)),
  ];
}

/** Each rule for pods or nodes is two rules of nft then. */
function bothFamilies(rows: readonly Row[]): Figure[] {
  const name = 'where pods and nodes have IPv4 and IPv6';
  return [
    figure(`${name}: compile + render`, 's', seconds(column(rows, 'compileRender'))),
    figure(`${name}: full apply`, 's', seconds(column(rows, 'apply'))),
    figure(`${name}: one policy edited, event to enforced`, 'ms', column(rows, 'edit')),
    figure('… of it in the kernel', 'ms', column(rows, 'editKernel')),
  ];
}

async function millionFigures(settings: Settings): Promise<Figure[]> {
  const set = addressLists(LISTS.rules, LISTS.addresses);
  const loads = await rows(set, settings, { edits: 0, pods: 0 });
  const agents: Row[] = [];
  // Half a minute each.
  for (let i = 0; i < amount(settings, [0, 1, 3]); i++)
    agents.push(await agentMemory(set, join(settings.folder, `agent-${i}`)));
  return [
    figure('1,000,000 addresses in 200 sets: load', 's', seconds(column(loads, 'apply')), {
      target: atMost(2.5),
    }),
    figure('… of it in the kernel', 's', seconds(column(loads, 'applyKernel'))),
    figure('… compile and render', 's', seconds(column(loads, 'compileRender'))),
    ...(agents.length === 0 ? [] : agentFigures(agents)),
  ];
}

function agentFigures(agents: readonly Row[]): Figure[] {
  return [
    figure('agent memory with them, steady', 'MB', column(agents, 'steady'), { target: atMost(600) }),
    figure('… peak', 'MB', column(agents, 'peak')),
    figure('… from the start of the agent to enforced', 's', column(agents, 'start')),
  ];
}

async function rows(
  set: RuleSet,
  settings: Settings,
  input: { readonly edits: number; readonly pods: number },
): Promise<Row[]> {
  const manifests = join(settings.folder, set.name);
  await writeRuleSet(manifests, set);
  const found: Row[] = [];
  for (let i = 0; i < amount(settings, [1, 2, 5]); i++)
    found.push(await inNamespace((node) => runTrial('scale', { manifests, ...input }, node)));
  return found;
}

async function floor(settings: Settings, name: Floor): Promise<number[]> {
  const isSets = name.startsWith('sets');
  const size = isSets ? { chains: 0, count: RULES } : { chains: RULES, count: 51 };
  const values: number[] = [];
  for (let i = 0; i < amount(settings, [1, 2, 3]); i++)
    values.push(await inNamespace((node) => kernelFloor(node, name, size)));
  return values;
}

async function inNamespace<T>(work: (node: Namespace) => Promise<T>): Promise<T> {
  const topology = await createTopology(addressPlan({ clients: 0 }));
  try {
    return await work(topology.node);
  } finally {
    await topology.close();
  }
}

async function agentMemory(set: RuleSet, folder: string): Promise<Row> {
  const [manifests, stateDir] = [join(folder, 'manifests'), join(folder, 'state')];
  await mkdir(stateDir, { recursive: true });
  await writeRuleSet(manifests, set);
  return inNamespace(async (namespace) => {
    const start = performance.now();
    const agent = startAgent({ namespace, manifests, stateDir });
    try {
      await agent.untilEnforced(1);
      const took = (performance.now() - start) / 1000;
      await pause(QUIET);
      const { now, peak } = await agent.memory();
      return { steady: now, peak, start: took };
    } finally {
      await agent.stop();
    }
  });
}
