import { rm } from 'node:fs/promises';
import { join } from 'node:path';

/**
 * Part of the state directory: the socket of the CNI plugin nodewall-egress, and the file
 * `required`.
 */
export function pluginFolder(stateDir: string): string {
  return join(stateDir, 'cni');
}

/** While it is there, the plugin lets no pod start without the agent, after a reboot too. */
export function requiredFile(stateDir: string): string {
  return join(pluginFolder(stateDir), 'required');
}

/** From now on pods start without the agent: nothing is steered on this node any more. */
export async function releasePlugin(stateDir: string): Promise<void> {
  await rm(requiredFile(stateDir), { force: true });
}
