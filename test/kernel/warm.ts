import { type ChildProcess, spawn } from 'node:child_process';
import { join } from 'node:path';
import { DIE_WITH_PARENT, type Namespace, stop } from '../netns/namespace.ts';

/** What a command line printed. */
export interface Printed {
  readonly stdout: string;
  readonly stderr: string;
}

/**
 * Runs command lines of nodewall in one process, which is started when the first one comes: for
 * hundreds of rule sets. A process of its own takes nodewall 0.4 s of processor time, most of it for
 * loading code. `bin/nodewall` itself has its tests elsewhere.
 */
export class WarmNodewall {
  readonly #namespace: Namespace;
  #child: ChildProcess | undefined;
  #stdout = '';
  #stderr = '';
  #isDone: () => void = () => {};

  constructor(namespace: Namespace) {
    this.#namespace = namespace;
  }

  /** One at a time. Rejects unless the exit status would be 0. */
  async run(...args: readonly string[]): Promise<Printed> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#isDone = resolve;
    this.#stdout = '';
    this.#stderr = '';
    this.#child ??= this.#start();
    this.#child.send(args);
    await promise;
    const [stdout = '', status] = this.#stdout.split('\0');
    if (status !== '0\n') throw new Error(`nodewall ${args.join(' ')}: ${status}\n${this.#stderr}`);
    return { stdout, stderr: this.#stderr };
  }

  async close(): Promise<void> {
    if (this.#child !== undefined) await stop(this.#child);
  }

  #start(): ChildProcess {
    const argv = this.#namespace.command([process.execPath, join(import.meta.dirname, 'warm-child.ts')]);
    const child = spawn('setpriv', [...DIE_WITH_PARENT, ...argv], {
      stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
    });
    child.stdout?.setEncoding('utf8').on('data', (part: string) => {
      this.#stdout += part;
      if (this.#stdout.includes('\0') && part.endsWith('\n')) this.#isDone();
    });
    child.stderr?.setEncoding('utf8').on('data', (part: string) => {
      this.#stderr += part;
    });
    child.once('exit', () => this.#isDone());
    return child;
  }
}
