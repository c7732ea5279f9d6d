import { createHash } from 'node:crypto';
import { chmod, mkdtemp, readdir, readFile, rename, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { cached } from './cache.ts';
import { debianDependency, output, outputIfThere, unpackDebianPackage } from './command.ts';

/** The modules that go.mod asks for. */
const NEEDED = [1, 25] as const;
/** Fetched where the machine's Go is older. */
const FETCHED = '1.25.8';
const PACKAGE = /^golang-1\.\d+-go$/;

interface Go {
  /** Path of the go command. */
  readonly command: string;
  /** As `go env GOVERSION` says it: go1.25.8. */
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
  const [, major, minor] = /^go(\d+)\.(\d+)/.exec(version) ?? [];
  const [neededMajor, neededMinor] = NEEDED;
  return Number(major) > neededMajor || (Number(major) === neededMajor && Number(minor) >= neededMinor);
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

interface GoProgram {
  /** Kind of the cache's folder, and name of the program. */
  readonly name: string;
  /** Folder of go.mod and go.sum. */
  readonly source: string;
  /** Its files that the program is made of, beside these. */
  readonly files?: readonly string[];
  /** Package of the main function, by its path; default: that of the folder itself. */
  readonly program?: string;
  /** Arguments of `go build`, beside those of every program here. */
  readonly flags?: readonly string[];
  /** Arguments of the linker. */
  readonly linked?: readonly string[];
  /** How long it takes, for who waits. */
  readonly takes: string;
}

/** Path of a static program, from the cache or built. */
export async function buildGoProgram(wanted: GoProgram): Promise<string> {
  const { name, source, files = [], program = '.', flags = [], linked = [], takes } = wanted;
  const go = await findGo();
  const all = ['-buildvcs=false', '-trimpath', '-ldflags', ['-s', '-w', ...linked].join(' '), ...flags];
  const key = createHash('sha256').update(JSON.stringify([go.version, process.arch, all]));
  for (const file of ['go.mod', 'go.sum', ...files]) key.update(await readFile(join(source, file)));
  const folder = await cached(name, key.digest('hex').slice(0, 16), async (fresh) => {
    process.stderr.write(`${name}: building, once: ${takes}\n`);
    await output(['nice', '-n', '10', go.command, 'build', ...all, '-o', join(fresh, name), program], {
      cwd: source,
      env: goEnvironment({ CGO_ENABLED: '0' }),
    });
  });
  return join(folder, name);
}
