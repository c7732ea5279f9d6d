import type { NftRule } from '../../agent/render/ruleset.ts';

/**
 * Whether libnftables before 1.1.0 makes other expressions of the rule's text than the agent does:
 * it changes the order of the protocol's one byte before a lookup of ranges, which has no effect.
 */
export function isConvertedByNft({ matches }: Pick<NftRule, 'matches'>): boolean {
  return matches.some(
    (match) =>
      match.match === 'portTuple' &&
      match.tuples.some(({ sourcePorts, ports }) =>
        [...(match.withSourcePort ? [sourcePorts] : []), ports].some(([first, last]) => first !== last),
      ),
  );
}
