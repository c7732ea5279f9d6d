import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type Finished, output, run } from '../../build/programs/command.ts';
import { type Scratch, scratchFolder } from '../../build/programs/folder.ts';
import { until } from '../kernel/until.ts';
import { createNamespace, DIE_WITH_PARENT, type Namespace } from '../netns/namespace.ts';
import { type DebianTools, debianRoot, debianTools } from './debian-root.ts';
import { ADDRESSES, Outside } from './outside.ts';

/**
 * Of a server as Debian installs it: with SSH, a network that systemd brings up, both firewalls.
 */
const PACKAGES = [
  ...['systemd', 'systemd-sysv', 'dbus', 'iproute2', 'procps', 'openssh-server'],
  ...['nftables', 'iptables', 'ipset', 'libnftables1', 'libstdc++6'],
];
const NAME = 'server';
/** The interface comes up when systemd-networkd says so: after network-pre.target. */
const NETWORK = `[Match]
Name=host0
[Network]
Address=${ADDRESSES.machine}/24
Gateway=${ADDRESSES.gateway}
LinkLocalAddressing=no
`;

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

/**
 * One server: a Debian that systemd-nspawn boots, with a disk that survives and a kernel state (its
 * network namespace) that does not. It is off when it is made, and gone when this process dies.
 */
export class ServerMachine {
  readonly outside: Outside;
  /** Its disk. */
  readonly root: string;
  readonly #scratch: Scratch;
  readonly #group: string;
  readonly #tools: DebianTools;
  #network: Namespace | null = null;
  #container: ChildProcess | null = null;
  #init = 0;
  #said = '';

  private constructor(parts: { outside: Outside; scratch: Scratch; tools: DebianTools; group: string }) {
    this.outside = parts.outside;
    this.root = join(parts.scratch.path, 'root');
    this.#scratch = parts.scratch;
    this.#tools = parts.tools;
    this.#group = parts.group;
  }

  static async create(): Promise<ServerMachine> {
    const [base, tools] = [await debianRoot(PACKAGES), await debianTools()];
    const group = `nodewall-server-${process.pid}`;
    const scratch = await scratchFolder('nodewall-server-', { cgroup: group });
    const machine = new ServerMachine({ outside: await Outside.create(), scratch, tools, group });
    const { root } = machine;
    await output(['cp', '-a', '--reflink=auto', base, root]);
    await writeFile(join(root, 'etc/hostname'), `${NAME}\n`);
    await writeFile(join(root, 'etc/systemd/network/10-uplink.network'), NETWORK);
    await output(['chroot', root, 'systemctl', 'enable', 'systemd-networkd', 'ssh']);
    return machine;
  }

  /** Copies a file to the machine's disk. */
  async take(file: string, path: string): Promise<void> {
    await output(['cp', file, join(this.root, path)]);
  }

  /** Boots; resolves when systemd has started everything, or as much as it can. */
  async powerOn(): Promise<void> {
    if (this.#container !== null) throw new Error('the machine is on');
    this.#network = await createNamespace(NAME);
    await this.outside.connect(this.#network);
    const { nspawn, libraries } = this.#tools;
    const argv = [
      ...[nspawn, '--quiet', '--boot', '--register=no', '--keep-unit', '--console=pipe'],
      ...['--capability=CAP_NET_ADMIN', '--resolv-conf=off', '--timezone=off', '--link-journal=no'],
      ...[`--network-namespace-path=${this.#network.path}`, `--machine=${NAME}`, `--directory=${this.root}`],
    ];
    const unshare = ['unshare', '--mount', '--propagation', 'private', '--'];
    const command = [...unshare, 'sh', '-ec', BOOT, 'sh', this.#group, ...argv];
    const container = spawn('setpriv', [...DIE_WITH_PARENT, ...command], {
      stdio: ['ignore', 'pipe', 'pipe'],
      env: { ...process.env, LD_LIBRARY_PATH: libraries },
    });
    this.#container = container;
    this.#said = '';
    for (const stream of [container.stdout, container.stderr])
      stream.setEncoding('utf8').on('data', (text) => {
        this.#said += text;
      });
    const detail = () => this.#said;
    await until('systemd runs', async () => this.#found(container), { detail });
    await until('the machine has booted', () => this.#isUp(), { detail, limit: 120_000 });
  }

  /** As `systemctl poweroff`: what the kernel held is gone. */
  async powerOff(): Promise<void> {
    const container = this.#on();
    const ended = once(container, 'exit');
    await this.run(['systemctl', '--no-block', 'poweroff']);
    await ended;
    await this.#gone();
  }

  /** As if its plug was pulled. */
  async cutPower(): Promise<void> {
    const container = this.#on();
    const ended = once(container, 'exit');
    // Its first process takes all others along; they would live on without nspawn.
    process.kill(this.#init, 'SIGKILL');
    container.kill('SIGKILL');
    await ended;
    await this.#gone();
  }

  /** Runs a command on the machine to its end, whatever that is. */
  run(argv: readonly string[], options: { stdin?: string } = {}): Promise<Finished> {
    const enter = ['--mount', '--uts', '--ipc', '--net', '--pid', '--cgroup', '--'];
    const env = { PATH: '/usr/sbin:/usr/bin:/sbin:/bin', DEBIAN_FRONTEND: 'noninteractive', LANG: 'C.UTF-8' };
    return run(['setpriv', ...DIE_WITH_PARENT, 'nsenter', `--target=${this.#init}`, ...enter, ...argv], {
      env,
      ...options,
    });
  }

  /** Standard output of a shell script on the machine. Rejects where it fails. */
  async shell(script: string): Promise<string> {
    const { code, stdout, stderr } = await this.run(['sh', '-ec', script]);
    if (code !== 0) throw new Error(`${script}: status ${code}\n${stdout}${stderr}`);
    return stdout;
  }

  async close(): Promise<void> {
    if (this.#container !== null) await this.cutPower();
    await this.outside.close();
    await this.#scratch.remove();
  }

  async #isUp(): Promise<boolean> {
    const { stdout: state } = await this.run(['systemctl', 'is-system-running']);
    const { stdout: addresses } = await this.run(['ip', '-brief', 'address', 'show', 'host0']);
    return /running|degraded/.test(state) && addresses.includes(ADDRESSES.machine);
  }

  #on(): ChildProcess {
    if (this.#container === null) throw new Error('the machine is off');
    return this.#container;
  }

  async #gone(): Promise<void> {
    this.#container = null;
    this.#init = 0;
    await this.outside.disconnect();
    await this.#network?.close();
    this.#network = null;
  }

  /** Finds the machine's first process, which nspawn forks in more than one step. */
  async #found({ pid, exitCode }: ChildProcess): Promise<boolean> {
    if (exitCode !== null) throw new Error(`the machine has ended at once\n${this.#said}`);
    const children = await readFile(`/proc/${pid}/task/${pid}/children`, 'utf8').catch(() => '');
    for (const child of children.trim().split(' ')) {
      const program = await readFile(`/proc/${child}/comm`, 'utf8').catch(() => '');
      const command = await readFile(`/proc/${child}/cmdline`, 'utf8').catch(() => '');
      if (program.trim() === 'systemd' && !command.includes('nspawn')) this.#init = Number(child);
    }
    return this.#init > 0;
  }
}
