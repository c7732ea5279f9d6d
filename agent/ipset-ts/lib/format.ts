import {
  ENTRY_OPTIONS,
  type EntryOption,
  FIELDS,
  type Field,
  type Key,
  type RestoreOperation,
  type SavedSet,
  toOperations,
} from './entry.ts';
import { IpsetError } from './errors.ts';
import { CREATE_OPTIONS, type CreateOption, SET_TYPES, type SetDefinition, type SetRef } from './set.ts';
import * as value from './value.ts';

/** A word of a command. A comment is quoted in a restore, and unquoted among arguments. */
type Word = string | { readonly quoted: string };
/** Fields of any type of set; SetDefinition and SetEntry define which a type has. */
type Values<K extends string> = { readonly [P in K]?: unknown };

/**
 * ipset's arguments for one operation. Throws an IpsetError for values that ipset would misread.
 */
export function toArguments(operation: RestoreOperation): string[] {
  return wordsOf(operation).map((word) => (typeof word === 'string' ? word : word.quoted));
}

/** The arguments of `ipset test`. */
export function toTestArguments(set: SetRef, key: Key): string[] {
  const { nomatch } = key as { nomatch?: boolean };
  return [
    'test',
    value.nameText(set.name),
    elementText(set, key),
    ...listPosition(key),
    ...(nomatch ? ['nomatch'] : []),
  ];
}

/**
 * The operations as text for `ipset restore`, one line each. Throws an IpsetError as toArguments
 * does, with `operation` and `line`.
 */
export function toRestoreText(operations: readonly RestoreOperation[]): string {
  return [...restoreParts(operations)].join('');
}

/** Lines per part: some tens of kilobytes, about the capacity of a pipe. */
const PART_LINES = 1000;

/** Like toRestoreText, in parts that are made on demand. */
export function* restoreParts(operations: readonly RestoreOperation[]): Generator<string, void, undefined> {
  for (let first = 0; first < operations.length; first += PART_LINES) {
    const part = operations.slice(first, first + PART_LINES);
    yield part.map((operation, i) => `${restoreLine(operation, first + i)}\n`).join('');
  }
}

function restoreLine(operation: RestoreOperation, index: number): string {
  try {
    const words = wordsOf(operation);
    return words.map((word) => (typeof word === 'string' ? word : `"${word.quoted}"`)).join(' ');
  } catch (error) {
    if (!(error instanceof IpsetError)) throw error;
    throw new IpsetError(error.code, `operation ${index}: ${error.message}`, {
      operation: index,
      line: index + 1,
      cause: error,
    });
  }
}

/** Sets as `ipset save` prints them, as input for ipset. */
export function toSaveText(sets: readonly SavedSet[]): string {
  return toRestoreText(toOperations(sets));
}

function wordsOf(operation: RestoreOperation): Word[] {
  switch (operation.op) {
    case 'create':
      return ['create', value.nameText(operation.set.name), ...definitionWords(operation.set)];
    case 'add':
      return ['add', ...entryWords(operation.set, operation.entry, ENTRY_OPTIONS)];
    case 'del':
      return ['del', ...entryWords(operation.set, operation.entry, ['before', 'after'])];
    case 'flush':
    case 'destroy':
      return [operation.op, value.nameText(operation.name)];
    case 'swap':
    case 'rename':
      return [operation.op, value.nameText(operation.from), value.nameText(operation.to)];
  }
}

function definitionWords(set: SetDefinition): Word[] {
  if (!SET_TYPES.includes(set.type)) throw new IpsetError('SYNTAX', `'${set.type}' is not a set type`);
  const values: Values<CreateOption> = set;
  return [
    set.type,
    ...CREATE_OPTIONS[set.type].flatMap((option) => createOptionWords(set, option, values[option])),
  ];
}

function createOptionWords(set: SetDefinition, option: CreateOption, given: unknown): string[] {
  if (given === undefined) {
    if (option === 'range') throw new IpsetError('SYNTAX', `${set.type} needs a range`);
    return [];
  }
  switch (option) {
    case 'counters':
    case 'comment':
    case 'skbinfo':
    case 'forceadd':
      return given === true ? [option] : [];
    case 'range':
      return [
        option,
        set.type === 'bitmap:port' ? value.portNumbersText(String(given)) : value.addressText(String(given)),
      ];
    case 'family':
      if (given !== 'inet' && given !== 'inet6')
        throw new IpsetError('SYNTAX', `family ${given} is neither inet nor inet6`);
      return [option, given];
    case 'bitmask':
      return [option, value.addressText(String(given))];
    case 'netmask':
      return [option, value.integerText(option, given, 128, 1)];
    case 'timeout':
      return [option, value.timeoutText(given)];
    case 'initval':
    case 'markmask':
      return [option, value.hexText(option, given)];
    case 'hashsize':
    case 'maxelem':
    case 'bucketsize':
    case 'size':
      return [option, value.integerText(option, given)];
  }
}

function entryWords(set: SetRef, entry: Key, options: readonly EntryOption[]): Word[] {
  const values = entry as object as Values<EntryOption>;
  const words: Word[] = [value.nameText(set.name), elementText(set, entry)];
  // Loops, here and below, for speed: most of 100,000 entries have no options, and one field.
  for (const option of options) {
    if (values[option] !== undefined) words.push(...entryOptionWords(option, values[option]));
  }
  return words;
}

function listPosition(key: Key): string[] {
  const { before, after } = key as object as Values<EntryOption>;
  if (before !== undefined) return ['before', value.nameText(String(before))];
  return after === undefined ? [] : ['after', value.nameText(String(after))];
}

function entryOptionWords(option: EntryOption, given: unknown): Word[] {
  switch (option) {
    case 'before':
    case 'after':
      return [option, value.nameText(String(given))];
    case 'timeout':
      return [option, value.timeoutText(given)];
    case 'nomatch':
    case 'wildcard':
      return given === true ? [option] : [];
    case 'packets':
    case 'bytes':
      return [option, value.counterText(option, given)];
    case 'comment':
      return [option, { quoted: value.commentText(String(given)) }];
    case 'skbmark':
      return [option, value.markText(String(given))];
    case 'skbprio':
      return [option, value.priorityText(String(given))];
    case 'skbqueue':
      return [option, value.integerText(option, given, 65_535)];
  }
}

function elementText(set: SetRef, key: Key): string {
  const fields: readonly Field[] | undefined = FIELDS[set.type];
  if (fields === undefined) throw new IpsetError('SYNTAX', `'${set.type}' is not a set type`);
  const values: Values<Field | 'physdev'> = key;
  const parts: string[] = [];
  for (const field of fields) {
    const given = values[field];
    // The MAC address may be absent if the kernel can learn it.
    if (given === undefined && field === 'mac' && set.type === 'bitmap:ip,mac') continue;
    if (given === undefined) throw new IpsetError('SYNTAX', `an entry of ${set.type} needs ${field}`);
    const text = fieldText(set, field, given);
    parts.push(field === 'iface' && values.physdev === true ? `physdev:${text}` : text);
  }
  return parts.length === 1 ? (parts[0] ?? '') : parts.join(',');
}

function fieldText(set: SetRef, field: Field, given: unknown): string {
  switch (field) {
    case 'ip':
    case 'ip2':
    case 'net':
    case 'net2':
      return value.addressText(String(given));
    case 'port':
      if (set.type === 'bitmap:port') return value.portNumbersText(given as number | string);
      return value.portText(given as number | string);
    case 'mac':
      return value.macText(String(given));
    case 'mark':
      return value.hexText(field, given);
    case 'iface':
      return value.interfaceText(String(given));
    case 'set':
      return value.nameText(String(given));
  }
}
