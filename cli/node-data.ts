import type { InterfaceGroup } from '../agent/inspect/interface-groups.ts';
import type { NamesInForce } from '../agent/inspect/saved-state.ts';
import { groupName } from '../agent/interfaces/classify.ts';
import type { Config } from '../apis/config.ts';
import type { NodeData } from '../apis/node-question.ts';
import { askNode } from '../controller/kubeapi/ask-nodes.ts';
import { EXIT, type ExitStatus } from '../lib/process/exit.ts';
import { printable } from '../lib/sharing/safe-text.ts';
import { withCluster } from './cluster-api.ts';
import type { MachineOptions, Printed } from './command-options.ts';
import { loadConfig } from './load.ts';
import { errorText, json, print, table, warn } from './output.ts';

/** Options of commands that read what a node knows. */
export interface OfNode {
  /** Absent: the machine of the command. */
  readonly node?: string;
  readonly kubeconfig?: string;
}

/** The answer of a node of a cluster if one is named, else `here`. */
export async function fromNode<T>(
  { node, kubeconfig }: OfNode,
  about: NodeData,
  query: URLSearchParams,
  here: () => Promise<T>,
): Promise<T> {
  if (node === undefined) return await here();
  return await withCluster(kubeconfig, (request) => askNode<T>(request, node, about, query));
}

/** Names a node that does not answer; the others are shown. */
export function sayFailed(node: string, message: string): void {
  process.stderr.write(errorText(`${node}: ${printable(message)}`));
}

interface InterfacesOptions extends OfNode, MachineOptions, Printed<'table' | 'json'> {}

/**
 * `nodewall interfaces`: each interface of this network namespace, or of a node's, its group, and
 * why.
 */
export async function interfaces(options: InterfacesOptions): Promise<ExitStatus> {
  const config = await loadConfig(options.config);
  const here = async () => {
    const { inspectInterfaceGroups } = await import('../agent/inspect/interface-groups.ts');
    return await inspectInterfaceGroups(options.stateDir, config, warn);
  };
  const rows = await fromNode(options, 'interfaces', new URLSearchParams(), here);
  await print(options.output === 'json' ? json(rows) : interfacesTable(rows, config));
  return EXIT.done;
}

function interfacesTable(rows: readonly InterfaceGroup[], config: Config): string {
  const shown = (group: number): string => {
    const name = groupName(config, group);
    return name === null ? String(group) : `${group} ${name}`;
  };
  return table(
    ['interface', 'index', 'kind', 'group', 'why', 'agent'],
    rows.map(({ name, index, kind, group, reason, wanted }) => [
      name,
      String(index),
      kind ?? '-',
      shown(group),
      reason,
      wanted === null ? '' : `would set ${shown(wanted)}`,
    ]),
  );
}

interface NamesOptions extends OfNode, Printed<'table' | 'json'> {
  readonly stateDir: string;
  /** Read and checked like in every command; its content has no effect here. */
  readonly config?: string;
}

/**
 * `nodewall names`: the names of the rules in force and their addresses, as the agent last saved
 * them.
 */
export async function namesCommand(options: NamesOptions): Promise<ExitStatus> {
  await loadConfig(options.config);
  const none = new URLSearchParams();
  const here = async () => (await import('../agent/inspect/saved-state.ts')).knownNames(options.stateDir);
  const known = await fromNode(options, 'names', none, here);
  await print(options.output === 'json' ? json(known) : namesTable(known));
  return EXIT.done;
}

function namesTable({ saved, names }: NamesInForce): string {
  if (saved === null || names.length === 0) {
    return 'No names: no rule on this node has an fqdn peer, or no name has resolved yet.\n';
  }
  const rows = names.flatMap(({ name, failing, addresses }) =>
    addresses.map(({ address, source, seen, expires, state }) => [
      name,
      address,
      source,
      seen,
      expires,
      failing === null ? state : `${state}, ${failing}`,
    ]),
  );
  const text = table(['name', 'address', 'source', 'seen', 'expires', 'state'], rows);
  return `Saved ${saved}.\n\n${text}`;
}
