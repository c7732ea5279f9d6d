import { copyFile, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { Log } from '../../../lib/process/log.ts';

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
