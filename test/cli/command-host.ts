import { type ChildProcess, fork } from 'node:child_process';
import { join } from 'node:path';
import { COMMAND_HOST_PROGRAM, IS_OTHER, NODEWALL } from '../program.ts';
import { type Ended, run } from './command.ts';

/** A message to the child. */
export interface HostedCommand {
  readonly id: number;
  readonly args: readonly string[];
}

const ROOT = join(import.meta.dirname, '../..');
const TIME_LIMIT = 20_000;

/**
 * One Node.js process that runs commands of `nodewall` one after the other, through the same entry
 * as cli/main.ts: a command costs its own work and no start of Node.js. For claims about output and
 * exit status; those about signals, terminals, pipes, standard input or memory need a process of
 * their own (`nodewall` in command.ts). A command that does not end, or leaves something open that
 * would keep its process from ending, has status null.
 */
export class CommandHost {
  readonly #fork: () => ChildProcess;
  readonly #timeLimit: number;
  #child: ChildProcess | null = null;
  #next = 0;
  readonly #waiting = new Map<number, (ended: Ended) => void>();

  /**
   * @param start starts COMMAND_HOST_PROGRAM with a channel, when the first command comes and after
   *   its process has ended
   * @param timeLimit of a command, in milliseconds
   */
  constructor(start: () => ChildProcess, timeLimit = TIME_LIMIT) {
    this.#fork = start;
    this.#timeLimit = timeLimit;
  }

  /** The process, where there is one. */
  get child(): ChildProcess | null {
    return this.#child;
  }

  async run(args: readonly string[]): Promise<Ended> {
    const child = this.#child ?? this.#start();
    child.ref();
    child.channel?.ref();
    const id = this.#next++;
    const timer = setTimeout(() => child.kill('SIGKILL'), this.#timeLimit);
    const ended = await new Promise<Ended>((resolve) => {
      this.#waiting.set(id, resolve);
      child.send({ id, args } satisfies HostedCommand);
    });
    clearTimeout(timer);
    if (this.#waiting.size === 0) {
      child.unref();
      child.channel?.unref();
    }
    return ended;
  }

  #start(): ChildProcess {
    const child = this.#fork();
    this.#child = child;
    child.on('message', ({ id, ended }: { readonly id: number; readonly ended: Ended }) => {
      this.#waiting.get(id)?.(ended);
      this.#waiting.delete(id);
    });
    child.once('exit', (status) => {
      this.#child = null;
      for (const resolve of this.#waiting.values())
        resolve({ status: null, stdout: '', stderr: `the process of the commands ended with ${status}` });
      this.#waiting.clear();
    });
    return child;
  }
}

// Its working directory is the repository. It ends with this process: its channel is closed then.
const host = new CommandHost(() =>
  fork(COMMAND_HOST_PROGRAM, { cwd: ROOT, stdio: ['ignore', 'inherit', 'inherit', 'ipc'] }),
);

/**
 * The end of a command that ran in the process that all commands of this test process share; with
 * NODEWALL_BIN in one of its own.
 */
export function hosted(...args: readonly string[]): Promise<Ended> {
  return IS_OTHER ? run([NODEWALL, ...args]) : host.run(args);
}
