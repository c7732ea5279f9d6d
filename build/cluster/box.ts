import { createHash } from 'node:crypto';
import { copyFile, mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { buildImages } from '../images/build.ts';
import { cached } from '../programs/cache.ts';
import { output } from '../programs/command.ts';
import { scratchFolder } from '../programs/folder.ts';
import { buildCarrier } from './carrier.ts';
import { type RealCluster, startRealCluster } from './cluster.ts';
import { PAUSE_IMAGE } from './configuration.ts';
import {
  chosenPodNetwork,
  chosenProxyMode,
  POD_NETWORKS,
  type PodNetworkName,
  type ServiceProxy,
} from './pod-network.ts';
import { buildPrograms, type Programs } from './programs.ts';
import type { RealNode } from './real-node.ts';
import { imageTemplate } from './template.ts';

interface BoxOptions {
  /** Default: as the environment has it (pod-network.ts). */
  readonly podNetwork?: PodNetworkName;
  readonly proxy?: ServiceProxy;
}

/**
 * Everything that the cluster is made of, from the cache or made: some 20 minutes of two cores on a
 * new machine.
 */
export async function buildBox({
  podNetwork = chosenPodNetwork(),
  proxy = chosenProxyMode(),
}: BoxOptions = {}): Promise<Parameters<typeof startRealCluster>[0]> {
  const programs = await buildPrograms();
  const { between } = POD_NETWORKS[podNetwork];
  const carrier = between === 'routes' ? null : await buildCarrier(between);
  const template = await imageTemplate(programs, await clusterImages(programs));
  return { programs, template, podNetwork, carrier, proxy };
}

/** A cluster with CoreDNS; nodewall is not installed. */
export async function startBox(options: BoxOptions = {}): Promise<RealCluster> {
  return startRealCluster(await buildBox(options));
}

const PROBE = join(import.meta.dirname, '../../test/probe');

/**
 * Paths of the archives of all images that the cluster's pods use, nodewall's own among them; from
 * the cache, or made.
 */
async function clusterImages({ coredns }: Programs): Promise<string[]> {
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

interface ImageParts {
  /** With registry and tag: docker.io/library/probe:test. */
  readonly name: string;
  /** Paths in the image, and the files that are put there. */
  readonly files: Readonly<Record<string, string>>;
  readonly entrypoint: readonly string[];
  /** The folder of all other files; absent: there are none. */
  readonly base?: string;
  /** Arguments where a pod gives none. */
  readonly arguments?: readonly string[];
}

const OCI = 'application/vnd.oci.image';
/** Same input, same bytes. */
const TAR = ['tar', '--sort=name', '--mtime=@0', '--owner=0', '--group=0', '--numeric-owner', '--create'];

/**
 * Writes an image of one layer as the archive of an OCI image layout (opencontainers/image-spec,
 * image-layout.md), as `ctr images import` takes it.
 */
export async function writeImage(parts: ImageParts, archive: string): Promise<void> {
  const { name, files, entrypoint, base, arguments: given = [] } = parts;
  const scratch = await scratchFolder('nodewall-image-');
  try {
    const root = join(scratch.path, 'root');
    const layout = join(scratch.path, 'layout');
    await mkdir(join(layout, 'blobs/sha256'), { recursive: true });
    if (base !== undefined) await output(['cp', '--archive', base, root]);
    for (const [path, file] of Object.entries(files)) {
      const target = join(root, path);
      await mkdir(dirname(target), { recursive: true });
      await copyFile(file, target);
    }
    const tar = join(scratch.path, 'layer.tar');
    await output([...TAR, '--file', tar, '--directory', root, '.']);
    const blob = async (content: Buffer | string, mediaType: string) => {
      const hash = createHash('sha256').update(content).digest('hex');
      await writeFile(join(layout, 'blobs/sha256', hash), content);
      return { mediaType, digest: `sha256:${hash}`, size: Buffer.byteLength(content) };
    };
    const platform = { architecture: process.arch === 'x64' ? 'amd64' : process.arch, os: 'linux' };
    const layer = await blob(await readFile(tar), `${OCI}.layer.v1.tar`);
    const config = await blob(
      JSON.stringify({
        ...platform,
        config: { Entrypoint: entrypoint, Cmd: given },
        rootfs: { type: 'layers', diff_ids: [layer.digest] },
      }),
      `${OCI}.config.v1+json`,
    );
    const mediaType = `${OCI}.manifest.v1+json`;
    const manifest = await blob(
      JSON.stringify({ schemaVersion: 2, mediaType, config, layers: [layer] }),
      mediaType,
    );
    const annotations = { 'io.containerd.image.name': name };
    const index = { schemaVersion: 2, manifests: [{ ...manifest, platform, annotations }] };
    await writeFile(join(layout, 'index.json'), JSON.stringify(index));
    await writeFile(join(layout, 'oci-layout'), '{"imageLayoutVersion":"1.0.0"}');
    await output([...TAR, '--file', archive, '--directory', layout, '.']);
  } finally {
    await scratch.remove();
  }
}

/** Gives a node an image that its template lacks. */
export async function importImage(node: RealNode, archive: string): Promise<void> {
  const { code, stderr } = await node.run(['ctr', '--namespace=k8s.io', 'images', 'import', archive]);
  if (code !== 0) throw new Error(`ctr images import ${archive} on ${node.name}: ${stderr}`);
}

if (import.meta.main) await buildBox();
