import type { FlowSource } from '../agent/flows/flow-inventory.ts';
import { type FlowFilterOptions, fromFlowQuery, toFlowFilter } from '../agent/flows/flow-kind.ts';
import { nodeFlows } from '../agent/inspect/explanation.ts';
import { savedFlows } from '../agent/run/flow-inventory.ts';
import type { Config } from '../apis/config.ts';
import { allFlows, type NodeFlows } from '../apis/node-flows.ts';
import { askNode } from '../controller/kubeapi/ask-nodes.ts';
import type { KubeApi } from '../controller/kubeapi/kube-api.ts';
import { CommandError, EXIT } from '../lib/process/exit.ts';
import { loadConfig } from './load.ts';
import { warn } from './output.ts';

/** Where the agent of this machine has its files. */
interface OfMachine {
  readonly stateDir: string;
  readonly config?: string;
}

/**
 * Kinds of flows of this machine, from the agent's file, and the kernel. Throws a CommandError if
 * there is no inventory, or if it cannot be read.
 */
export async function flowsOfMachine(options: OfMachine & FlowFilterOptions): Promise<NodeFlows> {
  const config = await loadConfig(options.config);
  const source = await openFlows(options.stateDir, config);
  return await nodeFlows(options.stateDir, config, toFlowFilter(options, Date.now()), source);
}

/** All kinds of flows of this machine. Throws as `flowsOfMachine` does. */
export async function allFlowsOfMachine({ stateDir, config: path }: OfMachine): Promise<NodeFlows> {
  const config = await loadConfig(path);
  const source = await openFlows(stateDir, config);
  return await allFlows((query) =>
    nodeFlows(stateDir, config, toFlowFilter(fromFlowQuery(query), Date.now()), source),
  );
}

/**
 * All kinds of flows of a node of a cluster. Throws KubeError, also if it does not answer in time.
 */
export function allFlowsOfNode(request: KubeApi, node: string): Promise<NodeFlows> {
  return allFlows((query) => askNode(request, node, 'flows', query));
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
