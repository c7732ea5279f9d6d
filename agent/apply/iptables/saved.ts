import { FAMILIES, type Family } from '../../../lib/net/address.ts';
import { shortHash } from '../../../lib/sharing/hash.ts';
import { memo } from '../../../lib/sharing/memo.ts';
import type { ChainOwner, CountedTable, Owners } from '../../record/accounting.ts';
import {
  type BuiltinChain,
  CHAIN_PREFIX,
  type CountPurpose,
  type IptablesChain,
  type IptablesRuleset,
  type IptablesTable,
  type IptablesTableName,
} from '../../render/iptables/tables.ts';

/** In the order in which they are written. */
export const TABLES = ['filter', 'nat'] as const satisfies readonly IptablesTableName[];

/**
 * The part of iptables-save's output that concerns our chains, for the tables that we use. Rules of
 * third parties are read only if they lead to chains of ours.
 */
export type SavedTables = Readonly<Record<IptablesTableName, SavedTable>>;

export interface SavedTable {
  /** Our chains, by name. */
  readonly chains: ReadonlyMap<string, readonly SavedRule[]>;
  /** In the order of the chains that contain them. */
  readonly leads: readonly Lead[];
}

export interface SavedRule {
  /** In the form of IptablesRule.text. */
  readonly text: string;
  /** Exact up to 2 ** 53. */
  readonly packets: number;
  readonly bytes: number;
}

/** A rule in a chain that isn't ours and that leads to a chain of ours. */
export interface Lead {
  readonly from: string;
  /** Built-in chains are the kernel's; all others belong to third parties. */
  readonly isBuiltin: boolean;
  readonly to: string;
  readonly text: string;
  /** Whether it is the first rule of its chain. */
  readonly isFirst: boolean;
}

/** The names of the sets in rules of ours. */
export function setsNamed(saved: SavedTables): ReadonlySet<string> {
  const texts = Object.values(saved).flatMap(({ chains }) => [...chains.values()].flat());
  return new Set(
    texts.flatMap(({ text }) => [...text.matchAll(/ --match-set (\S+)/g)].map(([, name = '']) => name)),
  );
}

/** Parses the output of iptables-save. Counters are 0 if they were not requested. */
export function parseSaved(text: string): SavedTables {
  const tables = { filter: newTable(), nat: newTable() };
  let table: OpenTable | null = null;
  // The chain of the line before, to detect the first rule of a chain.
  let last = '';
  for (const line of text.split('\n')) {
    switch (line[0]) {
      case '*': {
        const name = line.slice(1);
        table = name === 'filter' || name === 'nat' ? tables[name] : null;
        last = '';
        break;
      }
      case ':':
        if (table !== null) declare(table, line);
        break;
      case '[':
      case '-': {
        const rule = table === null ? null : RULE.exec(line);
        if (table === null || rule === null) break;
        const [, packets = '0', bytes = '0', chain = '', rest = ''] = rule;
        addRule(table, chain, { text: rest, packets: Number(packets), bytes: Number(bytes) }, chain !== last);
        last = chain;
      }
    }
  }
  return tables;
}

/** A rule without matches and target has nothing after the name of its chain. */
const RULE = /^(?:\[(\d+):(\d+)\] )?-A (\S+)(?: (.*))?$/;
/** Quoted texts are removed first: comments and log prefixes may contain anything. */
const TARGET = new RegExp(` -[jg] (${CHAIN_PREFIX}\\S*)`);
const QUOTED = /"(?:[^"\\]|\\.)*"/g;

interface OpenTable extends SavedTable {
  readonly chains: Map<string, SavedRule[]>;
  readonly leads: Lead[];
  readonly builtins: Set<string>;
}

function newTable(): OpenTable {
  return { chains: new Map(), leads: [], builtins: new Set() };
}

/** `:NAME POLICY [packets:bytes]`; chains that are not built in have `-` as policy. */
function declare(table: OpenTable, line: string): void {
  const [name = '', policy] = line.slice(1).split(' ');
  if (name.startsWith(CHAIN_PREFIX)) table.chains.set(name, []);
  else if (policy !== '-') table.builtins.add(name);
}

function addRule(table: OpenTable, from: string, rule: SavedRule, isFirst: boolean): void {
  const own = table.chains.get(from);
  if (own !== undefined) {
    own.push(rule);
    return;
  }
  // A quick test: third parties may have thousands of rules, and few name anything of ours.
  if (!rule.text.includes(CHAIN_PREFIX)) return;
  const to = TARGET.exec(` ${rule.text.replaceAll(QUOTED, '""')}`)?.[1];
  if (to === undefined) return;
  table.leads.push({ from, isBuiltin: table.builtins.has(from), to, text: rule.text, isFirst });
}

/**
 * Converts the saved state of a family to desired tables: our chains as iptables-save printed them,
 * and the jumps to them.
 */
export function asTables(saved: SavedTables): IptablesTable[] {
  return TABLES.map((name) => asTable(name, saved[name]));
}

function asTable(name: IptablesTableName, { chains, leads }: SavedTable): IptablesTable {
  // A third party's rule that leads to a chain of ours is not one of our jumps: it is removed for
  // good, as always.
  const jumps = leads.filter(({ isBuiltin, to, text }) => isBuiltin && text === `-j ${to}`);
  return {
    name,
    jumps: jumps.map(({ from, to }) => ({ from: from as BuiltinChain, to })),
    chains: new Map(
      [...chains].map(([chain, rules]) => [
        chain,
        { name: chain, rules: rules.map(({ text }) => ({ text, counts: null, source: null })) },
      ]),
    ),
  };
}

/**
 * The counters of iptables in the form that accounting reads: one "chain" for each rule of ours,
 * for whatever purpose. Accounting recognizes by name those that it has seen before.
 * @param saved the output of iptables-save and ip6tables-save
 * @returns null if nothing of ours exists
 */
export function countedRules(saved: Readonly<Record<Family, string>>): CountedTable | null {
  const isThere = FAMILIES.some((family) => saved[family].includes(`:${CHAIN_PREFIX}`));
  return isThere ? { chains: FAMILIES.flatMap((family) => countedSaved(family, saved[family])) } : null;
}

function countedSaved(family: Family, saved: string): Chains {
  return Object.entries(parseSaved(saved)).flatMap(([table, { chains }]) =>
    [...chains].flatMap(([chain, rules]) => {
      const names = ruleNames(chain, rules);
      return rules.map((rule, i) => counted(`${family} ${table} ${names[i]}`, rule));
    }),
  );
}

/**
 * Reads the counters of successive rulesets: one "chain" for each rule that counts for a policy
 * rule. Each is named for the rule's text, so that the count of an unchanged rule continues, also
 * across restarts, and that of a changed rule begins again at 0.
 */
export class IptablesCounters {
  readonly #counting = memo(countingRules);

  /** The counters of one family; without a ruleset, those of each rule of ours. */
  read(family: Family, saved: string, ruleset: IptablesRuleset | null): Chains {
    if (ruleset === null) return countedSaved(family, saved);
    const tables = parseSaved(saved);
    return ruleset.families[family].flatMap((table) =>
      [...table.chains.values()].flatMap((chain) => {
        const there = tables[table.name].chains.get(chain.name) ?? [];
        return this.#counting(chain).flatMap(({ index, name }) => {
          const found = heldRule(there, chain, index);
          return found === undefined ? [] : [counted(`${family} ${table.name} ${name}`, found)];
        });
      }),
    );
  }

  /** The policy rules that those "chains" count for. */
  owners({ families }: IptablesRuleset): Owners {
    const found = FAMILIES.flatMap((family) =>
      families[family].flatMap((table) =>
        [...table.chains.values()].flatMap((chain) =>
          this.#counting(chain).map((one) => ({ ...one, name: `${family} ${table.name} ${one.name}` })),
        ),
      ),
    );
    const logged = new Set(
      found.flatMap(({ counts: { kind, ruleId } }) => (kind === 'record' ? ruleId : [])),
    );
    const owner = ({ ruleId, kind }: CountPurpose): ChainOwner => ({
      rule: ruleId,
      kind: kind === 'matched' && logged.has(ruleId) ? 'logged' : kind,
    });
    return new Map(found.map(({ name, counts }) => [name, owner(counts)]));
  }
}

type Chains = CountedTable['chains'];

function counted(name: string, { packets, bytes }: SavedRule): Chains[number] {
  const handle = handleOf(name);
  return { name, handle, rules: [{ packets: BigInt(packets), bytes: BigInt(bytes) }] };
}

/** Names for all rules of a chain. Two rules with the same text get different names. */
function ruleNames(chain: string, rules: readonly { readonly text: string }[]): string[] {
  const times = new Map<string, number>();
  return rules.map(({ text }) => {
    const time = times.get(text) ?? 0;
    times.set(text, time + 1);
    return `${chain} ${shortHash(12, text, time)}`;
  });
}

interface Counting {
  readonly index: number;
  /** The rule's own, without its family and table. */
  readonly name: string;
  readonly counts: CountPurpose;
}

/** The rules of a chain that count. */
function countingRules(chain: IptablesChain): Counting[] {
  const names = ruleNames(chain.name, chain.rules);
  return chain.rules.flatMap(({ counts }, index) =>
    counts === null ? [] : [{ index, name: names[index] ?? '', counts }],
  );
}

/**
 * Finds a rule by its index, because another version of iptables may print its text differently. If
 * a third party changed the chain, finds it by its text; the chain is repaired soon.
 */
function heldRule(
  there: readonly SavedRule[],
  { rules }: IptablesChain,
  index: number,
): SavedRule | undefined {
  if (there.length === rules.length) return there[index];
  return there.find(({ text }) => text === rules[index]?.text);
}

/** iptables has no handles: uses 48 bits of a hash, which a number represents exactly. */
function handleOf(name: string): number {
  return Number.parseInt(shortHash(12, name), 16);
}
