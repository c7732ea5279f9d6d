import { createHash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { buildImages } from '../images/build.ts';
import { cached } from '../programs/cache.ts';
import { output } from '../programs/command.ts';
import { PAUSE_IMAGE } from './configuration.ts';
import { writeImage } from './image-archive.ts';
import type { Programs } from './programs.ts';

const PROBE = join(import.meta.dirname, '../../test/probe');

/**
 * Paths of the archives of all images that the cluster's pods use, nodewall's own among them; from
 * the cache, or made.
 */
export async function clusterImages({ coredns }: Programs): Promise<string[]> {
  const { controller, agent } = await buildImages();
  const probe = (await readdir(PROBE)).filter((name) => /\.[ch]$/.test(name)).sort();
  const sources = [join(import.meta.dirname, 'pause.c'), ...probe.map((name) => join(PROBE, name))];
  const key = createHash('sha256').update(`${process.arch} ${coredns}`);
  for (const source of sources) key.update(await readFile(source));
  const folder = await cached('images', key.digest('hex').slice(0, 16), async (fresh) => {
    const pause = await staticProgram('pause', [join(import.meta.dirname, 'pause.c')], fresh);
    const prober = await staticProgram(
      'probe',
      sources.filter((path) => path.startsWith(PROBE) && path.endsWith('.c')),
      fresh,
    );
    const image = (name: string, path: string, file: string) =>
      writeImage({ name, files: { [path]: file }, entrypoint: [path] }, join(fresh, `${path}.tar`));
    await image(PAUSE_IMAGE, '/pause', pause);
    await image('docker.io/library/probe:test', '/probe', prober);
    await image('docker.io/library/coredns:test', '/coredns', coredns);
  });
  const others = ['pause', 'probe', 'coredns'].map((name) => join(folder, `${name}.tar`));
  return [...others, controller, agent];
}

/** Images without a C library hold static programs alone. */
async function staticProgram(name: string, sources: readonly string[], folder: string): Promise<string> {
  const program = join(folder, name);
  const flags = ['-static', '-std=gnu11', '-D_GNU_SOURCE', '-O2', '-s'];
  await output(['cc', ...flags, '-o', program, ...sources]);
  return program;
}
