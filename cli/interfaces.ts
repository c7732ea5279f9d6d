import { networkInterfaces } from 'node:os';
import type { Link } from 'nftables-napi';
import type { Decision, OwnedGroup } from '../agent/interfaces/classify.ts';
import { classifier, groupName, reasonText } from '../agent/interfaces/classify.ts';
import { interfacesOnNetworks } from '../agent/interfaces/on-network.ts';
import { toOwnedGroups } from '../agent/interfaces/release.ts';
import { ownedGroupsFile } from '../agent/run/interface-groups.ts';
import { savedNodeAddresses } from '../agent/run/state-store.ts';
import { loadAddon } from '../agent/run/with-kernel.ts';
import type { Config } from '../apis/config.ts';
import { CommandError, EXIT, type ExitStatus } from '../lib/process/exit.ts';
import { loadConfig } from './load.ts';
import { json, print, table } from './output.ts';

interface InterfacesOptions {
  readonly config?: string;
  readonly stateDir: string;
  readonly output: 'table' | 'json';
}

/**
 * Shows each interface of this network namespace, its group, and why. Changes nothing and needs no
 * permissions.
 */
export async function interfaces(options: InterfacesOptions): Promise<ExitStatus> {
  const config = await loadConfig(options.config);
  const links = await listLinks();
  const declared = await savedNodeAddresses(options.stateDir);
  const onNetwork = interfacesOnNetworks(networkInterfaces(), declared);
  const held = (await readOwnedGroups(options.stateDir)) ?? presumed(links, config, onNetwork);
  const decisions = classifier(config)(links, {
    held: new Map(held.map((one) => [one.index, one])),
    onNetwork,
  });
  const rows = decisions.sort((a, b) => a.link.index - b.link.index).map((one) => toRow(one, config));
  await print(options.output === 'json' ? json(rows) : toTable(rows, config));
  return EXIT.done;
}

interface Row {
  readonly name: string;
  readonly index: number;
  /** Null for hardware and for lo. */
  readonly kind: string | null;
  readonly group: number;
  readonly groupName: string | null;
  readonly reason: string;
  /** The group that an agent would set; null if it would change nothing. */
  readonly wanted: number | null;
}

function toRow({ link, group, reason }: Decision, config: Config): Row {
  const { name, index, kind } = link;
  return {
    name,
    index,
    kind,
    group: link.group,
    groupName: groupName(config, link.group),
    reason: reasonText(reason),
    wanted: group === link.group ? null : group,
  };
}

function toTable(rows: readonly Row[], config: Config): string {
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

async function listLinks(): Promise<Link[]> {
  const { LinkSocket } = await loadAddon();
  try {
    const socket = new LinkSocket();
    try {
      return await socket.list();
    } finally {
      await socket.close();
    }
  } catch (error) {
    throw new CommandError(EXIT.refused, `cannot list interfaces: ${(error as Error).message}`, {
      cause: error,
    });
  }
}

/** Null without the permission to read the file, which only root has. */
async function readOwnedGroups(stateDir: string): Promise<readonly OwnedGroup[] | null> {
  const file = ownedGroupsFile(stateDir);
  try {
    return toOwnedGroups(JSON.parse((await file.read()) ?? '[]'));
  } catch (error) {
    const cause = error instanceof Error ? error.cause : null;
    const isForbidden = cause instanceof Error && 'code' in cause && cause.code === 'EACCES';
    if (isForbidden) return null;
    process.stderr.write(`${(error as Error).message}\n`);
    return [];
  }
}

/**
 * Stands in for the agent's file if that may not be read: an interface that is in the group it
 * belongs to is assumed to have been put there by the agent.
 */
function presumed(links: readonly Link[], config: Config, onNetwork: ReadonlySet<string>): OwnedGroup[] {
  const bare = links.map((link) => ({ ...link, group: 0 }));
  const wanted = classifier(config)(bare, { held: new Map(), onNetwork });
  return wanted.map(({ link: { index, name }, group }) => ({ index, name, group }));
}
