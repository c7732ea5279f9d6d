import type {
  IptablesChain,
  IptablesRule,
  IptablesTable,
  IptablesTableName,
} from '../../render/iptables/tables.ts';
import { type Lead, type SavedRule, type SavedTable, type SavedTables, TABLES } from './saved.ts';

/**
 * The text of one restore that gives one family its desired tables. Each table changes atomically
 * for every packet, filter before nat.
 */
export interface RuleChange {
  /** Empty if nothing changes. */
  readonly text: string;
  /** The rules by line of the text, from 1. */
  readonly rules: ReadonlyMap<number, RestoredRule>;
  /** By line of the text: the tables whose COMMIT is on that line. */
  readonly commits: ReadonlyMap<number, IptablesTableName>;
  /** Chains that differ from the desired ones although the same text was written before. */
  readonly rewritten: readonly RewrittenChain[];
  /** Why unused chains stay, as human-readable lines. */
  readonly left: readonly string[];
}

interface ChainRef {
  readonly table: IptablesTableName;
  readonly chain: IptablesChain;
}

interface RewrittenChain extends ChainRef {
  /** The rules that the chain had. */
  readonly was: readonly SavedRule[];
}

export interface RestoredRule extends ChainRef {
  readonly rule: IptablesRule;
}

/** The tables written before, for recognizing them. */
export interface Written {
  /** Null: nothing was written yet. */
  readonly tables: readonly IptablesTable[] | null;
  /**
   * The form of rules that iptables-save prints differently from how they were written, by
   * shownKey.
   */
  readonly shown: ReadonlyMap<string, string>;
}

export function ruleChange(
  saved: SavedTables,
  desired: readonly IptablesTable[],
  written: Written,
): RuleChange {
  const input: RestoreInput = {
    lines: [],
    rules: new Map(),
    commits: new Map(),
    rewritten: [],
    left: [],
  };
  for (const name of TABLES) {
    const table = tableOf(desired, name);
    const before = written.tables?.find((one) => one.name === name) ?? null;
    writeTable(input, saved[name], table, { before, shown: written.shown });
  }
  return { ...input, text: input.lines.map((line) => `${line}\n`).join('') };
}

/** The table of this name; an empty one if it isn't desired. */
export function tableOf(tables: readonly IptablesTable[], name: IptablesTableName): IptablesTable {
  return tables.find((one) => one.name === name) ?? { name, jumps: [], chains: new Map() };
}

interface RestoreInput {
  readonly lines: string[];
  readonly rules: Map<number, RestoredRule>;
  readonly commits: Map<number, IptablesTableName>;
  readonly rewritten: RewrittenChain[];
  readonly left: string[];
}

interface WrittenTable {
  readonly before: IptablesTable | null;
  readonly shown: Written['shown'];
}

function writeTable(
  input: RestoreInput,
  saved: SavedTable,
  table: IptablesTable,
  written: WrittenTable,
): void {
  const changed = [...table.chains.values()].filter(
    (chain) => !holdsSavedChain(saved.chains.get(chain.name), chain, written.shown),
  );
  const gone = [...saved.chains.keys()].filter((name) => !table.chains.has(name));
  const stuck = stuckChains(saved);
  const jumps = jumpLines(saved.leads, table);
  const flushed = gone.filter((name) => !stuck.has(name) || saved.chains.get(name)?.length !== 0);
  for (const name of gone) {
    const from = stuck.get(name);
    if (from !== undefined)
      input.left.push(`chain ${name} of table ${table.name}: a rule of chain ${from} jumps to it`);
  }
  if (changed.length + flushed.length + jumps.length === 0) return;
  const { lines } = input;
  lines.push(`*${table.name}`);
  // Creates a chain, or flushes an existing one, so that no rule leads to a chain to be deleted.
  for (const name of [...changed.map((chain) => chain.name), ...flushed]) lines.push(`:${name} - [0:0]`);
  const counts = carriedCounts(saved, [...changed.map(({ name }) => name), ...flushed], changed, written);
  for (const chain of changed) {
    const was = saved.chains.get(chain.name);
    if (was !== undefined && sameText(written.before?.chains.get(chain.name), chain)) {
      input.rewritten.push({ table: table.name, chain, was });
    }
    for (const rule of chain.rules) {
      const { packets, bytes } = counts.get(rule) ?? NO_COUNT;
      const count = packets + bytes === 0 ? '' : `[${packets}:${bytes}] `;
      lines.push(`${count}-A ${chain.name}${rule.text === '' ? '' : ' '}${rule.text}`);
      input.rules.set(lines.length, { table: table.name, chain, rule });
    }
  }
  lines.push(...jumps, ...flushed.filter((name) => !stuck.has(name)).map((name) => `-X ${name}`), 'COMMIT');
  input.commits.set(lines.length, table.name);
}

/**
 * Chains that a rule in a third party's chain leads to, with the name of that chain. That rule is
 * not ours to delete, and the kernel keeps the chains it leads to.
 */
export function stuckChains({ leads }: SavedTable): Map<string, string> {
  return new Map(leads.flatMap(({ isBuiltin, from, to }) => (isBuiltin ? [] : [[to, from]])));
}

/**
 * Whether the chain holds the desired rules, as written or in the form in which iptables-save
 * prints them.
 */
export function holdsSavedChain(
  saved: readonly SavedRule[] | undefined,
  chain: IptablesChain,
  shown: Written['shown'],
): boolean {
  const { rules } = chain;
  if (saved?.length !== rules.length) return false;
  return saved.every(({ text }, i) => {
    const wanted = rules[i]?.text ?? '';
    return text === wanted || text === shown.get(shownKey(chain, wanted));
  });
}

/** The key of Written.shown. It is unique because names of chains have no spaces. */
function shownKey({ name }: IptablesChain, text: string): string {
  return `${name} ${text}`;
}

function sameText(a: IptablesChain | undefined, b: IptablesChain): boolean {
  if (a === b) return true;
  return a?.rules.length === b.rules.length && a.rules.every(({ text }, i) => text === b.rules[i]?.text);
}

export function sameTables(a: readonly IptablesTable[], b: readonly IptablesTable[]): boolean {
  return a === b || (a.length === b.length && a.every((table, i) => sameTable(table, b[i])));
}

function sameTable(a: IptablesTable, b: IptablesTable | undefined): boolean {
  if (a === b) return true;
  if (b === undefined || a.name !== b.name || a.chains.size !== b.chains.size) return false;
  const hasJumps =
    a.jumps.length === b.jumps.length &&
    a.jumps.every(({ from, to }, i) => from === b.jumps[i]?.from && to === b.jumps[i]?.to);
  return hasJumps && [...b.chains.values()].every((chain) => sameText(a.chains.get(chain.name), chain));
}

/**
 * Empty if each jump is there once and first. All lines take effect at the COMMIT: no packet misses
 * the jump.
 */
function jumpLines(leads: readonly Lead[], { jumps }: IptablesTable): string[] {
  const wanted = new Map(jumps.map((jump) => [jump.from as string, jump]));
  const found = Map.groupBy(
    leads.filter(({ isBuiltin }) => isBuiltin),
    ({ from }) => from,
  );
  return [...new Set([...found.keys(), ...wanted.keys()])].flatMap((from) => {
    const jump = wanted.get(from);
    const there = found.get(from) ?? [];
    if (there.length === 1 && jump !== undefined && isJump(there[0], jump.to)) return [];
    // By its text: its number may belong to another rule by now.
    const deleted = there.map(({ text }) => `-D ${from} ${text}`);
    return jump === undefined ? deleted : [...deleted, `-I ${from} 1 -j ${jump.to}`];
  });
}

export function isJump(lead: Lead | undefined, to: string): boolean {
  return lead?.isFirst === true && lead.text === `-j ${to}`;
}

interface Count {
  readonly packets: number;
  readonly bytes: number;
}

const NO_COUNT: Count = { packets: 0, bytes: 0 };

/**
 * The counters that each written rule starts with: those of the rule with the same text in the same
 * chain. To accounting (saved.ts) they are the same "chain".
 */
function carriedCounts(
  saved: SavedTable,
  emptied: readonly string[],
  changed: readonly IptablesChain[],
  { before }: WrittenTable,
): ReadonlyMap<IptablesRule, Count> {
  const given = new Map<IptablesRule, Count>();
  const rulesOf = new Map(changed.map(({ name, rules }) => [name, rules]));
  for (const name of emptied) {
    const old = before?.chains.get(name)?.rules;
    const isAligned = old?.length === saved.chains.get(name)?.length;
    const open = Map.groupBy(rulesOf.get(name) ?? [], ({ text }) => text);
    for (const [i, { text, packets, bytes }] of (saved.chains.get(name) ?? []).entries()) {
      // Another version of iptables may print the rule differently from how it was written.
      const heir = open.get(isAligned ? (old?.[i]?.text ?? text) : text)?.shift();
      if (heir !== undefined && packets + bytes > 0) given.set(heir, { packets, bytes });
    }
  }
  return given;
}

/**
 * Finds rules that another version of iptables prints differently from how they were written. If a
 * rule is printed in the same way before and after a repair, that is its form from now on;
 * otherwise it would be repaired forever. A rule that a third party keeps changing has no such
 * form, at least if the change alters its effect.
 * @returns the forms by shownKey
 */
export function shownForms(rewritten: readonly RewrittenChain[], now: SavedTables): Map<string, string> {
  const forms = new Map<string, string>();
  for (const { table, chain, was } of rewritten) {
    const rules = now[table].chains.get(chain.name);
    if (rules?.length !== chain.rules.length || rules.length !== was.length) continue;
    for (const [i, { text }] of chain.rules.entries()) {
      const form = rules[i]?.text ?? text;
      const isForm = form !== text && form === was[i]?.text && effectOf(form) === effectOf(text);
      if (isForm) forms.set(shownKey(chain, text), form);
    }
  }
  return forms;
}

/** The rule's target and the sets it names: every version prints these in the same way. */
function effectOf(text: string): string {
  const bare = ` ${text.replaceAll(/"(?:[^"\\]|\\.)*"/g, '""')}`;
  return (bare.match(/ (?:! )?(?:-[jg]|--match-set) \S+/g) ?? []).join('');
}

/** Deletes the forms of rules that are no longer desired. */
export function forgetForms(forms: Map<string, string>, wanted: readonly IptablesTable[]): void {
  if (forms.size === 0) return;
  const chains = wanted.flatMap((table) => [...table.chains.values()]);
  const keys = new Set(chains.flatMap((chain) => chain.rules.map(({ text }) => shownKey(chain, text))));
  for (const key of forms.keys()) if (!keys.has(key)) forms.delete(key);
}
