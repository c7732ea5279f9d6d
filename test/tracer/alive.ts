import type { Ruleset } from '../../agent/render/ruleset.ts';
import { toMemberSet } from '../../lib/net/member-set.ts';

/** The ruleset while these floating addresses are alive: elements of sets with a timeout. */
export function withAlive(ruleset: Ruleset, addresses: readonly string[]): Ruleset {
  const { v4, v6 } = toMemberSet([], addresses);
  const sets = [...ruleset.sets].map(
    ([name, set]) => [name, set.timed ? { ...set, members: set.family === 4 ? v4 : v6 } : set] as const,
  );
  return { ...ruleset, sets: new Map(sets) };
}
