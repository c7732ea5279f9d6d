import { type ChildProcess, spawn } from 'node:child_process';
import { join } from 'node:path';
import { DIE_WITH_PARENT, type Namespace, stop } from '../netns/namespace.ts';

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
  readonly #namespace: Namespace;
  #child: ChildProcess | undefined;
  #last: Promise<unknown> = Promise.resolve();
  #stdout = '';
  #stderr = '';
  #isDone: () => void = () => {};

  constructor(namespace: Namespace) {
    this.#namespace = namespace;
  }

  /** One after the other. Rejects unless the exit status would be 0. */
  async run(...args: readonly string[]): Promise<Printed> {
    const { status, stdout, stderr } = await this.end(...args);
    if (status !== 0) throw new Error(`nodewall ${args.join(' ')}: ${status}\n${stderr}`);
    return { stdout, stderr };
  }

  /** The same, whatever the exit status. Rejects where the process ended. */
  end(...args: readonly string[]): Promise<Ended> {
    const ended = this.#last.then(() => this.#end(args));
    this.#last = ended.catch(() => {});
    return ended;
  }

  async close(): Promise<void> {
    if (this.#child !== undefined) await stop(this.#child);
  }

  async #end(args: readonly string[]): Promise<Ended> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#isDone = resolve;
    this.#stdout = '';
    this.#stderr = '';
    this.#child ??= this.#start();
    this.#child.send(args);
    await promise;
    const [stdout = '', status] = this.#stdout.split('\0');
    const [stderr = ''] = this.#stderr.split('\0');
    if (status === undefined) throw new Error(`nodewall ${args.join(' ')}: its process ended\n${stderr}`);
    return { status: Number(status), stdout, stderr };
  }

  #start(): ChildProcess {
    const argv = this.#namespace.command([process.execPath, join(import.meta.dirname, 'warm-child.ts')]);
    const child = spawn('setpriv', [...DIE_WITH_PARENT, ...argv], {
      stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
    });
    const look = (): void => {
      if (this.#stdout.includes('\0') && this.#stdout.endsWith('\n') && this.#stderr.endsWith('\0\n'))
        this.#isDone();
    };
    child.stdout?.setEncoding('utf8').on('data', (part: string) => {
      this.#stdout += part;
      look();
    });
    child.stderr?.setEncoding('utf8').on('data', (part: string) => {
      this.#stderr += part;
      look();
    });
    child.once('exit', () => this.#isDone());
    return child;
  }
}
