import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { type Finished, run } from '../../build/programs/command.ts';
import { until } from '../kernel/until.ts';
import { createNamespace, DIE_WITH_PARENT, type Namespace } from '../netns/namespace.ts';
import { debianTools } from './debian-root.ts';
import type { Hardware, HardwareOptions, RunOptions } from './hardware.ts';

const NAME = 'server';
/**
 * Boots the machine: in a cgroup of its own, with /run in memory. Arguments: cgroup, nspawn and its
 * arguments.
 */
const BOOT = `
  cgroups=/sys/fs/cgroup
  [ -e $cgroups/cgroup.controllers ] || cgroups=$cgroups/systemd
  [ -e /sys/fs/cgroup/cgroup.controllers ] || export SYSTEMD_NSPAWN_UNIFIED_HIERARCHY=0
  mkdir -p "$cgroups/$1"
  echo $$ > "$cgroups/$1/cgroup.procs"
  mount -t tmpfs tmpfs /run
  shift
  exec "$@"`;

/** A container of systemd-nspawn, in a network namespace that is made anew at each boot. */
export class Container implements Hardware {
  readonly #options: HardwareOptions & { readonly cgroup: string };
  #network: Namespace | null = null;
  #process: ChildProcess | null = null;
  /** The machine's first process. */
  #init = 0;
  #console = '';

  constructor(options: HardwareOptions & { readonly cgroup: string }) {
    this.#options = options;
  }

  async on(): Promise<void> {
    const { outside, root, cgroup } = this.#options;
    const { nspawn, libraries } = await debianTools();
    this.#network = await createNamespace(NAME);
    await outside.connect(this.#network);
    const argv = [
      ...[nspawn, '--quiet', '--boot', '--register=no', '--keep-unit', '--console=pipe'],
      ...['--capability=CAP_NET_ADMIN', '--resolv-conf=off', '--timezone=off', '--link-journal=no'],
      ...[`--network-namespace-path=${this.#network.path}`, `--machine=${NAME}`, `--directory=${root}`],
    ];
    const unshare = ['unshare', '--mount', '--propagation', 'private', '--'];
    const command = [...unshare, 'sh', '-ec', BOOT, 'sh', cgroup, ...argv];
    const container = spawn('setpriv', [...DIE_WITH_PARENT, ...command], {
      stdio: ['ignore', 'pipe', 'pipe'],
      env: { ...process.env, LD_LIBRARY_PATH: libraries },
    });
    this.#process = container;
    this.#console = '';
    for (const stream of [container.stdout, container.stderr])
      stream.setEncoding('utf8').on('data', (text) => {
        this.#console += text;
      });
    await until('systemd runs', async () => this.#found(container), { detail: () => this.#console });
  }

  run(argv: readonly string[], options: RunOptions = {}): Promise<Finished> {
    const enter = ['--mount', '--uts', '--ipc', '--net', '--pid', '--cgroup', '--'];
    const env = { PATH: '/usr/sbin:/usr/bin:/sbin:/bin', DEBIAN_FRONTEND: 'noninteractive', LANG: 'C.UTF-8' };
    return run(['setpriv', ...DIE_WITH_PARENT, 'nsenter', `--target=${this.#init}`, ...enter, ...argv], {
      env,
      ...options,
    });
  }

  async isOff(): Promise<void> {
    const isRunning = this.#process?.exitCode === null && this.#process.signalCode === null;
    if (this.#process !== null && isRunning) await once(this.#process, 'exit');
    this.#process = null;
    this.#init = 0;
    await this.#options.outside.disconnect();
    await this.#network?.close();
  }

  async cut(): Promise<void> {
    // Its first process takes all others along; they would live on without nspawn.
    if (this.#init > 0) process.kill(this.#init, 'SIGKILL');
    this.#process?.kill('SIGKILL');
    await this.isOff();
  }

  console(): string {
    return this.#console;
  }

  /** Finds the machine's first process, which nspawn forks in more than one step. */
  async #found({ pid, exitCode }: ChildProcess): Promise<boolean> {
    if (exitCode !== null) throw new Error(`the machine has ended at once\n${this.#console}`);
    const children = await readFile(`/proc/${pid}/task/${pid}/children`, 'utf8').catch(() => '');
    for (const child of children.trim().split(' ')) {
      const program = await readFile(`/proc/${child}/comm`, 'utf8').catch(() => '');
      const command = await readFile(`/proc/${child}/cmdline`, 'utf8').catch(() => '');
      if (program.trim() === 'systemd' && !command.includes('nspawn')) this.#init = Number(child);
    }
    return this.#init > 0;
  }
}
