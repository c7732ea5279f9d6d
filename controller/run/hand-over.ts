import type { Clock } from '../../lib/process/clock.ts';
import { type HandoverFacts, handover } from '../replicas/handover.ts';

/** Interval between checks whether it may end (milliseconds); changes are checked sooner. */
const LOOK = 250;

export interface HandOverOptions {
  readonly clock: Pick<Clock, 'now'>;
  readonly facts: () => Omit<HandoverFacts, 'waited'>;
  /** Resolves when the facts may have changed, at the latest after this time (milliseconds). */
  readonly changed: (milliseconds: number) => Promise<void>;
  readonly isOver: () => boolean;
}

/**
 * Waits until other replicas can continue without this one. Resolves with the reason; null:
 * `isOver` came first.
 */
export async function handOver({ clock, facts, changed, isOver }: HandOverOptions): Promise<string | null> {
  const started = clock.now();
  while (!isOver()) {
    const { next, why } = handover({ ...facts(), waited: clock.now() - started });
    if (next === 'end') return why;
    await changed(LOOK);
  }
  return null;
}
