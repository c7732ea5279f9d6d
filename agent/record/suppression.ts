import type { RuleTotals } from './accounting.ts';

/**
 * How many connections of each rule were not recorded, from the kernel's counters: what matched
 * less what the record accounts for. A reading is no single moment, so what matched is taken from
 * the reading before: never too many are told, and all of them once a second reading finds no more.
 */
export interface Suppression {
  /** Counts of an earlier run: what they say was told, or is past telling. */
  begin(totals: ReadonlyMap<string, RuleTotals>): void;
  /** Rules that are not in it are forgotten. */
  read(totals: ReadonlyMap<string, RuleTotals>, now: number): void;
  /** For the next record of the rule; told then. */
  take(rule: string): number;
  /** What waits for a record since `time` or longer; told then. */
  takeSince(time: number): [rule: string, count: number][];
  /** Whether the last two readings said the same, and nothing waits. */
  isSettled(): boolean;
}

interface Told {
  readonly logged: number;
  readonly recorded: number;
  /** Told, or waiting to be. */
  readonly known: number;
  readonly waiting: number;
  readonly since: number;
}

export function suppression(): Suppression {
  const rules = new Map<string, Told>();
  let changed = false;

  function take(rule: string): number {
    const told = rules.get(rule);
    if (told === undefined || told.waiting === 0) return 0;
    rules.set(rule, { ...told, waiting: 0 });
    return told.waiting;
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
    take,
    takeSince(time) {
      return [...rules].flatMap(([rule, { waiting, since }]) =>
        waiting > 0 && since <= time ? [[rule, take(rule)] as [string, number]] : [],
      );
    },
    isSettled: () => !changed && [...rules.values()].every(({ waiting }) => waiting === 0),
  };
}
