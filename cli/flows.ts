import type { FlowSource } from '../agent/flows/flow-inventory.ts';
import {
  type FlowFilterOptions,
  fromFlowQuery,
  toFlowFilter,
  toFlowQuery,
} from '../agent/flows/flow-kind.ts';
import { nodeFlows } from '../agent/inspect/explanation.ts';
import type { ConnectionOptions } from '../agent/record/record-filter.ts';
import { savedFlows } from '../agent/run/flow-inventory.ts';
import type { Config } from '../apis/config.ts';
import { allFlows, type NodeFlow, type NodeFlows, parseNodeFlows } from '../apis/node-flows.ts';
import { askEach, askNode, nodeNames } from '../controller/kubeapi/ask-nodes.ts';
import type { KubeApi } from '../controller/kubeapi/kube-api.ts';
import { CommandError, EXIT, type ExitStatus } from '../lib/process/exit.ts';
import { readInput } from '../lib/process/option-value.ts';
import { present } from '../lib/sharing/present.ts';
import { withCluster } from './cluster-api.ts';
import type { MachineOptions, Printed } from './command-options.ts';
import { type FlowWords, kindFilterOfWords } from './flow-words.ts';
import { loadConfig } from './load.ts';
import { type OfNode, sayFailed } from './node-data.ts';
import { json, table, warn, watched } from './output.ts';
import { answerText, fieldText, kindServiceText } from './record-text.ts';

interface FlowsOptions extends KindWords, FlowWords, OfNode, MachineOptions, Printed<'table' | 'json'> {
  readonly allNodes: boolean;
  readonly watch: boolean;
}

/** The filter beside the words for a connection. */
type KindWords = Omit<FlowFilterOptions, keyof ConnectionOptions | 'continue'>;

function filterOf(options: FlowsOptions): FlowFilterOptions {
  const { peer, policy, denied, live, since, lines } = options;
  return { ...present({ peer, policy, denied, live, since, lines }), ...kindFilterOfWords(options) };
}

/**
 * `nodewall flows`: the kinds of flows of this machine, of a node, or of all nodes of a cluster.
 * Exit status 3 if no node answers.
 */
export async function flowsCommand(options: FlowsOptions): Promise<ExitStatus> {
  // Checked here: a wrong option needs no cluster.
  toFlowFilter(filterOf(options), 0);
  if (options.allNodes && options.node !== undefined)
    throw new CommandError(EXIT.usage, 'give either --node or --all-nodes, not both');
  return await reading(options, (read) =>
    watched(options.watch, async (show) => {
      const found = await read();
      const [only] = found;
      await show(
        options.output === 'json'
          ? json(options.allNodes || only === undefined ? found : only)
          : toText(found),
      );
      return options.allNodes && found.length === 0 ? EXIT.refused : EXIT.done;
    }),
  );
}

/** Calls `run` with a function that reads the flows of all nodes that are asked for, and answer. */
async function reading(
  options: FlowsOptions,
  run: (read: () => Promise<readonly NodeFlows[]>) => Promise<ExitStatus>,
): Promise<ExitStatus> {
  const { node, allNodes, kubeconfig } = options;
  if (node === undefined && !allNodes) return await run(async () => [await flowsOfMachine(options)]);
  const query = toFlowQuery(filterOf(options));
  return await withCluster(kubeconfig, async (request) => {
    const ask = async (one: string) => parseNodeFlows(await askNode(request, one, 'flows', query));
    if (node !== undefined) return await run(async () => [await ask(node)]);
    return await run(async () => {
      const nodes = await nodeNames(request);
      const answers = await askEach(nodes, ask, sayFailed);
      return nodes.flatMap((one) => answers.get(one) ?? []);
    });
  });
}

function toText(nodes: readonly NodeFlows[]): string {
  const rows = nodes.flatMap(({ node, flows }) => flows.map((flow) => [fieldText(node), ...toRow(flow)]));
  const header = [
    'node',
    'direction',
    'peer',
    'service',
    'group',
    'connections',
    'live',
    'last seen',
    'decision',
  ];
  const isOne = nodes.length <= 1;
  const cut = (cells: readonly string[]): readonly string[] => (isOne ? cells.slice(1) : cells);
  const text = rows.length === 0 ? '' : `${table(cut(header), rows.map(cut))}\n`;
  return `${text}${nodes.map(summary).join('')}`;
}

function toRow(flow: NodeFlow): string[] {
  const { direction, traffic, peer, interfaceGroup, connections, live, lastSeen } = flow;
  return [
    traffic === 'NodePort' ? `${fieldText(direction)} NodePort` : fieldText(direction),
    fieldText(peer),
    kindServiceText(flow),
    fieldText(interfaceGroup),
    fieldText(connections),
    live === null ? '?' : fieldText(live),
    fieldText(lastSeen),
    decisionText(flow),
  ];
}

/** The verdict on the flows if rules decide otherwise now, and by which rule. */
function decisionText({ verdict, decision }: NodeFlow): string {
  if (decision === null) return `${fieldText(verdict)} (no rules in force)`;
  const now = answerText(decision);
  return decision.verdict === verdict ? now : `was ${fieldText(verdict)}, now ${now}`;
}

function summary({ node, since, flows, isCut, kinds, liveAt, missed }: NodeFlows): string {
  const { leftOut, overruns, busySeconds } = missed;
  const remarks = [
    isCut ? 'more match: -n shows up to 1500, or give filters' : '',
    liveAt === null ? 'the kernel’s connections cannot be read: live ones are not known' : '',
    leftOut > 0 ? `${fieldText(leftOut)} kinds were left out for others that were seen later` : '',
    busySeconds > 0 ? `in ${fieldText(busySeconds)} seconds more connections began than are counted` : '',
    overruns > 0
      ? `the kernel discarded events ${fieldText(overruns)} times, so that counts are too low`
      : '',
  ].filter((one) => one !== '');
  const what = `${fieldText(node)}: ${flows.length} of ${fieldText(kinds)} kinds of flows since ${fieldText(since)}`;
  return `${[what, ...remarks].join('; ')}\n`;
}

/** Where the agent of this machine has its files. */
interface OfMachine {
  readonly stateDir: string;
  readonly config?: string;
}

/**
 * Kinds of flows of this machine, from the agent's file, and the kernel. Throws a CommandError if
 * there is no inventory, or if it cannot be read.
 */
async function flowsOfMachine(options: FlowsOptions): Promise<NodeFlows> {
  const config = await loadConfig(options.config);
  const source = await openFlows(options.stateDir, config);
  return await nodeFlows(options.stateDir, config, toFlowFilter(filterOf(options), Date.now()), source);
}

/**
 * All kinds of flows of this machine, or those that a filter lets through. Throws as
 * `flowsOfMachine` does.
 */
export async function allFlowsOfMachine(
  { stateDir, config: path }: OfMachine,
  filter: FlowFilterOptions = {},
): Promise<NodeFlows> {
  const config = await loadConfig(path);
  const source = await openFlows(stateDir, config);
  return await allFlows((page) =>
    nodeFlows(stateDir, config, toFlowFilter({ ...filter, ...fromFlowQuery(page) }, Date.now()), source),
  );
}

/**
 * All kinds of flows of a node of a cluster, or those that a filter lets through. Throws KubeError,
 * also if it does not answer in time.
 */
export function allFlowsOfNode(
  request: KubeApi,
  node: string,
  filter: FlowFilterOptions = {},
): Promise<NodeFlows> {
  return allFlows((page) =>
    askNode(request, node, 'flows', toFlowQuery({ ...filter, ...fromFlowQuery(page) })),
  );
}

/** The inventory that the agent of this machine saved. Throws a CommandError if there is none. */
async function openFlows(stateDir: string, config: Config): Promise<FlowSource> {
  let source: Awaited<ReturnType<typeof savedFlows>>;
  try {
    source = await savedFlows(stateDir, config, { error: warn });
  } catch (error) {
    const { message, cause } = error as Error;
    const isRefused = cause instanceof Error && 'code' in cause && cause.code === 'EACCES';
    throw new CommandError(
      isRefused ? EXIT.refused : EXIT.invalid,
      isRefused ? `${message}: this needs root` : message,
      { cause: error },
    );
  }
  if (source !== null) return source;
  throw new CommandError(
    EXIT.invalid,
    `${stateDir} contains no flow inventory: start the agent with flowInventory.enabled: true, or give its --state-dir`,
  );
}

/**
 * The answers that `nodewall flows -o json` printed: of one node, or of several. Throws a
 * CommandError that names the file.
 */
export async function readSavedFlows(path: string): Promise<NodeFlows[]> {
  const text = await readInput('--flows', path);
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new CommandError(EXIT.invalid, `--flows: ${path}: ${(error as Error).message}`, { cause: error });
  }
  const all: readonly unknown[] = Array.isArray(value) ? value : [value];
  return all.map((one) => {
    const { node, flows } = Object(one);
    if (typeof node === 'string' && Array.isArray(flows)) return one as NodeFlows;
    throw new CommandError(
      EXIT.invalid,
      `--flows: ${path}: is not what nodewall flows -o json prints: {"node": …, "flows": […]}, or a list of it`,
    );
  });
}
