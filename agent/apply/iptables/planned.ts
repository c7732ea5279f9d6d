import { type RestoreOperation, toRestoreText } from 'ipset-ts';
import { FAMILIES, type Family } from '../../../lib/net/address.ts';
import { sameMembers } from '../../../lib/net/member-set.ts';
import {
  CHAIN_PREFIX,
  type IpSet,
  type IptablesRuleset,
  type IptablesTable,
} from '../../render/iptables/tables.ts';
import { type DataplaneChange, RefusedError } from '../reconciler-interface.ts';
import { holdable, type KernelSet } from './kernel-set.ts';
import {
  holdsSavedChain,
  isJump,
  type RestoredRule,
  type RuleChange,
  stuckChains,
  tableOf,
  type Written,
} from './rule-change.ts';
import { parseSaved, type SavedTable, type SavedTables, TABLES } from './saved.ts';
import { type SetChange, TEMPORARY_PREFIX } from './set-change.ts';
import { commandOf, IptablesError, type IptablesTools } from './tools.ts';

/** A change that is yet to be made. */
export interface Planned {
  readonly sets: SetChange;
  /** The sets before the change. */
  readonly before: IptablesState['sets'];
  readonly rules: Readonly<Record<Family, PlannedRules>>;
}

export interface PlannedRules extends RuleChange {
  /** The rules before the change. */
  readonly saved: SavedTables;
}

/** The plan of a family that is left alone. */
export const NO_CHANGE: PlannedRules = {
  text: '',
  rules: new Map(),
  commits: new Map(),
  rewritten: [],
  left: [],
  // The family was not read and stays as it is.
  saved: parseSaved(''),
};

/** The change as text, and whether it changes more than members. */
export function toChange({ sets, rules }: Planned): DataplaneChange {
  const texts = FAMILIES.map((family) => rules[family].text);
  const operations = [...sets.first, ...sets.less, ...sets.last];
  const changesStructure = texts.some((text) => text !== '') || operations.some(isStructural);
  return {
    isEmpty: operations.length === 0 && !changesStructure,
    changesStructure,
    text: () => changeText(sets, rules),
  };
}

/** A set that is filled under another name and swapped changes only its members. */
function isStructural(operation: RestoreOperation): boolean {
  if (operation.op === 'create') return !operation.set.name.startsWith(TEMPORARY_PREFIX);
  return operation.op === 'destroy' && !operation.name.startsWith(TEMPORARY_PREFIX);
}

function changeText(sets: SetChange, rules: Planned['rules']): string {
  const parts = [
    ['ipset restore', toRestoreText(sets.first)],
    ['iptables-restore --noflush', rules[4].text],
    ['ip6tables-restore --noflush', rules[6].text],
    ['ipset restore', toRestoreText([...sets.less, ...sets.last])],
    ['not held', sets.lacking.map((line) => `${line}\n`).join('')],
  ] as const;
  return parts.flatMap(([title, text]) => (text === '' ? [] : [`# ${title}\n${text}`])).join('');
}

/** The current state of our chains and sets in the kernel. */
export interface IptablesState {
  readonly families: Readonly<Record<Family, SavedTables>>;
  readonly sets: ReadonlyMap<string, KernelSet>;
}

interface Expected {
  readonly shown: Readonly<Record<Family, Written['shown']>>;
  /** Unused sets that could not be destroyed, because rules of third parties name them. */
  readonly stuck: IptablesState['sets'];
}

/**
 * The differences of the current state from the desired one, as human-readable lines; empty if
 * there are none.
 */
export function iptablesDifferences(
  wanted: IptablesRuleset,
  now: IptablesState,
  { shown, stuck }: Expected,
): string[] {
  const differences: string[] = [];
  for (const family of FAMILIES) {
    for (const name of TABLES) {
      const table = tableOf(wanted.families[family], name);
      const found = compareTable(table, now.families[family][name], shown[family]);
      differences.push(...found.map((difference) => `${commandOf(family)} ${name}: ${difference}`));
    }
  }
  return [...differences, ...compareSets(wanted.sets, now.sets, stuck)];
}

function compareTable(wanted: IptablesTable, now: SavedTable, shown: Written['shown']): string[] {
  const differences: string[] = [];
  for (const { from, to } of wanted.jumps) {
    const jumps = now.leads.filter((lead) => lead.from === from);
    if (!jumps.some((lead) => lead.text === `-j ${to}`))
      differences.push(`the jump from ${from} to ${to} is missing`);
    else if (jumps.length > 1)
      differences.push(`${jumps.length} rules of ${from} jump to chains of nodewall`);
    else if (!isJump(jumps[0], to)) differences.push(`the jump from ${from} to ${to} is not the first rule`);
  }
  for (const { from, to, isBuiltin } of now.leads) {
    if (isBuiltin && !wanted.jumps.some((jump) => jump.from === from)) {
      differences.push(`a rule of ${from} jumps to ${to}`);
    }
  }
  for (const [name, chain] of wanted.chains) {
    const there = now.chains.get(name);
    if (there === undefined) differences.push(`chain ${name} is missing`);
    else if (!holdsSavedChain(there, chain, shown)) differences.push(`chain ${name} was changed`);
  }
  const kept = stuckChains(now);
  for (const [name, rules] of now.chains) {
    if (wanted.chains.has(name) || (kept.has(name) && rules.length === 0)) continue;
    differences.push(`chain ${name} is foreign`);
  }
  return differences;
}

function compareSets(
  wanted: IptablesRuleset['sets'],
  now: IptablesState['sets'],
  stuck: IptablesState['sets'],
): string[] {
  const differences: string[] = [];
  for (const [name, set] of wanted) {
    const there = now.get(name);
    if (there === undefined) differences.push(`set ${name} is missing`);
    else if (!holdsSet(there, set)) differences.push(`set ${name} has different members`);
  }
  for (const name of now.keys()) {
    if (!wanted.has(name) && !stuck.has(name)) differences.push(`set ${name} is foreign`);
  }
  return differences;
}

function holdsSet({ type, family, members, timed }: KernelSet, set: IpSet): boolean {
  if (type !== set.type || family !== set.family || (timed ?? false) !== (set.timeout !== undefined))
    return false;
  return timed === true || (members !== null && sameMembers(members, holdable(set).members));
}

/**
 * Nothing leads to this chain. If a crash leaves it behind, it is garbage-collected like any unused
 * chain of ours.
 */
const PROBE = `${CHAIN_PREFIX}PROBE`;

/** Converts the refusal of a restore to the refusal of the rule that caused it. */
export async function blame(
  tools: IptablesTools,
  family: Family,
  change: RuleChange,
  error: IptablesError,
): Promise<RefusedError> {
  const { line } = error;
  const rule =
    line === null ? undefined : (change.rules.get(line) ?? (await findRule(tools, family, change, line)));
  if (rule === undefined) return new RefusedError(error.message, { source: null, cause: error });
  const { table, chain, rule: refused } = rule;
  return new RefusedError(`table ${table}, chain ${chain.name}, rule '${refused.text}': ${error.message}`, {
    source: refused.source,
    // NFLOG is missing either in iptables, whose message names the extension, or in the kernel,
    // whose message is "No such file".
    lacksLog: /-j NFLOG\b/.test(refused.text) && /NFLOG|No such file/.test(error.stderr),
    cause: error,
  });
}

/**
 * For a legacy table the kernel refuses the commit, not a rule. The rule is found by bisection, in
 * a chain that nothing leads to. A rule that is refused only because of the chains that lead to it
 * is not found.
 */
async function findRule(
  tools: IptablesTools,
  family: Family,
  { rules, commits }: RuleChange,
  line: number,
): Promise<RestoredRule | undefined> {
  const table = commits.get(line);
  let suspects = [...rules.values()].filter((rule) => rule.table === table);
  if (table === undefined || !(await isRefused(tools, family, suspects))) return undefined;
  while (suspects.length > 1) {
    const half = suspects.slice(0, suspects.length / 2);
    suspects = (await isRefused(tools, family, half)) ? half : suspects.slice(half.length);
  }
  return suspects[0];
}

async function isRefused(
  tools: IptablesTools,
  family: Family,
  suspects: readonly RestoredRule[],
): Promise<boolean> {
  const [first] = suspects;
  if (first === undefined) return false;
  // Without their targets: the chains they lead to may not exist.
  const texts = suspects.map(({ rule }) => rule.text.replace(new RegExp(` ?-[jg] ${CHAIN_PREFIX}\\S*$`), ''));
  const restore = (lines: readonly string[]) =>
    tools.restore(
      family,
      `*${first.table}\n:${PROBE} - [0:0]\n${lines.map((one) => `${one}\n`).join('')}COMMIT\n`,
    );
  try {
    await restore(texts.map((text) => `-A ${PROBE} ${text}`.trimEnd()));
    await restore([`-X ${PROBE}`]);
    return false;
  } catch (error) {
    if (error instanceof IptablesError && error.code === 'REFUSED') return true;
    throw error;
  }
}
