import type { RuleTotals } from './accounting.ts';

/**
 * The number of connections of each rule that were not recorded, from the kernel's counters: those
 * that matched, minus those that reached the record chain. A reading is not atomic, so the matched
 * ones are taken from the reading before: the number is never too high, and complete once a second
 * reading finds no change.
 */
export interface Suppression {
  /** Counters of an earlier run; their losses are not reported again. */
  begin(totals: ReadonlyMap<string, RuleTotals>): void;
  /** Evaluates a reading; rules that it does not contain are forgotten. `now`: milliseconds. */
  read(totals: ReadonlyMap<string, RuleTotals>, now: number): void;
  /** The losses to report with the next record of the rule; they then count as reported. */
  consume(rule: string): number;
  /**
   * The losses that have waited for a record since `time` (milliseconds) or longer; they then count
   * as reported.
   */
  consumeSince(time: number): [rule: string, count: number][];
  /** Whether the last two readings were equal and no losses wait. */
  isSettled(): boolean;
}

interface RuleLosses {
  readonly logged: number;
  readonly recorded: number;
  /** Losses that were reported or wait for it. */
  readonly known: number;
  readonly waiting: number;
  readonly since: number;
}

export function suppression(): Suppression {
  const rules = new Map<string, RuleLosses>();
  let changed = false;

  function consume(rule: string): number {
    const losses = rules.get(rule);
    if (losses === undefined || losses.waiting === 0) return 0;
    rules.set(rule, { ...losses, waiting: 0 });
    return losses.waiting;
  }

  return {
    begin(totals) {
      for (const [rule, { logged, recorded }] of totals) {
        rules.set(rule, { logged, recorded, known: Math.max(0, logged - recorded), waiting: 0, since: 0 });
      }
    },
    read(totals, now) {
      changed = false;
      for (const rule of rules.keys()) if (!totals.has(rule)) rules.delete(rule);
      for (const [rule, { logged, recorded }] of totals) {
        const before = rules.get(rule) ?? { logged: 0, recorded: 0, known: 0, waiting: 0, since: 0 };
        if (before.logged !== logged || before.recorded !== recorded) changed = true;
        const more = Math.max(0, before.logged - recorded - before.known);
        rules.set(rule, {
          logged,
          recorded,
          known: before.known + more,
          waiting: before.waiting + more,
          since: before.waiting === 0 ? now : before.since,
        });
      }
    },
    consume,
    consumeSince(time) {
      return [...rules].flatMap(([rule, { waiting, since }]) =>
        waiting > 0 && since <= time ? [[rule, consume(rule)] as [string, number]] : [],
      );
    },
    isSettled: () => !changed && [...rules.values()].every(({ waiting }) => waiting === 0),
  };
}
