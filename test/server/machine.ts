import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type Finished, output } from '../../build/programs/command.ts';
import { type Scratch, scratchFolder } from '../../build/programs/folder.ts';
import type { GuestKernel } from '../guests/kernel.ts';
import { until } from '../kernel/until.ts';
import { Container } from './container.ts';
import { debianRoot } from './debian-root.ts';
import type { Hardware, RunOptions } from './hardware.ts';
import { ADDRESSES, Outside } from './outside.ts';
import { VirtualHardware } from './virtual-hardware.ts';

/**
 * Of a server as Debian installs it: with SSH, a network that systemd brings up, both firewalls.
 * Virtual hardware needs the last ones.
 */
const PACKAGES = [
  ...['systemd', 'systemd-sysv', 'dbus', 'iproute2', 'procps', 'openssh-server'],
  ...['nftables', 'iptables', 'ipset', 'libnftables1', 'libstdc++6'],
  ...['udev', 'kmod', 'qemu-guest-agent'],
];
const NAME = 'server';
/** The interface comes up when systemd-networkd says so: after network-pre.target. */
const NETWORK = `[Match]
Name=host0 en*
[Network]
Address=${ADDRESSES.machine}/24
Gateway=${ADDRESSES.gateway}
LinkLocalAddressing=no
`;
/** Milliseconds. An emulated processor is ten times slower. */
const BOOT_LIMIT = { container: 120_000, guest: 600_000 };

/**
 * One server: a Debian with its own systemd, a disk that survives and a kernel state that does not.
 * It is off when it is made, and gone when this process dies.
 */
export class ServerMachine {
  readonly outside: Outside;
  readonly #root: string;
  readonly #scratch: Scratch;
  readonly #hardware: Hardware;
  readonly #bootLimit: number;
  #isOn = false;

  private constructor(parts: {
    outside: Outside;
    scratch: Scratch;
    root: string;
    hardware: Hardware;
    bootLimit: number;
  }) {
    this.outside = parts.outside;
    this.#root = parts.root;
    this.#scratch = parts.scratch;
    this.#hardware = parts.hardware;
    this.#bootLimit = parts.bootLimit;
  }

  /** In a guest with that kernel; null: in a container. */
  static async create(kernel: GuestKernel | null): Promise<ServerMachine> {
    const base = await debianRoot(PACKAGES);
    const cgroup = `nodewall-server-${process.pid}`;
    const scratch = await scratchFolder('nodewall-server-', { cgroup });
    const outside = await Outside.create();
    const [root, folder] = [join(scratch.path, 'root'), join(scratch.path, 'hardware')];
    await mkdir(folder);
    await output(['cp', '-a', '--reflink=auto', base, root]);
    await writeFile(join(root, 'etc/hostname'), `${NAME}\n`);
    await writeFile(join(root, 'etc/systemd/network/10-uplink.network'), NETWORK);
    await output(['chroot', root, 'systemctl', 'enable', 'systemd-networkd', 'ssh']);
    const options = { root, folder, outside };
    const hardware =
      kernel === null ? new Container({ ...options, cgroup }) : new VirtualHardware({ ...options, kernel });
    const bootLimit = BOOT_LIMIT[kernel === null ? 'container' : 'guest'];
    return new ServerMachine({ outside, scratch, root, hardware, bootLimit });
  }

  /** Copies a file to the machine's disk, before it is first switched on. */
  async take(file: string, path: string): Promise<void> {
    await output(['cp', file, join(this.#root, path)]);
  }

  /** Boots; resolves when systemd has started everything, or as much as it can. */
  async powerOn(): Promise<void> {
    if (this.#isOn) throw new Error('the machine is on');
    this.#isOn = true;
    await this.#hardware.on();
    const detail = () => this.#hardware.console();
    await until('the machine has booted', () => this.#isUp(), { detail, limit: this.#bootLimit });
  }

  /** As `systemctl poweroff`: what the kernel held is gone. */
  async powerOff(): Promise<void> {
    await this.run(['systemctl', '--no-block', 'poweroff']);
    await this.#hardware.isOff();
    this.#isOn = false;
  }

  /** As if its plug was pulled. */
  async cutPower(): Promise<void> {
    await this.#hardware.cut();
    this.#isOn = false;
  }

  /** Runs a command on the machine to its end, whatever that is. */
  run(argv: readonly string[], options?: RunOptions): Promise<Finished> {
    if (!this.#isOn) throw new Error('the machine is off');
    return this.#hardware.run(argv, options);
  }

  /** Standard output of a shell script on the machine. Rejects where it fails. */
  async shell(script: string): Promise<string> {
    const { code, stdout, stderr } = await this.run(['sh', '-ec', script]);
    if (code !== 0) throw new Error(`${script}: status ${code}\n${stdout}${stderr}`);
    return stdout;
  }

  async close(): Promise<void> {
    if (this.#isOn) await this.cutPower();
    await this.outside.close();
    await this.#scratch.remove();
  }

  async #isUp(): Promise<boolean> {
    const { stdout: state } = await this.run(['systemctl', 'is-system-running']);
    const { stdout: addresses } = await this.run(['ip', '-brief', 'address']);
    return /running|degraded/.test(state) && addresses.includes(ADDRESSES.machine);
  }
}
