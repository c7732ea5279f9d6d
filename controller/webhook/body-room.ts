/** The bytes of one body. */
export interface Reading {
  /** Counts bytes that were read; false: there is no room for them. */
  take(bytes: number): boolean;
  leave(): void;
}

interface Body {
  readonly source: string;
  readonly refuse: () => void;
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
    const body: Body = { source, refuse, bytes: 0 };
    this.#bodies.add(body);
    return {
      take: (bytes) => this.#take(body, bytes),
      leave: () => this.#remove(body),
    };
  }

  #take(body: Body, bytes: number): boolean {
    if (!this.#bodies.has(body)) return false;
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
