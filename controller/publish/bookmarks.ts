import type { Compiled } from '../../apis/compiled.ts';
import { VIEW_EXTENSION } from '../extension/view.ts';
import type { Line } from './bodies.ts';
import type { NodeCounts } from './changes.ts';

/** A watcher, as far as the lines that it receives depend on it. */
export interface Receiver {
  readonly node: string;
  /** Whether it knows the messages of egress gateways. */
  readonly hasEgress: boolean;
}

/** A bookmark's number of objects, for the receiver to compare. */
export interface BookmarkCounts extends NodeCounts {
  /** Absent: the receiver has nothing of egress gateways. */
  readonly egress?: number;
}

/** The counts of a view, with those of egress gateways. */
export function bookmarkCounts(
  counts: NodeCounts,
  { node, hasEgress }: Receiver,
  compiled: Compiled | undefined,
): BookmarkCounts {
  return hasEgress && compiled !== undefined
    ? { ...counts, ...VIEW_EXTENSION.count(compiled, node) }
    : counts;
}

/** The bookmarks at one revision: one line for all receivers with the same counts. */
export class Bookmarks {
  readonly #revision: string;
  readonly #lines = new Map<string, Line>();

  constructor(revision: string) {
    this.#revision = revision;
  }

  line(counts: BookmarkCounts): Line {
    const body = JSON.stringify({ type: 'bookmark', ...counts });
    const line = this.#lines.get(body) ?? {
      revision: this.#revision,
      body: Buffer.from(`${body.slice(1)}\n`),
    };
    this.#lines.set(body, line);
    return line;
  }
}
