import { LRUCache } from 'lru-cache';
import type { Clock } from '../../lib/process/clock.ts';

/** A DNS question as both the question and its answer show it. */
export interface AskedQuestion {
  /** The node's own end: address and port, in one text. */
  readonly by: string;
  /** The message's number. */
  readonly id: number;
  /** Lower case, without a trailing dot. */
  readonly name: string;
}

/**
 * An answer that comes later than this is not believed (milliseconds): applications have asked
 * again by then.
 */
const BELIEVED = 30_000;
/** Questions that may wait for their answers at one time; of more the oldest are forgotten. */
const MAX_WAITING = 8192;

/**
 * The questions that the node asked and that have no answer yet. Who forges answers has to guess
 * the number of the question besides its port, as with applications (RFC 5452 section 4); and the
 * first answer ends it.
 */
export function askedQuestions(clock: Pick<Clock, 'now'>) {
  const waiting = new LRUCache<string, number>({ max: MAX_WAITING });
  return {
    ask(question: AskedQuestion): void {
      waiting.set(keyOf(question), clock.now() + BELIEVED);
    },
    /** Whether it was asked, and has no answer yet; it has one from now on. */
    answer(question: AskedQuestion): boolean {
      const key = keyOf(question);
      const until = waiting.get(key);
      waiting.delete(key);
      return until !== undefined && clock.now() <= until;
    },
  };
}

function keyOf({ by, id, name }: AskedQuestion): string {
  return `${by} ${id} ${name}`;
}
