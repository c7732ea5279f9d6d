import { IptablesReconciler } from '../../agent/apply/iptables/reconciler.ts';
import { removeRules, removeSets } from '../../agent/apply/iptables/remove.ts';
import { parseSaved } from '../../agent/apply/iptables/saved.ts';
import type { IptablesTools } from '../../agent/apply/iptables/tools.ts';
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

function ruleSource(rule: string): RuleSource {
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

export const WEB4 = addressSet('nodewall-web-4', 4, ['192.0.2.1', '192.0.2.2']);
export const NETS6 = addressSet('nodewall-nets-6', 6, ['2001:db8::/32', '::', 'fd00::1']);
export const SERVICES: IpSet = {
  name: 'nodewall-services-4',
  family: 4,
  type: 'hash:ip,port',
  // 10.0.0.1 tcp:80, 10.0.0.1 sctp:443
  members: {
    singles: Uint8Array.of(10, 0, 0, 1, 6, 0, 0, 0, 0, 80, 0, 0, 10, 0, 0, 1, 132, 0, 0, 0, 1, 187, 0, 0),
    prefixes: [],
  },
};
export const JUMPS = { INPUT: 'NODEWALL-INPUT', POSTROUTING: 'NODEWALL-POSTROUTING' } as const;

/** One family each: sets have one. */
export const RULESET: IptablesRuleset = withSets([WEB4, NETS6, SERVICES]);

export function withSets(
  sets: readonly IpSet[],
  web: readonly string[] = ['-p tcp -m tcp --dport 80 -j ACCEPT @one'],
): IptablesRuleset {
  const four = iptablesRuleset({
    filter: {
      'NODEWALL-INPUT': [
        '-m set --match-set nodewall-web-4 src -g NODEWALL-WEB',
        '-m comment --comment "a/b -j NODEWALL-WEB" -j RETURN',
      ],
      'NODEWALL-WEB': [...web, '-m set --match-set nodewall-services-4 dst,dst -j DROP @two'],
    },
    nat: { 'NODEWALL-POSTROUTING': ['-m mark --mark 0x1000/0x1000 -j MASQUERADE --random'] },
    jumps: JUMPS,
  });
  const six = iptablesRuleset({
    filter: { 'NODEWALL-INPUT': ['-m set --match-set nodewall-nets-6 src -j DROP @one'] },
    jumps: JUMPS,
  });
  return {
    sets: new Map(sets.map((set) => [set.name, set])),
    families: { 4: four.families[4], 6: six.families[6] },
  };
}

export async function removed(tools: IptablesTools): Promise<string[]> {
  return [...(await removeRules(tools)), ...(await removeSets(tools))];
}

export interface IptablesCase {
  readonly name: string;
  readonly run: (tools: IptablesTools) => Promise<void>;
}

export async function filter4(tools: IptablesTools) {
  return parseSaved(await tools.save(4)).filter;
}

export async function processesOf(tools: IptablesTools, work: () => Promise<unknown>): Promise<number> {
  const before = tools.processes();
  await work();
  return tools.processes() - before;
}

export async function applied(tools: IptablesTools, ruleset = RULESET): Promise<IptablesReconciler> {
  const reconciler = new IptablesReconciler(tools);
  await reconciler.apply(ruleset);
  return reconciler;
}
