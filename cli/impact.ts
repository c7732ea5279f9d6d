import { type FlowFilterOptions, toFlowFilter } from '../agent/flows/flow-kind.ts';
import { knownNames, type NamesInForce } from '../agent/inspect/saved-state.ts';
import { explainMany } from '../agent/observe/indexed-rules.ts';
import type { Compiled } from '../apis/compiled.ts';
import type { Config } from '../apis/config.ts';
import type { FlowAnswer } from '../apis/flow.ts';
import type { UnansweredNode } from '../apis/node-question.ts';
import type { ClusterObjects } from '../apis/objects.ts';
import { validateOptions } from '../apis/validate/object.ts';
import { hasError } from '../apis/validate/problem.ts';
import { compiler } from '../controller/compile/compile.ts';
import {
  auditDenial,
  type ChangedFlow,
  FlowImpact,
  type FoundImpact,
  type NodeImpact,
} from '../controller/impact/flow-impact.ts';
import { askEach, askNode, INVENTORIES_AT_ONCE } from '../controller/kubeapi/ask-nodes.ts';
import type { KubeApi } from '../controller/kubeapi/kube-api.ts';
import {
  type AppliedObjects,
  appliedObjects,
  type RemovedObject,
} from '../controller/watch/applied-objects.ts';
import { fromLastValidJson } from '../controller/watch/last-valid-versions.ts';
import { loadManifests, readManifests, unreadableProblems } from '../controller/watch/manifests.ts';
import { CommandError, EXIT, type ExitStatus } from '../lib/process/exit.ts';
import { clusterObjects, withCluster } from './cluster-api.ts';
import type { MachineOptions, Printed } from './command-options.ts';
import { type FlowWords, kindFilterOfWords } from './flow-words.ts';
import { allFlowsOfMachine, allFlowsOfNode } from './flows.ts';
import { loadConfig, printProblems } from './load.ts';
import { MachineNode } from './machine-node.ts';
import { type OfNode, sayFailed } from './node-data.ts';
import { json, print, table } from './output.ts';
import { answerText, fieldText, kindServiceText } from './record-text.ts';
import { readSavedManifests } from './saved-manifests.ts';

interface ImpactOptions extends FlowWords, OfNode, MachineOptions, Printed<'text' | 'json'> {
  /** Files or directories of manifests that are applied. */
  readonly file: readonly string[];
  /** KIND/NAME. */
  readonly remove: readonly string[];
  readonly allNodes: boolean;
  readonly failOn: 'any' | 'denied' | 'allowed';
}

/**
 * `nodewall impact`: what a change of policies does to the kinds of flows that this machine, a
 * node, or all nodes of a cluster have seen. Exit status 1 if something is denied or allowed that
 * was not (`failOn`), else 3 if a node that the change touches did not answer.
 */
export async function impactCommand(options: ImpactOptions): Promise<ExitStatus> {
  const { allNodes, node, kubeconfig } = options;
  if (allNodes && node !== undefined)
    throw new CommandError(EXIT.usage, 'give either --node or --all-nodes, not both');
  const filter = kindFilterOfWords(options);
  toFlowFilter(filter, 0);
  const config = await loadConfig(options.config);
  const found =
    allNodes || node !== undefined
      ? await withCluster(kubeconfig, (request) => ofCluster(request, options, { config, filter }))
      : await ofMachine(options, { config, filter });
  await print(options.output === 'json' ? json(found) : impactText(found));
  const differs = found.nodes.some((one) => counts(one, options.failOn));
  if (differs) return EXIT.invalid;
  return found.failed.length > 0 ? EXIT.refused : EXIT.done;
}

function counts({ denied, allowed }: NodeImpact, failOn: ImpactOptions['failOn']): boolean {
  return (failOn !== 'allowed' && denied.length > 0) || (failOn !== 'denied' && allowed.length > 0);
}

/** Which kinds of flows are judged, and by which configuration. */
interface Judged {
  readonly config: Config;
  readonly filter: FlowFilterOptions;
}

async function ofMachine(options: ImpactOptions, { config, filter }: Judged): Promise<FoundImpact> {
  const { stateDir } = options;
  const inForce = await machineObjects(stateDir, config);
  const { impact, before } = await impactOf(inForce, options, config);
  const flows = await allFlowsOfMachine(options, filter);
  if (!before.nodeAddresses.has(flows.node))
    throw new CommandError(
      EXIT.invalid,
      `the flow inventory is of ${flows.node}, which no manifest declares`,
    );
  const names = addressesOf(await knownNames(stateDir));
  return { nodes: [impact.of({ flows, names })], failed: [], untouched: 0 };
}

async function ofCluster(
  request: KubeApi,
  options: ImpactOptions,
  { config, filter }: Judged,
): Promise<FoundImpact> {
  const { node, kubeconfig } = options;
  const inForce = await clusterObjects(kubeconfig, config, false);
  const { impact, before } = await impactOf(inForce, options, config);
  const concerned = impact.concerned();
  if (node !== undefined && !before.nodeAddresses.has(node))
    throw new CommandError(EXIT.usage, `--node: the cluster has no Node ${node}`);
  const asked = node === undefined ? concerned : concerned.filter((one) => one === node);
  const failed: UnansweredNode[] = [];
  const hasNames = [...before.addressSets.values()].some((set) => set.names.length > 0);
  const ask = async (name: string): Promise<NodeImpact> => {
    const flows = await allFlowsOfNode(request, name, filter);
    return impact.of({ flows, names: hasNames ? await namesOf(request, name) : new Map() });
  };
  const fail = (name: string, error: string): void => {
    failed.push({ node: name, error });
    sayFailed(name, error);
  };
  const answers = await askEach(asked, ask, fail, INVENTORIES_AT_ONCE);
  const nodes = asked.flatMap((name) => answers.get(name) ?? []);
  const untouched = node === undefined ? before.nodeAddresses.size - concerned.length : 1 - asked.length;
  return { nodes, failed, untouched };
}

async function namesOf(request: KubeApi, node: string): Promise<ReadonlyMap<string, readonly string[]>> {
  return addressesOf(await askNode<NamesInForce>(request, node, 'names'));
}

async function impactOf(
  inForce: ClusterObjects,
  options: ImpactOptions,
  config: Config,
): Promise<{ readonly impact: FlowImpact; readonly before: Compiled }> {
  const next = await objectsAfterChange(inForce, options, config);
  const compile = compiler();
  const before = { objects: inForce, compiled: compile(inForce) };
  const after = { objects: next, compiled: compile(next) };
  const impact = new FlowImpact(before, after, (state) => explainMany(state, config));
  return { impact, before: before.compiled };
}

function addressesOf({ names }: NamesInForce): ReadonlyMap<string, readonly string[]> {
  return new Map(names.map(({ name, addresses }) => [name, addresses.map(({ address }) => address)]));
}

/**
 * The objects that the stand-alone agent of this machine enforces: of the manifests that it reads,
 * with the last valid versions that it saved. Throws a CommandError if it reads none.
 */
async function machineObjects(stateDir: string, config: Config): Promise<ClusterObjects> {
  const saved = await lastManifests(stateDir).catch((error: Error) => {
    throw new CommandError(EXIT.refused, `${error.message}: this needs root`, { cause: error });
  });
  if (saved === null)
    throw new CommandError(
      EXIT.usage,
      `no agent with --manifests has saved its state in ${stateDir}: give --node or --all-nodes for nodes of a cluster, or the agent's --state-dir`,
    );
  const options = { ...validateOptions(config), failsafe: null, egress: true };
  const { objects } = await loadManifests(saved.paths, options, saved.lastValid);
  return new MachineNode(options).with(objects);
}

async function lastManifests(stateDir: string) {
  const saved = await readSavedManifests(stateDir);
  return saved === null ? null : { ...saved, lastValid: fromLastValidJson(saved.lastValid, true) };
}

/**
 * The objects with a change. Throws a CommandError (EXIT.refused) if the files have errors, or if
 * objects refer to what is removed: of a part of a change nothing can be said.
 */
async function objectsAfterChange(
  inForce: ClusterObjects,
  { file, remove }: ImpactOptions,
  config: Config,
): Promise<ClusterObjects> {
  if (file.length === 0 && remove.length === 0)
    throw new CommandError(EXIT.usage, 'give the change: -f FILE, --remove KIND/NAME, or both');
  const removed = remove.map(toRemoved);
  const options = { ...validateOptions(config), failsafe: null, egress: true };
  const { contents, list } = await readManifests(file, options);
  const { objects, problems, absent }: AppliedObjects = appliedObjects(
    inForce,
    { contents, removed },
    options,
  );
  const all = [...unreadableProblems(list), ...problems];
  printProblems(all, '');
  const [first] = absent;
  if (first !== undefined)
    throw new CommandError(EXIT.usage, `--remove: there is no ${first.kind}/${first.name}`);
  if (hasError(all)) throw new CommandError(EXIT.refused, 'the change cannot be applied; see above');
  return objects;
}

/** Kinds that rules are made of. */
const REMOVABLE = ['ClusterNetworkPolicy', 'ClusterGroup', 'Tier'];

function toRemoved(text: string): RemovedObject {
  const [kind = '', name = '', ...more] = text.split('/');
  const known = REMOVABLE.find((one) => one.toLowerCase() === kind.toLowerCase());
  if (known !== undefined && name !== '' && more.length === 0) return { kind: known, name };
  throw new CommandError(
    EXIT.usage,
    `--remove: ${JSON.stringify(text)}: must be KIND/NAME, with ${REMOVABLE.join(', ')} as KIND`,
  );
}

/** Rows of a table: -o json has all. */
const MOST_ROWS = 100;

const HEADER = ['node', 'direction', 'peer', 'service', 'per hour', 'live', 'last seen', 'before', 'after'];

/** For people: what is newly denied and allowed, then what is known about each node. */
function impactText(found: FoundImpact): string {
  const { nodes, failed, untouched } = found;
  const isOne = nodes.length + failed.length <= 1;
  const parts = [
    section('Newly denied', nodes, ({ denied }) => denied, isOne),
    section('Newly allowed', nodes, ({ allowed }) => allowed, isOne),
    section('Allowed, but rules in mode Audit would deny them', nodes, ({ audited }) => audited, isOne),
    ...nodes.map(summary),
    ...failed.map(({ node }) => `${fieldText(node)}: did not answer: nothing is known of its flows\n`),
    untouched === 0
      ? ''
      : `${untouched} ${untouched === 1 ? 'node has' : 'nodes have'} the same rules before and after.\n`,
    ...remarks(nodes),
  ];
  return parts.join('');
}

function section(
  title: string,
  nodes: readonly NodeImpact[],
  flowsOf: (node: NodeImpact) => readonly ChangedFlow[],
  isOne: boolean,
): string {
  const rows = nodes.flatMap((one) => flowsOf(one).map((flow) => [fieldText(one.node), ...toRow(flow)]));
  if (rows.length === 0) return '';
  const cut = (row: readonly string[]): readonly string[] => (isOne ? row.slice(1) : row);
  const left = rows.length - MOST_ROWS;
  const more = left > 0 ? `and ${left} more: -o json has all\n` : '';
  return `${title}:\n${table(cut(HEADER), rows.slice(0, MOST_ROWS).map(cut))}${more}\n`;
}

function toRow(flow: ChangedFlow): string[] {
  const { direction, traffic, peer, peerName, live, lastSeen, before, after, perHour, isPartly } = flow;
  const ends = flow.endsLive && live !== null && live > 0 ? ' (ended)' : '';
  return [
    traffic === 'NodePort' ? `${fieldText(direction)} NodePort` : fieldText(direction),
    peerName === undefined ? fieldText(peer) : `${fieldText(peer)} (${peerName})`,
    `${kindServiceText(flow)}${isPartly ? ' (may be partly)' : ''}`,
    rateText(perHour),
    live === null ? '?' : `${fieldText(live)}${ends}`,
    fieldText(lastSeen),
    answerText(before),
    `${answerText(after)}${auditText(after)}`,
  ];
}

/** The rule in mode Audit that would deny what is allowed. */
function auditText(after: FlowAnswer): string {
  const rule = after.verdict === 'Allow' ? auditDenial(after) : undefined;
  return rule === undefined
    ? ''
    : `, audit: ${fieldText(rule.action)} ${fieldText(rule.policy)}/${fieldText(rule.rule)}`;
}

function rateText(perHour: number): string {
  if (perHour === 0) return '0';
  if (perHour < 0.1) return '<0.1';
  return perHour < 10 ? perHour.toFixed(1) : perHour.toFixed(0);
}

/** The changes on a node, and the gaps of its inventory. */
function summary(one: NodeImpact): string {
  const { node, since, liveAt, denied, allowed, kinds, folded, otherwise, unknownNames, missed } = one;
  const { leftOut, overruns, busySeconds } = missed;
  const notes = [
    folded > 0 ? `${folded} kinds stand for many flows, of which one example was judged` : '',
    leftOut > 0 ? `${fieldText(leftOut)} kinds were left out of the inventory` : '',
    busySeconds > 0 ? `not all connections of ${fieldText(busySeconds)} seconds were seen` : '',
    overruns > 0 ? `the kernel discarded events ${fieldText(overruns)} times` : '',
    liveAt === null ? 'live connections are not known' : '',
    otherwise.length > 0
      ? `about ${otherwise.length} kinds the node decides otherwise today than these objects: it has another configuration or version, or addresses that only it knows`
      : '',
    unknownNames.length > 0
      ? `no address is known for ${unknownNames.map(fieldText).join(', ')}: rules for these names match nothing here`
      : '',
  ].filter((note) => note !== '');
  const what = `${fieldText(node)}: of ${fieldText(kinds)} kinds of flows since ${fieldText(since)}, ${denied.length} newly denied, ${allowed.length} newly allowed`;
  return `${[what, ...notes].join('; ')}\n`;
}

function remarks(nodes: readonly NodeImpact[]): string[] {
  if (nodes.length === 0) return [];
  const isLive = nodes.some(({ denied }) => denied.some(({ live, endsLive }) => !endsLive && live !== 0));
  const live =
    'Live connections go on until they end by themselves; after that they are denied. A policy with established: Recheck, or nodewall flush, ends them.\n';
  const never =
    'Not in it: what happens less often than since then, forwarded traffic, and what rules without enableLogging deny.\n';
  return [isLive ? live : '', never];
}
