import type { NftRule } from '../../agent/render/ruleset.ts';

/**
 * Whether libnftables 1.0.6 makes other expressions of the rule's text than the agent does: before
 * a lookup of ranges it changes the byte order of the protocol's one byte, which has no effect.
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

/** A table with such a rule, made and deleted. Linux 6.12.117 and 7.2 refuse what 1.0.6 makes. */
export const CONVERTED = `table inet converted {
  chain c { meta l4proto . th dport { tcp . 1-2, udp . 3 } accept; }
}
delete table inet converted
`;
