import { spawn } from 'node:child_process';
import { CommandHost } from '../cli/command-host.ts';
import { DIE_WITH_PARENT, type Namespace, stop } from '../netns/namespace.ts';
import { COMMAND_HOST_PROGRAM } from '../program.ts';

/** Of a command line: the largest rule sets take minutes on a busy machine. */
const TIME_LIMIT = 600_000;

/** What a command line printed. */
export interface Printed {
  readonly stdout: string;
  readonly stderr: string;
}

/** The same, of one that may fail. */
export interface Ended extends Printed {
  /** Exit status. */
  readonly status: number;
}

/**
 * Runs command lines of nodewall in one process, which is started when the first one comes: for
 * hundreds of rule sets, or questions to a cluster. A process of its own takes nodewall 0.4 s of
 * processor time, most of it for loading code. `bin/nodewall` itself has its tests elsewhere.
 */
export class WarmNodewall {
  readonly #host: CommandHost;

  /** @param confined a command that starts the process with fewer rights: setpriv and its flags */
  constructor(namespace: Namespace, confined: readonly string[] = []) {
    const host = [...confined, process.execPath, COMMAND_HOST_PROGRAM];
    const argv = [...DIE_WITH_PARENT, ...namespace.command(host)];
    const start = () => spawn('setpriv', argv, { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] });
    this.#host = new CommandHost(start, TIME_LIMIT);
  }

  /** One after the other. Rejects unless the exit status would be 0. */
  async run(...args: readonly string[]): Promise<Printed> {
    const { status, stdout, stderr } = await this.end(...args);
    if (status !== 0) throw new Error(`nodewall ${args.join(' ')}: ${status}\n${stderr}`);
    return { stdout, stderr };
  }

  /** The same, whatever the exit status. Rejects where the process ended. */
  async end(...args: readonly string[]): Promise<Ended> {
    const { status, stdout, stderr } = await this.#host.run(args);
    if (status === null) throw new Error(`nodewall ${args.join(' ')}: ${stderr}`);
    return { status, stdout, stderr };
  }

  async close(): Promise<void> {
    const { child } = this.#host;
    if (child !== null) await stop(child);
  }
}
