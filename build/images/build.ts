import { createHash, hash } from 'node:crypto';
import { mkdir, readFile, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { cached } from '../programs/cache.ts';
import { output } from '../programs/command.ts';
import { filesBelow, ROOT, scratchFolder } from '../programs/folder.ts';
import { type BaseImages, baseImages } from './base.ts';
import { Buildah } from './buildah.ts';

const DOCKERFILE = 'deploy/Dockerfile';
/** A change of these makes more than the layer of the program anew. */
const STAGES = /^(package|\.npmrc|bin\/.*\.c$|agent\/nftables-napi\/|agent\/ipset-ts\/package)/;

export const TARGETS = ['controller', 'agent'] as const;
export type ImageTarget = (typeof TARGETS)[number];

/** The parts that images are made of. */
interface ImageSource {
  /** Folder with all that deploy/Dockerfile takes in. */
  readonly root: string;
  /** Their tag. */
  readonly tag: string;
}

/**
 * Paths of archives for `ctr -n k8s.io images import`, of docker.io/library/nodewall-TARGET:TAG.
 */
export type Images = { readonly [target in ImageTarget]: string };

/**
 * The images of deploy/Dockerfile, by its own steps, without Docker: out of the cache, or built by
 * buildah. Where only the program has changed that takes seconds, with other packages a minute or
 * two, with nothing there some minutes. Needs root.
 */
export async function buildImages(given?: ImageSource): Promise<Images> {
  const source = given ?? (await ownSource());
  const base = await baseImages();
  const files = await contextFiles(source.root);
  const stagesFiles = [DOCKERFILE, '.dockerignore', ...files.filter((path) => STAGES.test(path))];
  const fixed = await keyOf(base.key, source.root, stagesFiles);
  const stages = await cached('imagestages', fixed, async (fresh) => {
    process.stderr.write('images: building the addon and fetching packages, once: a minute or two\n');
    await buildBothImages(source, base, fresh, [base.storage]);
  });
  const folder = await cached(
    'imagearchives',
    await keyOf(`${fixed} ${source.tag}`, source.root, files),
    async (fresh) => {
      const work = join(fresh, 'work');
      const { buildah, names } = await buildBothImages(source, base, work, [
        join(stages, 'storage'),
        base.storage,
      ]);
      for (const target of TARGETS) await buildah.save(names[target], archiveIn(fresh, target));
      await rm(work, { recursive: true });
    },
  );
  return { controller: archiveIn(folder, 'controller'), agent: archiveIn(folder, 'agent') };
}

function archiveIn(folder: string, target: ImageTarget): string {
  return join(folder, `${target}.tar`);
}

/**
 * Builds both in a storage in a folder; the storages below it have layers that it need not build.
 */
export async function buildBothImages(
  { root, tag }: ImageSource,
  base: BaseImages,
  folder: string,
  lower: readonly string[],
): Promise<{ buildah: Buildah; names: { readonly [target in ImageTarget]: string } }> {
  const nameOf = (target: ImageTarget) => `docker.io/library/nodewall-${target}:${tag}`;
  const names = { controller: nameOf('controller'), agent: nameOf('agent') };
  const buildah = await Buildah.open({ tools: base.tools, folder, lower });
  for (const target of TARGETS) {
    const args = [`--file=${join(root, DOCKERFILE)}`, `--target=${target}`];
    await buildah.build(names[target], root, { args, volumes: base.volumes });
  }
  return { buildah, names };
}

/** This checkout, with the version of package.json. */
export async function ownSource(): Promise<ImageSource> {
  const { version } = JSON.parse(await readFile(join(ROOT, 'package.json'), 'utf8'));
  return { root: ROOT, tag: version };
}

/** The files that .dockerignore lets through. */
async function contextFiles(root: string): Promise<string[]> {
  const rows = (await readFile(join(root, '.dockerignore'), 'utf8')).split('\n');
  const left = rows.flatMap((row) => (row.startsWith('**/*') ? [row.slice('**/*'.length)] : []));
  return rows
    .flatMap((row) => (row.startsWith('!') ? [row.slice(1)] : []))
    .flatMap((path) => (path.endsWith('/') ? filesBelow(path, root) : [path]))
    .filter((path) => !left.some((ending) => path.endsWith(ending)));
}

async function keyOf(input: string, root: string, files: readonly string[]): Promise<string> {
  const hash = createHash('sha256').update(input);
  for (const path of files) {
    const content = await readFile(join(root, path));
    hash.update(`\n${path} ${content.length}\n`).update(content);
  }
  return hash.digest('hex').slice(0, 16);
}

export interface UnpackedImage {
  /** sha256:… of the configuration, which names the layers: the image's id. */
  readonly digest: string;
  readonly layers: readonly { readonly digest: string; readonly size: number }[];
  readonly config: { readonly User?: string; readonly Entrypoint?: readonly string[] };
  /** The layers over one another. */
  readonly root: string;
}

/** Unpacks an archive of buildImages() into an empty folder. */
export async function unpackImage(file: string, folder: string): Promise<UnpackedImage> {
  const archive = join(folder, 'archive');
  const root = join(folder, 'root');
  for (const path of [archive, root]) await mkdir(path);
  await output(['tar', '-xf', file, '-C', archive]);
  const read = async (name: string) => JSON.parse(await readFile(join(archive, name), 'utf8'));
  const [{ Config, Layers }] = await read('manifest.json');
  const { config, rootfs } = await read(Config);
  const digest = `sha256:${hash('sha256', await readFile(join(archive, Config)))}`;
  const layers = [];
  for (const [index, name] of Layers.entries()) {
    const { size } = await stat(join(archive, name));
    layers.push({ digest: rootfs.diff_ids[index], size });
    await output(['tar', '-xf', join(archive, name), '-C', root]);
  }
  return { digest, layers, config, root };
}

if (import.meta.main) {
  const images = await buildImages();
  for (const target of TARGETS) {
    const scratch = await scratchFolder('nodewall-image-');
    const { layers } = await unpackImage(images[target], scratch.path);
    await scratch.remove();
    process.stdout.write(`${images[target]}\n`);
    for (const { digest, size } of layers)
      process.stdout.write(`  ${digest} ${(size / 1e6).toFixed(1)} MB\n`);
  }
}
