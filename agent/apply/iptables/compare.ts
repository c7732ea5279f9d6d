import { FAMILIES, type Family } from '../../../lib/net/address.ts';
import { sameMembers } from '../../../lib/net/member-set.ts';
import type { IpSet, IptablesRuleset, IptablesTable } from '../../render/iptables/tables.ts';
import { holdable, type KernelSet } from './kernel-set.ts';
import { holdsSavedChain, isJump, stuckChains, tableOf, type Written } from './rule-change.ts';
import { type SavedTable, type SavedTables, TABLES } from './saved.ts';
import { commandOf } from './tools.ts';

/** The current state of our chains and sets in the kernel. */
export interface IptablesState {
  readonly families: Readonly<Record<Family, SavedTables>>;
  readonly sets: ReadonlyMap<string, KernelSet>;
}

export interface Expected {
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
