import type { ChildProcessWithoutNullStreams } from 'node:child_process';
import { createInterface } from 'node:readline';

interface Numbered {
  readonly id: number;
}

/**
 * A program that answers each line of its input, a JSON document with an `id`, by a line with the
 * same id, in any order.
 */
export class AskedProcess<Request extends object, Answer extends object> {
  readonly #child: ChildProcessWithoutNullStreams;
  readonly #waiting = new Map<number, PromiseWithResolvers<Answer & Numbered>>();
  #last = 0;
  #log = '';

  /** @param other called with documents that answer nothing */
  constructor(child: ChildProcessWithoutNullStreams, other: (document: Answer) => void = () => {}) {
    this.#child = child;
    child.stderr.on('data', (part) => {
      this.#log += String(part);
    });
    createInterface({ input: child.stdout }).on('line', (line) => {
      const answer = JSON.parse(line) as Answer & Partial<Numbered>;
      const waiting = answer.id === undefined ? undefined : this.#waiting.get(answer.id);
      if (waiting === undefined) return other(answer);
      this.#waiting.delete(answer.id ?? 0);
      waiting.resolve(answer as Answer & Numbered);
    });
    child.once('close', () => {
      const error = new Error(`the process has ended: ${this.#log.slice(-2000)}`);
      for (const { reject } of this.#waiting.values()) reject(error);
      this.#waiting.clear();
    });
  }

  /** What it wrote to standard error. */
  get log(): string {
    return this.#log;
  }

  ask(request: Request): Promise<Answer & Numbered> {
    const id = ++this.#last;
    const waiting = Promise.withResolvers<Answer & Numbered>();
    this.#waiting.set(id, waiting);
    this.#child.stdin.write(`${JSON.stringify({ id, ...request })}\n`);
    return waiting.promise;
  }
}
