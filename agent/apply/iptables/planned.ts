import { type RestoreOperation, toRestoreText } from 'ipset-ts';
import { FAMILIES, type Family } from '../../../lib/net/address.ts';
import type { DataplaneChange } from '../dataplane.ts';
import type { IptablesState } from './compare.ts';
import type { RuleChange } from './rule-change.ts';
import { parseSaved, type SavedTables } from './saved.ts';
import { type SetChange, TEMPORARY_PREFIX } from './set-change.ts';

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
