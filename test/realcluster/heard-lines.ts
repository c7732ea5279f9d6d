import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';

export interface HeardLine {
  readonly text: string;
  /** When it arrived, in milliseconds since 1970. */
  readonly at: number;
}

/** The lines that a program says, kept from the first on. */
export class HeardLines {
  readonly #lines: HeardLine[] = [];
  #isEnded = false;
  #news = Promise.withResolvers<void>();

  constructor(stream: Readable) {
    const told = (): void => {
      this.#news.resolve();
      this.#news = Promise.withResolvers();
    };
    createInterface({ input: stream })
      .on('line', (text) => {
        this.#lines.push({ text, at: Date.now() });
        told();
      })
      .on('close', () => {
        this.#isEnded = true;
        told();
      });
  }

  /** The first line of which `read` makes something; rejects where the program ends before. */
  async first<T>(what: string, read: (line: HeardLine) => T | null): Promise<T> {
    for (let seen = 0; ; ) {
      for (; seen < this.#lines.length; seen++) {
        const line = this.#lines[seen];
        const made = line === undefined ? null : read(line);
        if (made !== null) return made;
      }
      if (this.#isEnded) throw new Error(`not heard: ${what}\n${this.#last()}`);
      await this.#news.promise;
    }
  }

  /** Does something again and again until it is heard of: from then on the program listens. */
  async untilListening(act: () => Promise<unknown>): Promise<void> {
    while (this.#lines.length === 0) {
      if (this.#isEnded) throw new Error('the program has ended');
      await act();
    }
  }

  #last(): string {
    return this.#lines
      .slice(-20)
      .map(({ text }) => text)
      .join('\n');
  }
}
