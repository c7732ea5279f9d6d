import { LRUCache } from 'lru-cache';
import type { Clock } from '../../lib/process/clock.ts';

/** The fields of a DNS question that both the question and its answer have. */
export interface AskedQuestion {
  /** Address and port of the node's end, as one text. */
  readonly by: string;
  /** The ID of the message. */
  readonly id: number;
  /** Lower case, without a trailing dot. */
  readonly name: string;
}

/**
 * Milliseconds after which an answer is no longer accepted: applications have asked again by then.
 */
const BELIEVED = 30_000;
/** Limit of questions that wait for answers; beyond it, the oldest are forgotten. */
const MAX_WAITING = 8192;

/**
 * The questions that the node sent and that have no answer yet. To forge an answer, an attacker
 * must guess the question's ID and port, as for any resolver (RFC 5452 section 4); the first answer
 * ends the wait.
 */
export function askedQuestions(clock: Pick<Clock, 'now'>) {
  const waiting = new LRUCache<string, number>({ max: MAX_WAITING });
  return {
    ask(question: AskedQuestion): void {
      waiting.set(keyOf(question), clock.now() + BELIEVED);
    },
    /** Whether the question was asked and has no answer yet; from now on it has one. */
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
