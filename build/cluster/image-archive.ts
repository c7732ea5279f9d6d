import { createHash } from 'node:crypto';
import { copyFile, mkdir, readFile, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { output } from '../programs/command.ts';
import { scratchFolder } from '../programs/folder.ts';
import type { RealNode } from './cluster.ts';

export interface ImageParts {
  /** With registry and tag: docker.io/library/probe:test. */
  readonly name: string;
  /** Paths in the image, and the files that are put there. */
  readonly files: Readonly<Record<string, string>>;
  readonly entrypoint: readonly string[];
}

const OCI = 'application/vnd.oci.image';
/** Same input, same bytes. */
const TAR = ['tar', '--sort=name', '--mtime=@0', '--owner=0', '--group=0', '--numeric-owner', '--create'];

/**
 * Writes an image of one layer as the archive of an OCI image layout (opencontainers/image-spec,
 * image-layout.md), as `ctr images import` takes it.
 */
export async function writeImage({ name, files, entrypoint }: ImageParts, archive: string): Promise<void> {
  const scratch = await scratchFolder('nodewall-image-');
  try {
    const root = join(scratch.path, 'root');
    const layout = join(scratch.path, 'layout');
    await mkdir(join(layout, 'blobs/sha256'), { recursive: true });
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
        config: { Entrypoint: entrypoint },
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
