import {
  type BuiltinChain,
  CHAIN_PREFIX,
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
