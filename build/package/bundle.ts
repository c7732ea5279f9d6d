/**
 * Makes the program as it is installed, in the images and the Debian package:
 * `node build/package/bundle.ts FOLDER`. Same sources, same bytes. What it makes is CommonJS, as an
 * import of a module of Node.js into an ES module loads all that this module would load when first
 * used:
 * docs/adr/0038-what-is-installed-is-a-bundle.md has the figures.
 */

import { copyFile, cp, mkdir, readdir, symlink } from 'node:fs/promises';
import { dirname, join, relative } from 'node:path';
import { type Plugin, rolldown } from 'rolldown';

/** An image has no other file of build/. */
const ROOT = join(import.meta.dirname, '../..');
const ENTRY = 'cli/main';
/** Starts a process or a thread of its own: lib/process/exit.ts. */
const SIBLING = /\bsiblingModule\(import\.meta, '([^']+)'\)/g;
/** Its imports of API clients are left out; in a checkout kube-config.ts does that as it runs. */
const READER = '/@kubernetes/client-node/dist/config.js';
const LICENCE = /^(licen[cs]e|notice|copying)/i;

const withoutClients: Plugin = {
  name: 'without-clients',
  resolveId: (source, importer = '') =>
    ['./gen/index.js', 'undici'].includes(source) && importer.endsWith(READER)
      ? join(ROOT, 'controller/kubeapi/unused-parts.ts')
      : null,
};

/**
 * A module's `import.meta` is that of its source, below the folder that the bundle is in; what it
 * starts is a file of its own there.
 */
const placeOfSource: Plugin = {
  name: 'place-of-source',
  transform(code, id) {
    const path = relative(ROOT, id);
    if (!path.endsWith('.ts') || path.startsWith('..') || !code.includes('import.meta')) return null;
    for (const [, name] of code.matchAll(SIBLING)) {
      const fileName = `${dirname(path)}/${name}.cjs`;
      this.emitFile({ type: 'chunk', id: join(dirname(id), `${name}.ts`), fileName });
    }
    return code.replaceAll(/(?<!`)import\.meta/g, `$meta('${path.replace(/\.ts$/, '.cjs')}')`);
  },
};

/** Defines `$meta` in a file of the bundle. */
function banner({ fileName }: { readonly fileName: string }): string {
  const root = JSON.stringify(relative(dirname(fileName), '.') || '.');
  return `const $meta = (path) => {
  const filename = require('node:path').resolve(__dirname, ${root}, path);
  return { dirname: require('node:path').dirname(filename), filename, url: String(require('node:url').pathToFileURL(filename)) };
};`;
}

/**
 * Writes the program, the console's pages, package.json, and its packages' licences.
 *
 * @param others further modules to start, of the same code; paths from the root without extension
 */
async function bundle(folder: string, others: readonly string[] = []): Promise<void> {
  const build = await rolldown({
    input: Object.fromEntries([ENTRY, ...others].map((path) => [path, join(ROOT, `${path}.ts`)])),
    platform: 'node',
    // Some packages' CommonJS loads files at run time.
    resolve: { mainFields: ['module', 'main'] },
    transform: { target: 'node24' },
    plugins: [withoutClients, placeOfSource],
  });
  const { output } = await build.write({
    dir: folder,
    format: 'cjs',
    entryFileNames: '[name].cjs',
    chunkFileNames: 'chunks/[name]-[hash].cjs',
    banner,
  });
  await build.close();
  const modules = output.flatMap((file) => (file.type === 'chunk' ? file.moduleIds : []));
  const packages = new Set(modules.flatMap((id) => packageOf(id) ?? []));
  for (const path of [...packages].sort()) await copyDocuments(path, join(folder, path));
  await copyFile(join(ROOT, 'package.json'), join(folder, 'package.json'));
  await cp(join(ROOT, 'console/dist'), join(folder, 'console/dist'), {
    recursive: true,
    filter: (path) => !path.endsWith('.setup-stamp'),
  });
}

/** The folder of the package that a module is of, from the root; null: of this repository. */
function packageOf(id: string): string | null {
  const [path] = /^node_modules\/(?:.*\/node_modules\/)?(?:@[^/]+\/)?[^/]+/.exec(relative(ROOT, id)) ?? [];
  return path ?? null;
}

/** Scanners look for package.json, and licences stay with what they are of. */
async function copyDocuments(path: string, to: string): Promise<void> {
  const names = await readdir(join(ROOT, path));
  await mkdir(to, { recursive: true });
  for (const name of names.filter((each) => each === 'package.json' || LICENCE.test(each)))
    await copyFile(join(ROOT, path, name), join(to, name));
}

/** The files that a package or an image adds to the bundle, by their paths. */
const ADDED: readonly string[] = ['node_modules/node/bin/node', 'agent/nftables-napi/build/Release'];

/**
 * Makes the program of this checkout in a folder, as the Debian package has it; Node.js and the
 * addon are links. Takes some two seconds. Returns the path of `nodewall`.
 *
 * @param others as for `bundle`
 */
export async function installedProgram(folder: string, others: readonly string[] = []): Promise<string> {
  await bundle(folder, others);
  for (const path of ADDED) {
    await mkdir(dirname(join(folder, path)), { recursive: true });
    await symlink(join(ROOT, path), join(folder, path));
  }
  const program = join(folder, 'bin/nodewall');
  await mkdir(dirname(program));
  await copyFile(join(ROOT, 'bin/nodewall'), program);
  return program;
}

if (import.meta.main) {
  const [folder] = process.argv.slice(2);
  if (folder === undefined) throw new Error('usage: node build/package/bundle.ts FOLDER');
  await bundle(folder);
}
