import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { type Finished, output } from '../../build/programs/command.ts';
import { type Daemon, daemon } from '../cluster/daemon.ts';
import type { GuestKernel } from '../guests/kernel.ts';
import { isGuestEmulated, qemuCommand } from '../guests/qemu.ts';
import { succeeds, until } from '../kernel/until.ts';
import { GuestAgent } from './guest-agent.ts';
import type { Hardware, HardwareOptions, RunOptions } from './hardware.ts';
import { LINK, MAC } from './outside.ts';

const DISK_SIZE = '3G';
/** The port by which Debian's qemu-guest-agent answers. */
const PORT = 'org.qemu.guest_agent.0';
/** Milliseconds: an emulated one boots in a minute, on a busy machine in some. */
const LIMIT = 600_000;

/**
 * A virtual machine of qemu with a disk of ext4 and a network card, whose kernel starts the disk's
 * systemd. Where its plug is pulled, what was not yet written to the disk is lost.
 */
export class VirtualHardware implements Hardware {
  readonly #options: HardwareOptions & { readonly kernel: GuestKernel };
  #machine: Daemon | null = null;
  #console = '';
  #agent: GuestAgent | null = null;

  constructor(options: HardwareOptions & { readonly kernel: GuestKernel }) {
    this.#options = options;
  }

  async on(): Promise<void> {
    const { folder, outside } = this.#options;
    const socket = join(folder, 'agent');
    this.#machine ??= await this.#made(socket);
    const machine = this.#machine;
    await rm(socket, { force: true });
    await outside.connectCard();
    await machine.start();
    const looks = async (condition: () => Promise<boolean>) => {
      this.#console = await machine.log();
      if (!machine.isRunning()) throw new Error(`the machine has ended at once\n${this.#console}`);
      return condition();
    };
    const options = { limit: LIMIT, detail: () => this.#console };
    const connects = async () => {
      this.#agent = await GuestAgent.of(socket);
    };
    await until('qemu runs', () => looks(() => succeeds(connects())), options);
    await until('the machine answers', () => looks(async () => this.#agent?.isThere() === true), options);
  }

  run(argv: readonly string[], { stdin }: RunOptions = {}): Promise<Finished> {
    if (this.#agent === null) throw new Error('the machine is off');
    return this.#agent.run(argv, stdin);
  }

  async isOff(): Promise<void> {
    await until('the machine is off', async () => this.#machine?.isRunning() !== true, { limit: LIMIT });
    this.#agent?.close();
    this.#agent = null;
    await this.#options.outside.disconnect();
  }

  async cut(): Promise<void> {
    await this.#machine?.stop('SIGKILL');
    await this.isOff();
  }

  console(): string {
    return this.#console;
  }

  /** Makes the disk. */
  async #made(socket: string): Promise<Daemon> {
    const { root, folder, kernel, outside } = this.#options;
    const disk = join(folder, 'disk');
    await output(['cp', '-a', kernel.modules, join(root, 'usr/lib')]);
    await output(['mke2fs', '-q', '-t', 'ext4', '-d', root, disk, DISK_SIZE]);
    const devices = [
      ...['-drive', `file=${disk},format=raw,if=virtio`],
      ...['-netdev', `tap,id=card,ifname=${LINK},script=no,downscript=no`],
      ...['-device', `virtio-net-pci,netdev=card,mac=${MAC.machine},romfile=`],
      ...['-chardev', `socket,id=agent,path=${socket},server=on,wait=off`],
      ...['-device', 'virtio-serial-pci', '-device', `virtserialport,chardev=agent,name=${PORT}`],
    ];
    const isEmulated = await isGuestEmulated(kernel.processor);
    const argv = qemuCommand(kernel, { isEmulated, words: ['disk=/dev/vda'], devices });
    return daemon({ name: 'qemu', argv, logFile: join(folder, 'console'), namespace: outside.namespace });
  }
}
