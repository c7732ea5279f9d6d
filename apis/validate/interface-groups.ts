import { DEFAULT_CONFIG } from '../config.ts';
import { asFields, type FieldMap } from '../schema/json-schema.ts';
import { suggestion } from './nearest.ts';
import { type FieldPath, type Findings, show } from './problem.ts';

/** A value of `interfaceGroups` as written in the configuration. */
export type RawInterfaceGroup = number | { readonly group: number; readonly match?: readonly string[] };

/** Checks of `interfaceGroups` that the schema cannot express. */
export function checkInterfaceGroups(raw: FieldMap, found: Findings): void {
  for (const [name, value] of Object.entries(raw)) checkInterfaceGroup(name, value, found);
  checkUnique(raw, found);
}

function checkInterfaceGroup(name: string, value: unknown, found: Findings): void {
  const path = ['interfaceGroups', name];
  if (!/^[A-Za-z][\w.-]{0,62}$/.test(name)) {
    found.error(
      path,
      `${show(name)} is not a valid name: a letter, then letters, digits, "-", "_" and ".", at most 63`,
    );
  }
  const fields = asFields(value);
  if (fields === null) {
    checkGroupNumber(value, path, found);
    checkNotZero(name, value, path, found);
    return;
  }
  if (!('group' in fields))
    found.error([...path, 'group'], 'is missing; it must be the number of the link group');
  else checkGroupNumber(fields.group, [...path, 'group'], found);
  checkNotZero(name, fields.group, [...path, 'group'], found);
  if ('match' in fields) checkMatches(fields.match, [...path, 'match'], found);
  for (const field of Object.keys(fields)) {
    if (field !== 'group' && field !== 'match')
      found.error([...path, field], `unknown field${suggestion(field, ['group', 'match'])}`);
  }
}

function checkGroupNumber(value: unknown, path: FieldPath, found: Findings): void {
  if (isGroupNumber(value)) return;
  found.error(path, `must be the number of a link group, 0 to 4294967295, not ${show(value)}`);
}

/**
 * 0 is the group of every interface that was put into none: as the group `pods` it would exempt all
 * that the node sends.
 */
function checkNotZero(name: string, value: unknown, path: FieldPath, found: Findings): void {
  const usual = Object.entries(DEFAULT_CONFIG.interfaceGroups).find(([known]) => known === name)?.[1];
  if (value !== 0 || usual === undefined) return;
  found.error(path, `must not be 0, the number of every interface that is in no group; for example ${usual}`);
}

function isGroupNumber(value: unknown): value is number {
  return typeof value === 'number' && Number.isInteger(value) && value >= 0 && value <= 0xffff_ffff;
}

function checkMatches(raw: unknown, path: FieldPath, found: Findings): void {
  if (!Array.isArray(raw)) {
    found.error(path, `must be a list of ${MATCH_FORM}, not ${show(raw)}`);
    return;
  }
  for (const [index, item] of raw.entries()) {
    if (typeof item !== 'string' || !isMatch(item)) {
      found.error([...path, index], `must be ${MATCH_FORM}, not ${show(item)}`);
    }
  }
}

const MATCH_FORM =
  'an interface name of 1 to 15 characters (letters, digits, ".", "_", "@", "+" and "-") with the wildcards "*" and "?", ' +
  'kind:veth, kind:bridge, or cni:NAME';

function isMatch(text: string): boolean {
  if (text.includes(':')) return /^(kind:(veth|bridge)|cni:([a-z0-9-]+|\*))$/.test(text);
  // An interface name has at most 15 characters; "*" may match none of them.
  return /^[\w.@+*?-]{1,31}$/.test(text) && text.replaceAll('*', '').length <= 15;
}

/**
 * Rejects two names with the same number: an interface has one group, and which of the names it
 * gets would be arbitrary.
 */
function checkUnique(raw: FieldMap, found: Findings): void {
  const numbers = new Map<number, string>();
  const given = Object.entries(raw).map(([name, value]) => [name, asFields(value)?.group ?? value] as const);
  const names = new Set(given.map(([name]) => name));
  for (const [name, number] of Object.entries(DEFAULT_CONFIG.interfaceGroups)) {
    if (!names.has(name)) numbers.set(number, name);
  }
  for (const [name, number] of given) {
    if (!isGroupNumber(number)) continue;
    const first = numbers.get(number);
    if (first === undefined) numbers.set(number, name);
    else {
      const path = ['interfaceGroups', name];
      found.error(path, `${number} is already the number of ${first}; each name needs its own`);
    }
  }
}

type InterfaceGroups = typeof DEFAULT_CONFIG.interfaceGroups;

/**
 * Numbers and match patterns of the configured groups, which passed the checks, and of those that
 * always exist.
 */
export function toInterfaceGroups(raw: Readonly<Record<string, RawInterfaceGroup>>): {
  readonly interfaceGroups: InterfaceGroups;
  readonly interfaceMatches: Readonly<Record<string, readonly string[]>>;
} {
  const groups = new Map(Object.entries<number>(DEFAULT_CONFIG.interfaceGroups));
  const matches = new Map(Object.entries(DEFAULT_CONFIG.interfaceMatches));
  for (const [name, value] of Object.entries(raw)) {
    const { group, match = undefined } = typeof value === 'number' ? { group: value } : value;
    groups.set(name, group);
    matches.set(name, match ?? matches.get(name) ?? []);
  }
  return {
    interfaceGroups: Object.fromEntries(groups) as InterfaceGroups,
    interfaceMatches: Object.fromEntries(matches),
  };
}
