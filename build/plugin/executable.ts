import { chmod, copyFile, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { output } from '../programs/command.ts';
import { signMachO } from './mach-o-signature.ts';
import { nodeBinary, tool } from './node-binaries.ts';
import { withoutSignature } from './pe.ts';
import { PLATFORMS, type Platform, platformName } from './platforms.ts';

/**
 * Makes the executable of a platform at `path`: its Node.js with the program in it (Node's single
 * executable applications, `--build-sea` of Node 26, which writes ELF, Mach-O and PE on any
 * system).
 */
export async function makeExecutable(platform: Platform, code: string, path: string): Promise<void> {
  const scratch = await mkdtemp(join(tmpdir(), 'nodewall-plugin-'));
  try {
    const node = join(scratch, 'node');
    await copyFile(await nodeBinary(platform), node);
    if (platform.strip !== null) {
      const { program, env } = await tool(platform.strip.program);
      await output([program, node], { env });
    }
    await writeFile(join(scratch, 'program.cjs'), code);
    const configuration = {
      // Its path is part of the executable: relative, it is the same each time.
      main: 'program.cjs',
      executable: node,
      output: path,
      disableExperimentalSEAWarning: true,
      // NODE_OPTIONS of the user's other programs are not for this one.
      execArgvExtension: 'none',
    };
    await writeFile(join(scratch, 'configuration.json'), JSON.stringify(configuration));
    // Both must be of one version; nodes/package.json has one for all.
    await output([await ownNode(), '--build-sea', 'configuration.json'], { cwd: scratch });
    if (platform.os === 'darwin') await writeFile(path, signMachO(await readFile(path), 'kubectl-nodewall'));
    if (platform.os === 'windows') await writeFile(path, withoutSignature(await readFile(path)));
    await chmod(path, 0o755);
  } finally {
    await rm(scratch, { recursive: true });
  }
}

/** The one of nodes/ that runs on this machine. */
async function ownNode(): Promise<string> {
  const own = `${process.platform}-${process.arch === 'x64' ? 'amd64' : process.arch}`;
  const platform = PLATFORMS.find((one) => platformName(one) === own);
  if (platform === undefined) throw new Error(`executables of the plugin cannot be made on ${own}`);
  return await nodeBinary(platform);
}
