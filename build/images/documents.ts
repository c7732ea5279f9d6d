/** `npm run image-documents`: bills of materials and provenance of the images. */

import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { output } from '../programs/command.ts';
import { ROOT, scratchFolder } from '../programs/folder.ts';
import { billOfMaterials } from './bill-of-materials.ts';
import { buildImages, type ImageTarget, TARGETS, unpackImage } from './build.ts';
import { provenance } from './provenance.ts';

const HELP = `usage: npm run image-documents -- FOLDER [--controller ARCHIVE --agent ARCHIVE] [--source URI] [--builder URI]

Writes for each image a bill of materials (CycloneDX, npm and Debian packages) and its provenance
(in-toto, SLSA v1) into FOLDER. ARCHIVE is what docker save or buildah push docker-archive: wrote;
without it the images are built here, as root. --builder names who built them. Neither file is
signed: sign them with the images when you publish, for example with cosign attest.

Example:
  npm run image-documents -- release --source git+https://example.com/nodewall --builder https://example.com/ci
`;
/** Where nothing else is said: nobody should rely on it. */
const LOCAL = 'https://nodewall.io/builders/local';
/** The inputs that the build reads first. */
const INPUTS = ['deploy/Dockerfile', 'package.json', 'package-lock.json'];

interface DocumentOptions {
  readonly archives: { readonly [target in ImageTarget]: string };
  readonly source: string;
  readonly builder: string;
}

/** Returns the paths of the files written; the checkout must be what the commit has. */
async function writeDocuments(folder: string, options: DocumentOptions): Promise<string[]> {
  const git = async (...args: string[]) => (await output(['git', ...args], { cwd: ROOT })).trim();
  const read = (path: string): Promise<string> => readFile(join(ROOT, path), 'utf8');
  const commit = await git('rev-parse', 'HEAD');
  const files = Object.fromEntries(await Promise.all(INPUTS.map(async (path) => [path, await read(path)])));
  const { version } = JSON.parse(await read('package.json'));
  const lock = JSON.parse(await read('package-lock.json'));
  await mkdir(folder, { recursive: true });
  const written: string[] = [];
  for (const target of TARGETS) {
    const scratch = await scratchFolder('nodewall-documents-');
    try {
      const { root, layers, digest } = await unpackImage(options.archives[target], scratch.path);
      const name = `nodewall-${target}`;
      const facts = { name, target, digest, layers: layers.map((layer) => layer.digest), commit, files };
      const documents = {
        [`${name}.cdx.json`]: billOfMaterials(root, { name, version, digest }, lock),
        [`${name}.provenance.json`]: provenance({ ...facts, ...options }),
      };
      for (const [file, document] of Object.entries(documents)) {
        written.push(join(folder, file));
        await writeFile(join(folder, file), `${JSON.stringify(document, null, 2)}\n`);
      }
    } finally {
      await scratch.remove();
    }
  }
  return written;
}

async function main(): Promise<number> {
  const text = { type: 'string' } as const;
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      help: { type: 'boolean' },
      controller: text,
      agent: text,
      source: text,
      builder: text,
    },
  });
  const [folder] = positionals;
  if (values.help) process.stdout.write(HELP);
  if (values.help) return 0;
  const { controller, agent } = values;
  if (
    folder === undefined ||
    positionals.length > 1 ||
    (controller === undefined) !== (agent === undefined)
  ) {
    process.stderr.write(HELP);
    return 2;
  }
  const changed = await output(['git', 'status', '--porcelain'], { cwd: ROOT });
  if (changed !== '') {
    process.stderr.write(`image-documents: the checkout has changes that no commit has:\n${changed}`);
    return 1;
  }
  const given = controller === undefined || agent === undefined ? null : { controller, agent };
  const written = await writeDocuments(folder, {
    archives: given ?? (await buildImages()),
    source: values.source ?? 'git+file:.',
    builder: values.builder ?? LOCAL,
  });
  process.stdout.write(written.map((path) => `${path}\n`).join(''));
  return 0;
}

if (import.meta.main) process.exitCode = await main();
