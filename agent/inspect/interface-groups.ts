import type { Link } from 'nftables-napi';
import type { Config } from '../../apis/config.ts';
import { CommandError, EXIT } from '../../lib/process/exit.ts';
import type { Attachments } from '../interfaces/attachment.ts';
import {
  classifier,
  type GroupDecision,
  groupName,
  groupReasonText,
  type OwnedGroup,
} from '../interfaces/classify.ts';
import { toOwnedGroups } from '../interfaces/group-reconciler.ts';
import { attachmentsNow, ownedGroupsFile } from '../run/interface-groups.ts';
import { savedNodeAddresses } from '../run/state-store.ts';
import { loadAddon } from '../run/with-kernel.ts';

/** An interface and its link group. */
export interface InterfaceGroup {
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

/**
 * The interfaces of this network namespace, by index. Changes nothing and needs no permissions.
 * Throws a CommandError if they cannot be listed.
 *
 * @param warn takes why the agent's file of owned groups cannot be read
 */
export async function inspectInterfaceGroups(
  stateDir: string,
  config: Config,
  warn: (message: string) => void,
): Promise<InterfaceGroup[]> {
  const links = await listLinks();
  const declared = await savedNodeAddresses(stateDir);
  const attachments = await attachmentsNow(declared);
  const held = (await readOwnedGroups(stateDir, warn)) ?? presumed(links, config, attachments);
  const decisions = classifier(config)(links, {
    held: new Map(held.map((one) => [one.index, one])),
    attachments,
  });
  return decisions.sort((a, b) => a.link.index - b.link.index).map((one) => toInterfaceGroup(one, config));
}

function toInterfaceGroup({ link, group, reason }: GroupDecision, config: Config): InterfaceGroup {
  const { name, index, kind } = link;
  return {
    name,
    index,
    kind,
    group: link.group,
    groupName: groupName(config, link.group),
    reason: groupReasonText(reason),
    wanted: group === link.group ? null : group,
  };
}

async function listLinks(): Promise<Link[]> {
  const { RouteSocket } = await loadAddon();
  try {
    const socket = new RouteSocket();
    try {
      return await socket.links();
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
async function readOwnedGroups(
  stateDir: string,
  warn: (message: string) => void,
): Promise<readonly OwnedGroup[] | null> {
  const file = ownedGroupsFile(stateDir);
  try {
    return toOwnedGroups(JSON.parse((await file.read()) ?? '[]'));
  } catch (error) {
    const cause = error instanceof Error ? error.cause : null;
    const isForbidden = cause instanceof Error && 'code' in cause && cause.code === 'EACCES';
    if (isForbidden) return null;
    warn((error as Error).message);
    return [];
  }
}

/**
 * Stands in for the agent's file if that may not be read: an interface that is in the group it
 * belongs to is assumed to have been put there by the agent.
 */
function presumed(links: readonly Link[], config: Config, attachments: Attachments): OwnedGroup[] {
  const bare = links.map((link) => ({ ...link, group: 0 }));
  const wanted = classifier(config)(bare, { held: new Map(), attachments });
  return wanted.map(({ link: { index, name }, group }) => ({ index, name, group }));
}
