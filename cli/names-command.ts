import { knownNames, type NamesInForce } from '../agent/inspect/saved-state.ts';
import { EXIT, type ExitStatus } from '../lib/process/exit.ts';
import { loadConfig } from './load.ts';
import { fromNode, type OfNode } from './node-data.ts';
import { json, print, table } from './output.ts';

interface NamesOptions extends OfNode {
  readonly stateDir: string;
  /** Read and checked like in every command; its content has no effect here. */
  readonly config?: string;
  readonly output: 'table' | 'json';
}

/**
 * `nodewall names`: the names of the rules in force and their addresses, as the agent last saved
 * them.
 */
export async function namesCommand(options: NamesOptions): Promise<ExitStatus> {
  await loadConfig(options.config);
  const none = new URLSearchParams();
  const known = await fromNode(options, 'names', none, () => knownNames(options.stateDir));
  await print(options.output === 'json' ? json(known) : toTable(known));
  return EXIT.done;
}

function toTable({ saved, names }: NamesInForce): string {
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
