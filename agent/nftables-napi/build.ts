// Builds build/Release/nftables_napi.node with cmake-js, or does nothing when it is newer than
// everything it is made of. Nothing is downloaded: package.json's `binary.napi_versions` makes
// cmake-js take its headers from node-api-headers.
import { spawnSync } from 'node:child_process';
import { existsSync, globSync, readFileSync, rmSync, statSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';

const here = import.meta.dirname;
/** The CNI plugin of egress gateways, which needs a compiler as well. */
const PLUGIN = '../../bin/nodewall-egress.c';
const target = path.join(here, 'build/Release/nftables_napi.node');

/**
 * A file that isn't there is older than all, also than an image's build that gives every file the
 * time 0.
 */
function modified(file: string): number {
  return statSync(file, { throwIfNoEntry: false })?.mtimeMs ?? -1;
}

/**
 * Whether the folder build/ came with a copy of another checkout: CMake would compile the sources
 * there.
 */
function isCopied(): boolean {
  const cache = path.join(here, 'build/CMakeCache.txt');
  if (!existsSync(cache)) return false;
  const [, home] = /^CMAKE_HOME_DIRECTORY:INTERNAL=(.*)$/m.exec(readFileSync(cache, 'utf8')) ?? [];
  return home !== here;
}

const sources = ['src/**/*.{cc,h}', 'CMakeLists.txt', 'package.json', 'build.ts', PLUGIN].flatMap((pattern) =>
  globSync(pattern, { cwd: here }).map((name) => path.join(here, name)),
);
const built = modified(target);
if (!sources.every((source) => modified(source) <= built)) {
  if (isCopied()) rmSync(path.join(here, 'build'), { recursive: true });
  const cmakeJs = path.join(
    path.dirname(createRequire(import.meta.url).resolve('cmake-js/package.json')),
    'bin/cmake-js',
  );
  const { status, error } = spawnSync(
    process.execPath,
    [cmakeJs, 'compile', '--parallel', '2', '--log-level', 'warn'],
    { cwd: here, stdio: 'inherit' },
  );
  if (error) throw error;
  process.exitCode = status ?? 1;
}
