import { access, mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { DIE_WITH_PARENT } from '../../test/netns/namespace.ts';
import { output, unpackDebianPackage } from '../programs/command.ts';

/**
 * buildah and what it runs steps with, with the libraries that a small Debian lacks; mmdebstrap for
 * base images.
 */
const PACKAGES = [
  'buildah',
  'libgpgme11',
  'libassuan0',
  'libdevmapper1.02.1',
  'libseccomp2',
  'runc',
  'mmdebstrap',
];

/** Debian's name of this machine's kind. */
const MULTIARCH = `${process.arch === 'x64' ? 'x86_64' : 'aarch64'}-linux-gnu`;

/**
 * buildah keeps a cache in /var/lib/containers, whatever it is told: here that is in memory, and
 * what else is in /var/lib as it is.
 */
const WITHOUT_CACHE = `
  exec 3</var/lib
  mount -t tmpfs tmpfs /var/lib
  for path in /proc/self/fd/3/*; do
    folder=/var/lib/$(basename "$path")
    if [ -d "$path" ] && [ "$folder" != /var/lib/containers ]; then mkdir "$folder"; mount --rbind "$path" "$folder"; fi
  done
  exec 3<&- "$@"`;

/** Unpacks them into a folder. Nothing is installed. */
export async function unpackTools(folder: string): Promise<void> {
  for (const name of PACKAGES) await unpackDebianPackage(name, folder);
}

/**
 * The argument array for a program whose mounts and processes are gone when it ends, or we do, kill
 * -9 included.
 */
export function confined(argv: readonly string[]): string[] {
  const unshare = [
    'unshare',
    '--mount',
    '--pid',
    '--fork',
    '--kill-child',
    '--mount-proc',
    '--propagation',
    'private',
  ];
  return ['setpriv', ...DIE_WITH_PARENT, ...unshare, '--', ...argv];
}

interface BuildahOptions {
  /** Where unpackTools() put them. */
  readonly tools: string;
  /** Folder of this machine that all it writes is below. */
  readonly folder: string;
  /** Storages of others, whose images it has and does not write. */
  readonly lower: readonly string[];
}

/** Builds images in a storage of its own, and talks to no image registry. */
export class Buildah {
  readonly #options: BuildahOptions;

  private constructor(options: BuildahOptions) {
    this.#options = options;
  }

  static async open(options: BuildahOptions): Promise<Buildah> {
    const { folder, lower } = options;
    for (const name of ['storage', 'conf', 'tmp', 'home'])
      await mkdir(join(folder, name), { recursive: true });
    const storage = [
      '[storage]',
      'driver = "overlay"',
      `graphroot = "${join(folder, 'storage')}"`,
      `runroot = "${join(folder, 'tmp/run')}"`,
      '[storage.options]',
      `additionalimagestores = ${JSON.stringify(lower)}`,
    ];
    await writeFile(join(folder, 'conf/storage.conf'), `${storage.join('\n')}\n`);
    await writeFile(join(folder, 'conf/registries.conf'), 'unqualified-search-registries = ["docker.io"]\n');
    await writeFile(join(folder, 'conf/policy.json'), '{"default": [{"type": "insecureAcceptAnything"}]}\n');
    return new Buildah(options);
  }

  /**
   * `volumes`: files of this machine that steps may read, at which paths; they get into no image.
   */
  async build(
    name: string,
    context: string,
    options: { args?: readonly string[]; volumes?: readonly [from: string, to: string][] } = {},
  ): Promise<void> {
    const { args = [], volumes = [] } = options;
    await this.#run([
      'bud',
      '--layers',
      '--pull-never',
      '--timestamp=0',
      // Packages are fetched as the machine fetches them.
      '--network=host',
      ...(await ownLimits()),
      `--runtime-flag=root=${join(this.#options.folder, 'tmp/runc')}`,
      ...volumes.map(([from, to]) => `--volume=${from}:${to}:ro`),
      `--tag=${name}`,
      ...args,
      context,
    ]);
  }

  /** Writes an archive that `docker load` and `ctr images import` take. */
  async save(name: string, file: string): Promise<void> {
    await this.#run(['push', name, `docker-archive:${file}:${name}`]);
  }

  async #run([command = '', ...args]: readonly string[]): Promise<void> {
    const { tools, folder } = this.#options;
    const argv = [
      join(tools, 'usr/bin/buildah'),
      command,
      `--signature-policy=${join(folder, 'conf/policy.json')}`,
    ];
    await output(confined(['sh', '-ec', WITHOUT_CACHE, 'sh', ...argv, ...args]), {
      env: {
        ...process.env,
        LD_LIBRARY_PATH: ['lib', 'usr/lib'].map((name) => join(tools, name, MULTIARCH)).join(':'),
        CONTAINERS_STORAGE_CONF: join(folder, 'conf/storage.conf'),
        CONTAINERS_REGISTRIES_CONF: join(folder, 'conf/registries.conf'),
        BUILDAH_ISOLATION: 'oci',
        BUILDAH_RUNTIME: join(tools, 'usr/sbin/runc'),
        TMPDIR: join(folder, 'tmp'),
        HOME: join(folder, 'home'),
      },
    });
  }
}

export async function isReadable(file: string): Promise<boolean> {
  return access(file).then(
    () => true,
    () => false,
  );
}

/**
 * The limits of steps, where this process may not raise its own to what buildah gives steps by
 * default (1,048,576 of each), as in a sandbox without CAP_SYS_RESOURCE. See proc_pid_limits(5).
 */
async function ownLimits(): Promise<string[]> {
  const limits = await readFile('/proc/self/limits', 'utf8');
  return [
    ['nofile', /^Max open files +\S+ +(\d+)/m] as const,
    ['nproc', /^Max processes +\S+ +(\d+)/m] as const,
  ].flatMap(([name, row]) => {
    const hard = row.exec(limits)?.[1];
    return hard === undefined ? [] : [`--ulimit=${name}=${hard}:${hard}`];
  });
}
