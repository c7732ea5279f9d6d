import { createHash } from 'node:crypto';
import { chmod, copyFile, mkdtemp, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { cached } from './cache.ts';
import { debianDependency, output, outputIfThere, unpackDebianPackage } from './command.ts';

/** The modules that are built ask for it: containerd 2.4 for more than Kubernetes 1.37. */
const NEEDED = [1, 26, 6] as const;
/** Fetched where the machine's Go is older. */
const FETCHED = '1.26.8';
const PACKAGE = /^golang-1\.\d+-go$/;

interface Go {
  /** Path of the go command. */
  readonly command: string;
  /** As `go env GOVERSION` says it: go1.26.8. */
  readonly version: string;
}

/**
 * A Go that can build the tests' cluster: the machine's own, or one that is fetched as the Go
 * module golang.org/toolchain and kept in the cache. `go mod download` of any Go does that, and
 * checks it against the checksum database; older ones (Debian 12 has 1.19) just don't run it. Where
 * there is no Go at all, Debian's is unpacked to fetch with, and not installed.
 */
export async function findGo(): Promise<Go> {
  const own = await ownGo();
  if (own !== null && isNewEnough(own.version)) return own;
  const folder = await cached('go', FETCHED, async (fresh) => {
    process.stderr.write(`cluster: fetching Go ${FETCHED}\n`);
    if (own !== null) return fetchToolchain(own.command, fresh);
    const scratch = await mkdtemp(join(tmpdir(), 'nodewall-go-'));
    try {
      await fetchToolchain(await debianGo(scratch), fresh);
    } finally {
      await rm(scratch, { recursive: true });
    }
  });
  return { command: join(folder, 'bin/go'), version: `go${FETCHED}` };
}

/** Surroundings in which go does what it is told, whatever the user has set. */
export function goEnvironment(more: NodeJS.ProcessEnv = {}): NodeJS.ProcessEnv {
  return { ...process.env, GOTOOLCHAIN: 'local', GOWORK: 'off', GOFLAGS: '', GOROOT: '', ...more };
}

export function isNewEnough(version: string): boolean {
  const [, ...parts] = /^go(\d+)\.(\d+)(?:\.(\d+))?/.exec(version) ?? [];
  if (parts.length === 0) return false;
  const differs = NEEDED.findIndex((needed, i) => Number(parts[i] ?? 0) !== needed);
  return differs === -1 || Number(parts[differs] ?? 0) > (NEEDED[differs] ?? 0);
}

async function ownGo(): Promise<Go | null> {
  for (const command of ['go', '/usr/local/go/bin/go']) {
    const options = { cwd: tmpdir(), env: goEnvironment() };
    const version = await outputIfThere([command, 'env', 'GOVERSION'], options);
    if (version !== null) return { command, version: version.trim() };
  }
  return null;
}

/** The go command of Debian's package, unpacked into a folder. */
async function debianGo(folder: string): Promise<string> {
  const name = await debianDependency('golang-go', PACKAGE);
  if (name === null)
    throw new Error(`cluster: install Go ${NEEDED.join('.')} or later (or any Go: it fetches that)`);
  await unpackDebianPackage(name, folder);
  return join(folder, 'usr/lib', name.replace(/^golang-(.*)-go$/, 'go-$1'), 'bin/go');
}

async function fetchToolchain(go: string, folder: string): Promise<void> {
  const scratch = await mkdtemp(join(tmpdir(), 'nodewall-toolchain-'));
  try {
    const env = goEnvironment({ GOFLAGS: '-modcacherw', GOMODCACHE: scratch });
    const [os, arch] = (await output([go, 'env', 'GOOS', 'GOARCH'], { cwd: scratch, env })).split('\n');
    const module = `golang.org/toolchain@v0.0.1-go${FETCHED}.${os}-${arch}`;
    const told = await output([go, 'mod', 'download', '-json', module], { cwd: scratch, env });
    await output(['cp', '-r', `${JSON.parse(told).Dir}/.`, folder]);
  } finally {
    await rm(scratch, { recursive: true });
  }
  await makeUsable(folder);
}

/**
 * Modules hold no executables and no go.mod of others: what the go command itself puts right in a
 * toolchain that it fetched.
 */
async function makeUsable(root: string): Promise<void> {
  for (const module of ['src', 'src/cmd']) {
    await rename(join(root, module, '_go.mod'), join(root, module, 'go.mod'));
  }
  for (const parent of ['bin', 'pkg/tool']) {
    const entries = await readdir(join(root, parent), { recursive: true, withFileTypes: true });
    for (const entry of entries) if (entry.isFile()) await chmod(join(entry.parentPath, entry.name), 0o755);
  }
}

interface GoBuild {
  /** Kind of the cache's folder. */
  readonly name: string;
  /** Arguments of `go build`, beside those of every program here. */
  readonly flags?: readonly string[];
  /** Arguments of the linker. */
  readonly linked?: readonly string[];
  /** How long it takes, for who waits. */
  readonly takes: string;
}

interface GoProgram extends GoBuild {
  /** Folder of go.mod and go.sum. */
  readonly source: string;
  /** Its files that the program is made of, beside these. */
  readonly files?: readonly string[];
  /** Package of the main function, by its path; default: that of the folder itself. */
  readonly program?: string;
  /** Whether packages of it have parts in C; by default these are left out. */
  readonly hasC?: boolean;
}

/** Path of a static program, from the cache or built. Its name is that of the cache's folder. */
export async function buildGoProgram(wanted: GoProgram): Promise<string> {
  const { name, source, files = [], program = '.', hasC = false } = wanted;
  const sources = await Promise.all(
    ['go.mod', 'go.sum', ...files].map((file) => readFile(join(source, file))),
  );
  const folder = await build(wanted, sources, (go, flags, fresh) =>
    goBuild(go, source, [...flags, '-o', join(fresh, name), program], hasC),
  );
  return join(folder, name);
}

interface GoModulePrograms extends GoBuild {
  readonly module: string;
  /** As modules have it: v1.37.2. */
  readonly version: string;
  /** Paths of files that a program is made of beside the module, whose package is `.`. */
  readonly files?: readonly string[];
  /** Packages of main functions. */
  readonly programs: readonly string[];
}

/**
 * Folder of static programs of a module, from the cache or built. Each has its package's name.
 * There is no go.sum: go checks what it fetches against the checksum database.
 */
export async function buildGoModule(wanted: GoModulePrograms): Promise<string> {
  const { module, version, files = [], programs } = wanted;
  const sources = await Promise.all(files.map((file) => readFile(file)));
  const named = JSON.stringify([module, version, programs]);
  return build(wanted, [named, ...sources], async (go, flags, fresh) => {
    const scratch = await mkdtemp(join(tmpdir(), 'nodewall-go-'));
    try {
      await writeFile(join(scratch, 'go.mod'), await goModOf(go, module, version));
      for (const file of files) await copyFile(file, join(scratch, basename(file)));
      await goBuild(go, scratch, ['-mod=mod', ...flags, '-o', `${fresh}/`, ...programs]);
    } finally {
      await rm(scratch, { recursive: true });
    }
  });
}

/**
 * The least go.mod, which go completes. Kubernetes requires the modules of its own repository at
 * v0.0.0; with 1.37.2 they are released as 0.37.2.
 */
async function goModOf(go: Go, module: string, version: string): Promise<string> {
  const options = { cwd: tmpdir(), env: goEnvironment() };
  const text = await output([go.command, 'list', '-m', '-json', `${module}@${version}`], options);
  const { GoMod: file, GoVersion: needed } = JSON.parse(text);
  const unreleased = (await readFile(file, 'utf8')).matchAll(/^\t(\S+) v0\.0\.0$/gm);
  const released = version.replace(/^v\d+/, 'v0');
  return [
    'module nodewall.io/programs',
    `go ${needed}`,
    `require ${module} ${version}`,
    ...[...unreleased].map(([, name]) => `replace ${name} => ${name} ${released}`),
    '',
  ].join('\n');
}

/** `sources` stand for what is built, in the cache. */
async function build(
  { name, flags = [], linked = [], takes }: GoBuild,
  sources: readonly (Buffer | string)[],
  make: (go: Go, flags: readonly string[], fresh: string) => Promise<void>,
): Promise<string> {
  const go = await findGo();
  const all = ['-buildvcs=false', '-trimpath', '-ldflags', ['-s', '-w', ...linked].join(' '), ...flags];
  const key = createHash('sha256').update(JSON.stringify([go.version, process.arch, all]));
  for (const source of sources) key.update(source);
  return cached(name, key.digest('hex').slice(0, 16), async (fresh) => {
    process.stderr.write(`${name}: building with ${go.version}, once: ${takes}\n`);
    const started = performance.now();
    await make(go, all, fresh);
    process.stderr.write(`${name}: built in ${((performance.now() - started) / 1000).toFixed(0)} s\n`);
  });
}

async function goBuild(go: Go, cwd: string, args: readonly string[], hasC = false): Promise<void> {
  const env = goEnvironment({ CGO_ENABLED: hasC ? '1' : '0' });
  await output(['nice', '-n', '10', go.command, 'build', ...args], { cwd, env });
}
