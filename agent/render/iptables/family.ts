import type { RuleSource } from '../../../apis/compiled.ts';
import type { Family } from '../../../lib/net/address.ts';
import { sameItems } from '../../../lib/sharing/lists.ts';
import { type Chain, matchedSet, type NftRule } from '../ruleset.ts';
import { BASE_CHAINS, FORWARD as FORWARDED, NODEPORT_ENTRY } from '../topology.ts';
import type { SetNames } from './fragment.ts';
import { masquerade, POSTROUTING_CHAIN } from './masquerade.ts';
import {
  iptablesQuote,
  NO_ORIGIN,
  RETURN,
  ruleWithoutOrigin,
  type TranslatedRule,
  type TranslatedTraffic,
  type TranslationContext,
  translateChain,
  translateRule,
  withoutLastReturns,
} from './rule-text.ts';
import {
  type BuiltinChain,
  CHAIN_PREFIX,
  type IptablesChain,
  type IptablesRule,
  type IptablesTable,
  type IptablesTableName,
} from './tables.ts';

const INPUT = `${CHAIN_PREFIX}INPUT`;
const OUTPUT = `${CHAIN_PREFIX}OUTPUT`;
const FORWARD = `${CHAIN_PREFIX}FORWARD`;
const NODEPORT = `${CHAIN_PREFIX}NODEPORT`;
/**
 * The chain that marks packets for masquerading by table nat; only the first packet of a connection
 * traverses it.
 */
const MASQUERADE = `${CHAIN_PREFIX}MASQUERADE`;
/**
 * Drops packets from the network to 127.0.0.0/8. The kernel drops them itself unless route_localnet
 * is on, as kube-proxy sets it. Then the kubelet's KUBE-FIREWALL drops them, but it comes after our
 * chains and doesn't see packets that a policy accepts (CVE-2020-8558).
 */
const MARTIANS = ruleWithoutOrigin(
  `-d 127.0.0.0/8 ! -i lo -m conntrack ! --ctstate DNAT -m comment --comment ${iptablesQuote('loopback addresses on the network')} -j DROP`,
);

/**
 * Earlier results that are reused: translations of chains that are the same objects, and iptables
 * chains with the same content.
 */
export interface TranslationCache {
  readonly chains: WeakMap<Chain, TranslatedChain>;
  tables: readonly IptablesTable[];
}

interface TranslatedChain {
  readonly rules: readonly TranslatedRule[];
  /** The sets that the rules name: their names in the Ruleset and in ipset. */
  readonly sets: readonly (readonly [name: string, inIpset: string])[];
  /** The chain made from the rules, if it can be reused. */
  linked: Linked | null;
}

interface Linked {
  /** For each rule, whether the chain it leads to has rules. */
  readonly isTaken: readonly boolean[];
  readonly chain: IptablesChain | null;
}

interface Source {
  readonly chains: ReadonlyMap<string, Chain>;
  readonly setNames: SetNames;
  readonly chainName: (name: string) => string;
}

/** The tables of one family, and the sets that their rules name, by their names in the Ruleset. */
export function familyTables(
  source: Source,
  family: Family,
  cache: TranslationCache,
): { readonly tables: readonly IptablesTable[]; readonly sets: ReadonlySet<string> } {
  const { chains, ...context } = source;
  const translation = new Translation(chains, { ...context, family }, cache);
  cache.tables = translation.tables();
  return { tables: cache.tables, sets: translation.sets };
}

class Translation {
  /** Names in the Ruleset. */
  readonly sets = new Set<string>();
  readonly #chains: ReadonlyMap<string, Chain>;
  readonly #context: Omit<TranslationContext, 'traffic'>;
  readonly #cache: TranslationCache;
  /** In the order in which rules lead to them. */
  #found = new Map<string, IptablesChain>();
  /** The same chains by their names in the Ruleset; null: the chain is empty in this family. */
  readonly #resolved = new Map<string, IptablesChain | null>();

  constructor(
    chains: ReadonlyMap<string, Chain>,
    context: Omit<TranslationContext, 'traffic'>,
    cache: TranslationCache,
  ) {
    this.#chains = chains;
    this.#context = context;
    this.#cache = cache;
  }

  tables(): IptablesTable[] {
    const input = this.#root(INPUT, () => this.#input());
    const output = this.#root(OUTPUT, () => this.#base(BASE_CHAINS.egress.chain));
    const masqueraded = masquerade(this.#chains, this.#context);
    const forward = this.#placed(FORWARD, () =>
      // The chain exists even without rules, so that the jump to it keeps its position when rules
      // are added.
      this.#made(FORWARD, this.#forward(masqueraded?.marking ?? [])),
    );
    for (const chain of masqueraded?.chains ?? []) this.#found.set(chain.name, chain);
    const filter = this.#table('filter', { INPUT: input, OUTPUT: output, FORWARD: forward });
    if (masqueraded === null) return [filter];
    const postrouting = this.#root(POSTROUTING_CHAIN, () => masqueraded.rules);
    return [filter, this.#table('nat', { POSTROUTING: postrouting })];
  }

  /** Contains all chains found since the previous table. */
  #table(name: IptablesTableName, roots: Partial<Record<BuiltinChain, IptablesChain | null>>): IptablesTable {
    const chains = this.#found;
    this.#found = new Map();
    const jumps = Object.entries(roots).flatMap(([from, to]) =>
      to === null ? [] : [{ from: from as BuiltinChain, to: to.name }],
    );
    return { name, jumps, chains };
  }

  #root(name: string, rules: () => readonly IptablesRule[]): IptablesChain | null {
    return this.#placed(name, () => this.#same(name, withoutLastReturns(rules())));
  }

  /** Inserts the chain before the chains that it leads to. */
  #placed(name: string, make: () => IptablesChain | null): IptablesChain | null {
    this.#found.set(name, { name, rules: [] });
    const chain = make();
    if (chain === null) this.#found.delete(name);
    else this.#found.set(name, chain);
    return chain;
  }

  #same(name: string, rules: readonly IptablesRule[]): IptablesChain | null {
    return rules.length === 0 ? null : this.#made(name, rules);
  }

  /** Reuses the previous chain if its content is the same. */
  #made(name: string, rules: readonly IptablesRule[]): IptablesChain {
    const before = this.#cache.tables.find(({ chains }) => chains.has(name))?.chains.get(name);
    const isSame =
      before?.rules.length === rules.length &&
      (sameItems(before.rules, rules) || before.rules.every((rule, i) => isSameRule(rule, rules[i])));
    return isSame ? before : { name, rules };
  }

  #base(name: string): readonly IptablesRule[] {
    const chain = this.#chains.get(name);
    return chain === undefined ? [] : this.#rules(this.#translated(chain, null, 'host').rules, null, 'host');
  }

  /** Whether a rule decides anything: those of Audit policies return all packets. */
  #enforces(): boolean {
    const decides = ({ statement }: NftRule): boolean =>
      ['accept', 'drop', 'reject'].includes(statement.kind) ||
      (statement.kind === 'goto' && this.#chains.get(statement.chain)?.ruleId === null);
    return [...this.#chains.values()].some(({ ruleId, rules }) => ruleId !== null && rules.some(decides));
  }

  /**
   * NodePort traffic traverses INPUT if its pod is on the host's network. nft evaluates this
   * traffic before INPUT, so here its rules come before the exemptions: what it is after NAT must
   * not exempt it.
   */
  #input(): readonly IptablesRule[] {
    const chain = this.#chains.get(BASE_CHAINS.ingress.chain);
    const rules = chain?.rules ?? [];
    const judged = rules.findIndex(({ matches }) => matches.some(({ match }) => match === 'ctEstablished'));
    const martians = this.#context.family === 4 && this.#enforces() ? [MARTIANS] : [];
    return [
      ...this.#plain(rules.slice(0, judged + 1)),
      ...martians,
      ...this.#toNodePort(),
      ...this.#plain(rules.slice(judged + 1)),
    ];
  }

  #plain(rules: readonly NftRule[]): readonly IptablesRule[] {
    return this.#rules(
      rules.flatMap((rule) => this.#translateRule(rule, 'host')),
      null,
      'host',
    );
  }

  /** Empty in most clusters, because every packet of a pod traverses this chain. */
  #forward(marking: readonly IptablesRule[]): readonly IptablesRule[] {
    const marks = this.#root(MASQUERADE, () => marking);
    const spoofed = this.#plain(this.#chains.get(FORWARDED.chain)?.rules ?? []);
    const ofNew = [
      ...(marks === null ? [] : [ruleWithoutOrigin(`-m conntrack ! --ctstatus CONFIRMED -j ${marks.name}`)]),
      ...this.#toNodePort(),
    ];
    if (ofNew.length === 0) return spoofed;
    return [...spoofed, ruleWithoutOrigin(`-m conntrack --ctstate RELATED,ESTABLISHED ${RETURN}`), ...ofNew];
  }

  #toNodePort(): IptablesRule[] {
    if (!this.#chains.has(NODEPORT_ENTRY)) return [];
    const chain = this.#found.get(NODEPORT) ?? this.#root(NODEPORT, () => this.#nodeport());
    return chain === null ? [] : [ruleWithoutOrigin(`-m conntrack --ctstate DNAT -j ${NODEPORT}`)];
  }

  /**
   * The first list of rules is inlined here, so that traffic it accepts (by RETURN) doesn't reach
   * the second.
   */
  #nodeport(): readonly IptablesRule[] {
    const rules = this.#chains.get(NODEPORT_ENTRY)?.rules ?? [];
    let isFirst = true;
    return rules.flatMap((rule) => {
      const { statement } = rule;
      if (statement.kind !== 'jump' || !isFirst) {
        return this.#rules(this.#translateRule(rule, 'nodeport'), null, 'nodeport');
      }
      isFirst = false;
      return this.#inline(this.#chain(statement.chain));
    });
  }

  /** The rules of the chains in a list, inlined. */
  #inline(list: Chain): readonly IptablesRule[] {
    return list.rules.flatMap(({ matches, statement }) => {
      const chain = statement.kind === 'jump' ? this.#chain(statement.chain) : null;
      if (chain?.source == null || matches.length > 0) throw new Error(`${list.name} is not a list of rules`);
      const { rules } = this.#translated(chain, chain.source, 'nodeport');
      if (!this.#goesOn(chain)) return this.#rules(rules, chain.source, 'nodeport');
      // A packet may match only one of these rules and then continues after the last of them: they
      // stay in a chain.
      const own = this.#resolve(chain.name, chain.source, 'nodeport');
      return own === null ? [] : [{ ...ruleWithoutOrigin(`-j ${own.name}`), source: chain.source }];
    });
  }

  /**
   * Whether the chain is that of an Audit rule: a packet that matches it continues with the next
   * rule.
   */
  #goesOn({ rules }: Chain): boolean {
    const [statement] = rules.map((rule) => rule.statement);
    if (statement?.kind !== 'goto') return statement?.kind === 'return';
    return this.#chain(statement.chain).rules.at(-1)?.statement.kind === 'return';
  }

  #chain(name: string): Chain {
    const chain = this.#chains.get(name);
    if (chain === undefined) throw new Error(`the ruleset does not contain its chain ${name}`);
    return chain;
  }

  #translateRule(rule: NftRule, traffic: TranslatedTraffic): TranslatedRule[] {
    return translateRule(rule, NO_ORIGIN, { ...this.#context, traffic });
  }

  #translated(chain: Chain, source: RuleSource | null, traffic: TranslatedTraffic): TranslatedChain {
    const { setNames } = this.#context;
    let found = this.#cache.chains.get(chain);
    if (found?.sets.every(([name, inIpset]) => setNames.get(name) === inIpset) !== true) {
      const named = new Set(chain.rules.flatMap(setsOf));
      found = {
        rules: translateChain(chain, source, { ...this.#context, traffic }),
        sets: [...named].map((name) => [name, setNames.get(name) ?? ''] as const),
        linked: null,
      };
      this.#cache.chains.set(chain, found);
    }
    for (const [name] of found.sets) this.sets.add(name);
    return found;
  }

  /** The rules of a chain; also adds the chains that they lead to. */
  #rules(
    list: readonly TranslatedRule[],
    source: RuleSource | null,
    traffic: TranslatedTraffic,
  ): IptablesRule[] {
    return list.flatMap((one) => (this.#isTaken(one, source, traffic) ? one.rules : one.otherwise()));
  }

  #isTaken({ to }: TranslatedRule, source: RuleSource | null, traffic: TranslatedTraffic): boolean {
    return to === null || this.#resolve(to, source, traffic) !== null;
  }

  #resolve(name: string, leading: RuleSource | null, traffic: TranslatedTraffic): IptablesChain | null {
    const known = this.#resolved.get(name);
    if (known !== undefined) return known;
    const chain = this.#chain(name);
    const source = chain.source ?? (chain.ruleId === null ? null : leading);
    const own = this.#context.chainName(name);
    const isInline = traffic === 'nodeport' && this.#isList(chain);
    const found = isInline
      ? this.#root(own, () => this.#inline(chain))
      : this.#placed(own, () => this.#linked(own, this.#translated(chain, source, traffic), source, traffic));
    this.#resolved.set(name, found);
    return found;
  }

  /**
   * Reuses the previous chain if it was made from the same rules and the same of them lead to
   * chains with rules.
   */
  #linked(
    name: string,
    from: TranslatedChain,
    source: RuleSource | null,
    traffic: TranslatedTraffic,
  ): IptablesChain | null {
    const isTaken = from.rules.map((one) => this.#isTaken(one, source, traffic));
    if (from.linked?.isTaken.every((was, i) => was === isTaken[i])) return from.linked.chain;
    const rules = from.rules.flatMap((one, i) => (isTaken[i] ? one.rules : one.otherwise()));
    const chain = this.#same(name, withoutLastReturns(rules));
    from.linked = { isTaken, chain };
    return chain;
  }

  #isList({ rules }: Chain): boolean {
    return rules.every(
      ({ statement }) => statement.kind === 'jump' && this.#chain(statement.chain).source !== null,
    );
  }
}

function setsOf({ matches }: NftRule): string[] {
  return matches.flatMap((match) => matchedSet(match) ?? []);
}

function isSameRule(a: IptablesRule, b: IptablesRule | undefined): boolean {
  return (
    a === b ||
    (a.text === b?.text &&
      a.source === b.source &&
      a.counts?.ruleId === b.counts?.ruleId &&
      a.counts?.kind === b.counts?.kind)
  );
}
