import { copyFile, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { Log } from '../../../lib/process/log.ts';

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

const NAME = 'nodewall-egress';
/** Built with the addon. */
const BUILT = join(import.meta.dirname, '../../nftables-napi/build/Release', NAME);

/** Puts the CNI plugin where the container runtime finds it. A failure is logged. */
export async function installPlugin(folder: string, log: Log): Promise<void> {
  const path = join(folder, NAME);
  // A runtime may run the old one meanwhile.
  const fresh = join(folder, `.${NAME}.new`);
  try {
    await copyFile(BUILT, fresh);
    await rename(fresh, path);
  } catch (error) {
    await rm(fresh, { force: true }).catch(() => undefined);
    log.error('cannot install the CNI plugin', { path, error: (error as Error).message });
  }
}
