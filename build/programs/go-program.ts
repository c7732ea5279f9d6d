import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { cached } from './cache.ts';
import { output } from './command.ts';
import { findGo, goEnvironment } from './go.ts';

export interface GoProgram {
  /** Kind of the cache's folder, and name of the program. */
  readonly name: string;
  /** Folder of go.mod and go.sum. */
  readonly source: string;
  /** Its files that the program is made of, beside these. */
  readonly files?: readonly string[];
  /** Package of the main function, by its path; default: that of the folder itself. */
  readonly program?: string;
  /** Arguments of `go build`, beside those of every program here. */
  readonly flags?: readonly string[];
  /** Arguments of the linker. */
  readonly linked?: readonly string[];
  /** How long it takes, for who waits. */
  readonly takes: string;
}

/** Path of a static program, from the cache or built. */
export async function buildGoProgram(wanted: GoProgram): Promise<string> {
  const { name, source, files = [], program = '.', flags = [], linked = [], takes } = wanted;
  const go = await findGo();
  const all = ['-buildvcs=false', '-trimpath', '-ldflags', ['-s', '-w', ...linked].join(' '), ...flags];
  const key = createHash('sha256').update(JSON.stringify([go.version, process.arch, all]));
  for (const file of ['go.mod', 'go.sum', ...files]) key.update(await readFile(join(source, file)));
  const folder = await cached(name, key.digest('hex').slice(0, 16), async (fresh) => {
    process.stderr.write(`${name}: building, once: ${takes}\n`);
    await output(['nice', '-n', '10', go.command, 'build', ...all, '-o', join(fresh, name), program], {
      cwd: source,
      env: goEnvironment({ CGO_ENABLED: '0' }),
    });
  });
  return join(folder, name);
}
