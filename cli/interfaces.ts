import { type InterfaceGroup, inspectInterfaceGroups } from '../agent/inspect/interface-groups.ts';
import { groupName } from '../agent/interfaces/classify.ts';
import type { Config } from '../apis/config.ts';
import { EXIT, type ExitStatus } from '../lib/process/exit.ts';
import { loadConfig } from './load.ts';
import { fromNode, type OfNode } from './node-data.ts';
import { json, print, table, warn } from './output.ts';

interface InterfacesOptions extends OfNode {
  readonly config?: string;
  readonly stateDir: string;
  readonly output: 'table' | 'json';
}

/**
 * `nodewall interfaces`: each interface of this network namespace, or of a node's, its group, and
 * why.
 */
export async function interfaces(options: InterfacesOptions): Promise<ExitStatus> {
  const config = await loadConfig(options.config);
  const here = () => inspectInterfaceGroups(options.stateDir, config, warn);
  const rows = await fromNode(options, 'interfaces', new URLSearchParams(), here);
  await print(options.output === 'json' ? json(rows) : toTable(rows, config));
  return EXIT.done;
}

function toTable(rows: readonly InterfaceGroup[], config: Config): string {
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
