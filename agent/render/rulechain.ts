import { BITS, type Cidr, type Family } from '../../apis/address.ts';
import type { AddressSet, CompiledRule } from '../../apis/compiled.ts';
import { shortHash } from '../../apis/hash.ts';
import { coversFamily, type FamilyMembers, memberCount, unpackAddress } from '../../apis/memberset.ts';
import { chainName, comment, setName } from './name.ts';
import { ruleText } from './nfttext.ts';
import type { Chain, Match, NamedSet, NftRule, Statement } from './ruleset.ts';
import { serviceMatches } from './servicematch.ts';

/** How an nft rule says "in this AddressSet", in one family: a set, the only prefix, everything, or never. */
type AddressMatch =
  | { readonly kind: 'set'; readonly set: NamedSet }
  | { readonly kind: 'cidr'; readonly cidr: Cidr }
  | { readonly kind: 'all' }
  | { readonly kind: 'none' };

const FAMILIES = [4, 6] as const;

/**
 * A set whose members can change is always a named set, also while empty, so that a change of members is never
 * a change of rules. What is fixed and one prefix stands in the rule itself: the kernel walks a table's sets one by one.
 */
function addressMatch(set: AddressSet, family: Family): AddressMatch {
  const members: FamilyMembers = family === 4 ? set.members.v4 : set.members.v6;
  if (coversFamily(members)) return { kind: 'all' };
  if (!set.dynamic && memberCount(members) === 0) return { kind: 'none' };
  if (!set.dynamic && memberCount(members) === 1) {
    const [prefix] = members.prefixes;
    return {
      kind: 'cidr',
      cidr: prefix ?? { ...unpackAddress(family, members.singles, 0), length: BITS[family] },
    };
  }
  const name = setName(set.id, family);
  const named: NamedSet = {
    name,
    family,
    interval: members.prefixes.length > 0,
    members,
    comment: comment(set.description),
  };
  return { kind: 'set', set: named };
}

/**
 * The matches that say "`field` is in the set", one alternative for each family that can match; a set of every address
 * of both families is one alternative without a match.
 */
export function addressAlternatives(set: AddressSet | null, field: 'saddr' | 'daddr'): AddressAlternative[] {
  if (set === null) return [ANY_ADDRESS];
  const found = FAMILIES.map((family) => [family, addressMatch(set, family)] as const);
  if (found.every(([, match]) => match.kind === 'all')) return [ANY_ADDRESS];
  return found.flatMap(([family, match]) => alternative(family, match, field) ?? []);
}

interface AddressAlternative {
  /** Null is both. */
  readonly family: Family | null;
  readonly matches: readonly Match[];
  /** The named set that the matches name. */
  readonly set: NamedSet | null;
}

const ANY_ADDRESS: AddressAlternative = { family: null, matches: [], set: null };

function alternative(
  family: Family,
  match: AddressMatch,
  field: 'saddr' | 'daddr',
): AddressAlternative | null {
  switch (match.kind) {
    case 'none':
      return null;
    case 'all':
      return { family, matches: [{ match: 'nfproto', family }], set: null };
    case 'cidr':
      return { family, matches: [{ match: 'address', family, field, in: { cidr: match.cidr } }], set: null };
    case 'set': {
      const { set } = match;
      return { family, matches: [{ match: 'address', family, field, in: { set: set.name } }], set };
    }
  }
}

/** The chain that Reject rules go to: TCP gets a reset, everything else ICMP(v6) administratively prohibited. */
export const REJECT_CHAIN: Chain = {
  name: 'refuse',
  base: null,
  fixed: true,
  source: null,
  rules: [
    {
      matches: [{ match: 'l4proto', protocols: ['tcp'] }],
      counter: false,
      statement: { kind: 'reject', with: 'tcp reset' },
      comment: null,
    },
    {
      matches: [],
      counter: false,
      statement: { kind: 'reject', with: 'icmpx admin-prohibited' },
      comment: null,
    },
  ],
};

const STATEMENTS = {
  Allow: { kind: 'accept' },
  Drop: { kind: 'drop' },
  Reject: { kind: 'goto', chain: REJECT_CHAIN.name },
} as const satisfies Record<CompiledRule['action'], Statement>;

/** A policy rule's own chain, and the sets it names. No rules in it: nothing can match. */
export function ruleChain(rule: CompiledRule, set: AddressSet | null): { chain: Chain; sets: NamedSet[] } {
  const { source } = rule;
  const addresses = addressAlternatives(set, source.direction === 'ingress' ? 'saddr' : 'daddr');
  const rules: NftRule[] = [];
  for (const services of serviceMatches(rule.services)) {
    const needed = requiredFamily(services);
    for (const { family, matches } of addresses) {
      if (family !== null && needed !== null && family !== needed) continue;
      rules.push({
        // Ports first: comparing them costs less than a set look-up.
        matches: [...services, ...matches],
        counter: true,
        statement: STATEMENTS[rule.action],
        comment: comment(`${source.policy}/${source.rule}`),
      });
    }
  }
  // ICMP of one family leaves the other family's addresses unused.
  const named = new Set(rules.flatMap(({ matches }) => matches.flatMap(setOf)));
  const name = chainName(
    source.direction,
    shortHash(10, rule.id, rules.map(ruleText)),
    `${source.policy}-${source.rule}`,
  );
  return {
    chain: { name, base: null, fixed: true, rules, source },
    sets: addresses.flatMap(({ set }) => (set !== null && named.has(set.name) ? [set] : [])),
  };
}

function setOf(match: Match): string[] {
  return match.match === 'address' && 'set' in match.in ? [match.in.set] : [];
}

function requiredFamily(matches: readonly Match[]): Family | null {
  for (const match of matches) {
    if (match.match === 'icmp') return match.protocol === 'icmp' ? 4 : 6;
    if (match.match === 'igmp' || match.match === 'address') return 4;
  }
  return null;
}
