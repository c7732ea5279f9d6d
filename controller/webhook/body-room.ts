/** One body. */
interface Reading {
  /** Counts a chunk that was read; false: there is no room for it. */
  add(chunk: Uint8Array): boolean;
  /** Frees the chunks: nothing may read them any more. */
  leave(): void;
}

/** A chunk of one byte needs about half of this. */
const LEAST_OF_CHUNK = 1024;

interface Body {
  readonly source: string;
  readonly refuse: () => void;
  readonly chunks: Uint8Array[];
  bytes: number;
}

/**
 * The memory for bodies of all sources. When it is full, the source that has most in it loses: its
 * body that asks for more, or else its largest. So a source with little always has room.
 */
export class BodyRoom {
  readonly #most: number;
  readonly #bodies = new Set<Body>();
  #bytes = 0;

  constructor(most: number) {
    this.#most = most;
  }

  /** @param refuse refuses the body and ends its request; called at most once. */
  enter(source: string, refuse: () => void): Reading {
    const body: Body = { source, refuse, chunks: [], bytes: 0 };
    this.#bodies.add(body);
    return {
      add: (chunk) => this.#add(body, chunk),
      leave: () => {
        this.#remove(body);
        free(body.chunks);
      },
    };
  }

  #add(body: Body, chunk: Uint8Array): boolean {
    body.chunks.push(chunk);
    if (!this.#bodies.has(body)) return false;
    const bytes = Math.max(chunk.length, LEAST_OF_CHUNK);
    body.bytes += bytes;
    this.#bytes += bytes;
    while (this.#bytes > this.#most && this.#bodies.has(body)) {
      const loser = this.#loser(body);
      this.#remove(loser);
      loser.refuse();
    }
    return this.#bodies.has(body);
  }

  #remove(body: Body): void {
    if (this.#bodies.delete(body)) this.#bytes -= body.bytes;
  }

  #loser(asking: Body): Body {
    const sums = new Map<string, number>();
    for (const { source, bytes } of this.#bodies) sums.set(source, (sums.get(source) ?? 0) + bytes);
    const most = Math.max(...sums.values());
    if (sums.get(asking.source) === most) return asking;
    const candidates = [...this.#bodies].filter(({ source }) => sums.get(source) === most);
    return candidates.reduce((a, b) => (b.bytes > a.bytes ? b : a), asking);
  }
}

/**
 * Frees chunks at once. Left to the garbage collector, eight bodies of 8 MB make it go through the
 * whole heap (Node.js 24), which takes longer than to receive them.
 */
function free(chunks: readonly Uint8Array[]): void {
  for (const { buffer, length } of chunks)
    if (buffer instanceof ArrayBuffer && buffer.byteLength === length) buffer.transfer(0);
}
