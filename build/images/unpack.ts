import { hash } from 'node:crypto';
import { mkdir, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { output } from '../programs/command.ts';

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
