import { type FlowFilterOptions, toFlowFilter, toFlowQuery } from '../agent/flows/flow-kind.ts';
import { type NodeFlow, type NodeFlows, parseNodeFlows } from '../apis/node-flows.ts';
import { askEach, askNode, nodeNames } from '../controller/kubeapi/ask-nodes.ts';
import { CommandError, EXIT, type ExitStatus } from '../lib/process/exit.ts';
import { withCluster } from './cluster-api.ts';
import { answerText, kindServiceText } from './flow-text.ts';
import { type OfNode, sayFailed } from './node-data.ts';
import { flowsOfMachine } from './node-flows.ts';
import { json, table } from './output.ts';
import { fieldText } from './record-text.ts';
import { watched } from './watched.ts';

interface FlowsOptions extends OfNode, FlowFilterOptions {
  readonly allNodes: boolean;
  readonly watch: boolean;
  readonly stateDir: string;
  readonly config?: string;
  readonly output: 'table' | 'json';
}

/**
 * `nodewall flows`: the kinds of flows of this machine, of a node, or of all nodes of a cluster.
 * Exit status 3 if no node answers.
 */
export async function flowsCommand(options: FlowsOptions): Promise<ExitStatus> {
  // Checked here: a wrong option needs no cluster.
  toFlowFilter(options, 0);
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
  const query = toFlowQuery(options);
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
