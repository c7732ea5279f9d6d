import type {
  BuiltinChain,
  CountPurpose,
  IpSet,
  IptablesChain,
  IptablesRuleset,
  IptablesTable,
} from '../../agent/render/iptables/tables.ts';
import type { RuleSource } from '../../apis/compiled.ts';
import { type Family, parseCidr } from '../../lib/net/address.ts';
import { toMemberSet } from '../../lib/net/member-set.ts';

/**
 * A small IptablesRuleset. Chains are lists of rules as text; `@id` behind one says what it counts
 * for.
 */
export function iptablesRuleset(parts: {
  readonly filter?: Readonly<Record<string, readonly string[]>>;
  readonly nat?: Readonly<Record<string, readonly string[]>>;
  readonly jumps?: Readonly<Partial<Record<BuiltinChain, string>>>;
  readonly sets?: readonly IpSet[];
  readonly families?: readonly Family[];
}): IptablesRuleset {
  const { filter, nat, jumps = {}, sets = [], families = [4, 6] } = parts;
  const tables: IptablesTable[] = [];
  for (const [name, given] of [
    ['filter', filter],
    ['nat', nat],
  ] as const) {
    if (given === undefined) continue;
    const chains = new Map(Object.entries(given).map(([chain, rules]) => [chain, toChain(chain, rules)]));
    const own = Object.entries(jumps).filter(([, to]) => chains.has(to));
    tables.push({ name, chains, jumps: own.map(([from, to]) => ({ from: from as BuiltinChain, to })) });
  }
  return {
    sets: new Map(sets.map((set) => [set.name, set])),
    families: { 4: families.includes(4) ? tables : [], 6: families.includes(6) ? tables : [] },
  };
}

function toChain(name: string, rules: readonly string[]): IptablesChain {
  return {
    name,
    rules: rules.map((rule, i) => {
      const [text = '', ruleId] = rule.split(' @');
      const counts: CountPurpose | null = ruleId === undefined ? null : { ruleId, kind: 'matched' };
      return { text, counts, source: ruleSource(`${name}/${i}`) };
    }),
  };
}

export function ruleSource(rule: string): RuleSource {
  return {
    apiGroup: 'nodewall.io' as RuleSource['apiGroup'],
    policy: 'p',
    uid: 'u',
    generation: 1,
    direction: 'ingress',
    ruleIndex: 0,
    rule,
  };
}

/** A set of addresses; hash:net where some are prefixes. */
export function addressSet(name: string, family: Family, members: readonly string[]): IpSet {
  const blocks = members.filter((text) => text.includes('/')).flatMap((text) => parseCidr(text)?.cidr ?? []);
  const set = toMemberSet(
    blocks.map((cidr) => ({ cidr, except: [] })),
    members.filter((text) => !text.includes('/')),
  );
  const own = family === 4 ? set.v4 : set.v6;
  return { name, family, type: blocks.length > 0 ? 'hash:net' : 'hash:ip', members: own };
}
