import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { createInterface } from 'node:readline';
import type { Finished } from '../../build/programs/command.ts';
import { pause } from '../kernel/until.ts';

const ENV = ['PATH=/usr/sbin:/usr/bin:/sbin:/bin', 'DEBIAN_FRONTEND=noninteractive', 'LANG=C.UTF-8'];
/** Milliseconds between looks whether a command has ended. */
const POLL_MS = 50;

interface Answer {
  readonly return?: unknown;
  readonly error?: { readonly desc: string };
}

interface ExecStatus {
  readonly exited: boolean;
  readonly exitcode?: number;
  readonly 'out-data'?: string;
  readonly 'err-data'?: string;
}

/**
 * Commands in a guest, by Debian's qemu-guest-agent. It answers in the order of the questions, each
 * with one line (qemu's docs/interop/qemu-ga-ref).
 */
export class GuestAgent {
  readonly #socket: Socket;
  readonly #waiting: { resolve(value: unknown): void; reject(error: Error): void }[] = [];
  #isThere = false;

  /** By the socket of qemu whose other end is the guest's port; nobody needs to be there yet. */
  static async of(path: string): Promise<GuestAgent> {
    const socket = connect(path);
    await once(socket, 'connect');
    return new GuestAgent(socket);
  }

  private constructor(socket: Socket) {
    this.#socket = socket;
    socket.on('close', () => {
      for (const { reject } of this.#waiting.splice(0)) reject(new Error('the machine has gone off'));
    });
    const lines = createInterface({ input: socket });
    lines.on('error', () => undefined); // `close` follows
    lines.on('line', (line) => {
      const { return: value, error }: Answer = JSON.parse(line);
      const asked = this.#waiting.shift();
      if (error === undefined) asked?.resolve(value);
      else asked?.reject(new Error(error.desc));
    });
    this.#ask('guest-ping').then(
      () => {
        this.#isThere = true;
      },
      () => undefined, // it has gone off
    );
  }

  /** Whether it has ever answered. */
  isThere(): boolean {
    return this.#isThere;
  }

  async run([path, ...arg]: readonly string[], stdin = ''): Promise<Finished> {
    const input = { 'input-data': Buffer.from(stdin).toString('base64'), 'capture-output': true };
    const { pid } = (await this.#ask('guest-exec', { path, arg, env: ENV, ...input })) as { pid: number };
    for (;;) {
      const status = (await this.#ask('guest-exec-status', { pid })) as ExecStatus;
      if (status.exited) {
        const text = (data = '') => Buffer.from(data, 'base64').toString();
        const [stdout, stderr] = [text(status['out-data']), text(status['err-data'])];
        return { code: status.exitcode ?? null, stdout, stderr };
      }
      await pause(POLL_MS);
    }
  }

  close(): void {
    this.#socket.destroy();
  }

  #ask(execute: string, parameters: object = {}): Promise<unknown> {
    return new Promise((resolve, reject) => {
      if (this.#socket.destroyed) return reject(new Error('the machine has gone off'));
      this.#waiting.push({ resolve, reject });
      this.#socket.write(`${JSON.stringify({ execute, arguments: parameters })}\n`);
    });
  }
}
