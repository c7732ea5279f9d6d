import { copyFile, mkdir, symlink } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { ROOT } from '../checkout.ts';
import { bundle } from './bundle.ts';

/** The files that a package or an image adds to the bundle, by their paths. */
const ADDED: readonly string[] = ['node_modules/node/bin/node', 'agent/nftables-napi/build/Release'];

/**
 * Makes the program of this checkout in a folder, as the Debian package has it; Node.js and the
 * addon are links. Takes some two seconds. Returns the path of `nodewall`.
 */
export async function installedProgram(folder: string): Promise<string> {
  await bundle(folder);
  for (const path of ADDED) {
    await mkdir(dirname(join(folder, path)), { recursive: true });
    await symlink(join(ROOT, path), join(folder, path));
  }
  const program = join(folder, 'bin/nodewall');
  await mkdir(dirname(program));
  await copyFile(join(ROOT, 'bin/nodewall'), program);
  return program;
}
