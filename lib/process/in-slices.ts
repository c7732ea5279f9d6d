import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Stepwise } from '../sharing/stepwise.ts';
import type { Clock } from './clock.ts';

/** Milliseconds of work after which the event loop serves others. */
const SLICE = 25;

/**
 * Does the work in slices: timers, requests and streams are served between them, so that none waits
 * for all of it.
 */
export async function inSlices<T>(work: Stepwise<T>, { now }: Pick<Clock, 'now'>): Promise<T> {
  for (let begun = now(); ; ) {
    const step = work.next();
    if (step.done === true) return step.value;
    if (now() - begun < SLICE) continue;
    await nextTurn();
    begun = now();
  }
}
