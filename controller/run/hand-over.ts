import type { Clock } from '../../lib/process/clock.ts';
import { type HandoverFacts, handover } from '../replicas/handover.ts';

/** Milliseconds from one look to the next whether it may end; sooner when something changes. */
const LOOK = 250;

export interface HandOverParts {
  readonly clock: Pick<Clock, 'now'>;
  readonly facts: () => Omit<HandoverFacts, 'waited'>;
  /** Resolves when the facts may be other, at the latest after so many milliseconds. */
  readonly changed: (milliseconds: number) => Promise<void>;
  readonly isOver: () => boolean;
}

/**
 * Waits until others can go on without this controller. Gives the reason; null: it was over before.
 */
export async function handOver({ clock, facts, changed, isOver }: HandOverParts): Promise<string | null> {
  const started = clock.now();
  while (!isOver()) {
    const { next, why } = handover({ ...facts(), waited: clock.now() - started });
    if (next === 'end') return why;
    await changed(LOOK);
  }
  return null;
}
