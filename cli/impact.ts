import { knownNames, type NamesInForce } from '../agent/inspect/saved-state.ts';
import { explainMany } from '../agent/observe/explain.ts';
import type { Compiled } from '../apis/compiled.ts';
import type { Config } from '../apis/config.ts';
import type { ClusterObjects } from '../apis/objects.ts';
import { compiler } from '../controller/compile/compile.ts';
import {
  FlowImpact,
  type FoundImpact,
  type NodeImpact,
  type SeenByNode,
} from '../controller/impact/flow-impact.ts';
import { askEach, askNode, INVENTORIES_AT_ONCE } from '../controller/kubeapi/ask-nodes.ts';
import type { KubeApi } from '../controller/kubeapi/kube-api.ts';
import { CommandError, EXIT, type ExitStatus } from '../lib/process/exit.ts';
import { withCluster } from './cluster-api.ts';
import { impactText } from './impact-text.ts';
import { loadConfig } from './load.ts';
import { type OfNode, sayFailed } from './node-data.ts';
import { allFlowsOfMachine, allFlowsOfNode } from './node-flows.ts';
import { type ChangeOptions, machineObjects, objectsAfterChange } from './objects-in-force.ts';
import { json, print } from './output.ts';

export interface ImpactOptions extends OfNode, ChangeOptions {
  readonly allNodes: boolean;
  readonly stateDir: string;
  readonly config?: string;
  readonly failOn: 'any' | 'denied' | 'allowed';
  readonly output: 'text' | 'json';
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
  const config = await loadConfig(options.config);
  const found =
    allNodes || node !== undefined
      ? await withCluster(kubeconfig, (request) => ofCluster(request, options, config))
      : await ofMachine(options, config);
  await print(options.output === 'json' ? json(found) : impactText(found));
  const differs = found.nodes.some((one) => counts(one, options.failOn));
  if (differs) return EXIT.invalid;
  return found.failed.length > 0 ? EXIT.refused : EXIT.done;
}

function counts({ denied, allowed }: NodeImpact, failOn: ImpactOptions['failOn']): boolean {
  return (failOn !== 'allowed' && denied.length > 0) || (failOn !== 'denied' && allowed.length > 0);
}

async function ofMachine(options: ImpactOptions, config: Config): Promise<FoundImpact> {
  const { stateDir } = options;
  const inForce = await machineObjects(stateDir, config);
  const { impact, before } = await impactOf(inForce, options, config);
  const flows = await allFlowsOfMachine(options);
  if (!before.nodeAddresses.has(flows.node))
    throw new CommandError(
      EXIT.invalid,
      `the flow inventory is of ${flows.node}, which no manifest declares`,
    );
  const names = addressesOf(await knownNames(stateDir));
  return { nodes: [impact.of({ flows, names })], failed: [], untouched: 0 };
}

async function ofCluster(request: KubeApi, options: ImpactOptions, config: Config): Promise<FoundImpact> {
  const { node, kubeconfig } = options;
  const { clusterObjects } = await import('./cluster-objects.ts');
  const inForce = await clusterObjects(kubeconfig, config, false);
  const { impact, before } = await impactOf(inForce, options, config);
  const concerned = impact.concerned();
  if (node !== undefined && !before.nodeAddresses.has(node))
    throw new CommandError(EXIT.usage, `--node: the cluster has no Node ${node}`);
  const asked = node === undefined ? concerned : concerned.filter((one) => one === node);
  const failed: { node: string; error: string }[] = [];
  const hasNames = [...before.addressSets.values()].some((set) => set.names.length > 0);
  const ask = async (name: string): Promise<NodeImpact> => impact.of(await seenBy(request, name, hasNames));
  const fail = (name: string, error: string): void => {
    failed.push({ node: name, error });
    sayFailed(name, error);
  };
  const answers = await askEach(asked, ask, fail, INVENTORIES_AT_ONCE);
  const nodes = asked.flatMap((name) => answers.get(name) ?? []);
  const untouched = node === undefined ? before.nodeAddresses.size - concerned.length : 1 - asked.length;
  return { nodes, failed, untouched };
}

async function seenBy(request: KubeApi, node: string, hasNames: boolean): Promise<SeenByNode> {
  const flows = await allFlowsOfNode(request, node);
  if (!hasNames) return { flows, names: new Map() };
  return { flows, names: addressesOf(await askNode<NamesInForce>(request, node, 'names')) };
}

async function impactOf(
  inForce: ClusterObjects,
  options: ChangeOptions,
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
