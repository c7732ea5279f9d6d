import { basename, join } from 'node:path';
import { build, type Plugin } from 'esbuild';
import { ROOT } from '../programs/folder.ts';

/** The parts of a bundle. */
export interface PluginBundle {
  /** CommonJS: what Node.js runs from within an executable on every platform. */
  readonly code: string;
  /** Source files in it, relative to the checkout. */
  readonly sources: readonly string[];
}

/** Modules of cli/ for commands that the plugin refuses. */
const REFUSED = new Set(['agent.ts', 'controller.ts', 'off.ts', 'flush.ts', 'boot-unit.ts']);
const READER = '/@kubernetes/client-node/dist/config.js';
/** All exports of a module that is left out: classes and functions that throw. */
const ABSENT = `
module.exports = new Proxy({}, {
  get(_, name) {
    return function () { throw new Error('not in this program: ' + String(name)); };
  },
});`;

/** Leaves out what acts on a machine, and what kube-config.ts leaves out at run time. */
const leftOut: Plugin = {
  name: 'left-out',
  setup(bundler) {
    const absent = (path: string) => ({ path, namespace: 'absent' });
    bundler.onResolve({ filter: /^nftables-napi$/ }, ({ path }) => absent(path));
    bundler.onResolve({ filter: /^\.\.?\/[a-z-]+\.ts$/ }, ({ path, importer, kind }) => {
      const isCommand = kind === 'dynamic-import' && importer.startsWith(join(ROOT, 'cli/'));
      return isCommand && REFUSED.has(basename(path)) ? absent(path) : undefined;
    });
    bundler.onResolve({ filter: /^(\.\/gen\/index\.js|undici)$/ }, ({ importer }) =>
      importer.endsWith(READER) ? { path: join(ROOT, 'controller/kubeapi/unused-parts.ts') } : undefined,
    );
    bundler.onLoad({ filter: /^/, namespace: 'absent' }, () => ({ contents: ABSENT }));
  },
};

/** The plugin's program in one file, with the licences of what is in it as comments at its end. */
export async function bundlePlugin(): Promise<PluginBundle> {
  const { outputFiles, metafile } = await build({
    entryPoints: [join(ROOT, 'cli/plugin.ts')],
    absWorkingDir: ROOT,
    bundle: true,
    write: false,
    metafile: true,
    platform: 'node',
    format: 'cjs',
    target: 'node26',
    legalComments: 'eof',
    logLevel: 'warning',
    // Some packages' CommonJS loads files at run time.
    mainFields: ['module', 'main'],
    // Files beside the program: only left-out commands, and processes of the controller, have some.
    define: { 'import.meta.url': '"file:///"', 'import.meta.dirname': '"/"' },
    plugins: [leftOut],
  });
  const [file] = outputFiles;
  if (file === undefined) throw new Error('esbuild made no file');
  return { code: file.text, sources: Object.keys(metafile.inputs).sort() };
}
