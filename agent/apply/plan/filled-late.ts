import { type Chain, type Ruleset, targets } from '../../render/ruleset.ts';

/**
 * The new chains whose rules are added in the swap: base chains, and those that only rules lead to
 * which the swap adds as well. The others, to which a key or a fixed chain leads, must be complete
 * before: a packet in the rules of before looks up keys as they are at that moment.
 */
export function filledLate(added: readonly Chain[], { chains, maps }: Ruleset): ReadonlySet<string> {
  const late = new Set(added.filter(({ fixed }) => !fixed).map(({ name }) => name));
  if (late.size === 0) return late;
  const early: string[] = [];
  const leadsTo = (name: string): void => {
    if (late.delete(name)) early.push(name);
  };
  for (const { verdicts } of maps.values()) for (const { chain } of verdicts) leadsTo(chain);
  for (const { fixed, rules } of chains.values())
    if (fixed) for (const { statement } of rules) for (const name of targets(statement)) leadsTo(name);
  for (const name of early)
    for (const { statement } of chains.get(name)?.rules ?? [])
      for (const next of targets(statement)) leadsTo(next);
  return late;
}
