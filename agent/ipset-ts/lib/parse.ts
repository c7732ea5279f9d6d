import {
  ENTRY_OPTIONS,
  type EntryOption,
  FIELDS,
  type Field,
  type ListedSet,
  type SavedSet,
} from './entry.ts';
import { IpsetError } from './errors.ts';
import { CREATE_OPTIONS, type CreateOption, SET_TYPES, type SetType } from './set.ts';

/*
 * Parses two of ipset's three formats, save and plain, which share the grammar of options and
 * entries. XML is not supported: ipset 7.17 does not escape names in it.
 */

/** A set while it is parsed; the types of SavedSet define which values belong together. */
type OpenSet = { name: string; type: SetType; entries: Record<string, unknown>[]; [option: string]: unknown };

/**
 * Parses the output of `ipset save`. Throws an IpsetError with code UNKNOWN for text that it cannot
 * parse.
 */
export function parseSave(text: string): SavedSet[] {
  const sets: OpenSet[] = [];
  for (const words of linesOf(text)) {
    const [command, ...rest] = words;
    const current = sets.at(-1);
    if (command === 'create') sets.push(toOpenSet(rest));
    else if (command === 'add' && current !== undefined) {
      // The adds of a set follow its create, so the name is only skipped: a name made by ipset may
      // contain blanks.
      current.entries.push(toEntry(current.type, rest.slice(current.name.split(' ').length)));
    } else throw unreadable(words);
  }
  return sets as unknown as SavedSet[];
}

/**
 * Parses the output of `ipset list`, with `-terse` or without. Throws an IpsetError with code
 * UNKNOWN for text that it cannot parse.
 */
export function parseList(text: string): ListedSet[] {
  const sets: OpenSet[] = [];
  for (const words of linesOf(text)) {
    const [label = '', ...rest] = words;
    const current = sets.at(-1);
    const name = rest.join(' ');
    if (label === 'Name:') sets.push({ name, type: 'list:set', entries: [] });
    else if (current === undefined) throw unreadable(words);
    else if (label === 'Type:') current.type = toType(name);
    else if (label === 'Revision:') current.revision = Number(name);
    else if (label === 'Header:') Object.assign(current, toOptions(current.type, rest));
    else if (label === 'References:') current.references = Number(name);
    else if (label === 'Size' && rest[1] === 'memory:') current.memory = Number(rest[2]);
    else if (label === 'Number' && rest[1] === 'entries:') current.entryCount = Number(rest[2]);
    else if (label !== 'Members:') current.entries.push(toEntry(current.type, words));
  }
  return sets as unknown as ListedSet[];
}

/** Parses the output of `ipset list -name`. */
export function parseSetNames(text: string): string[] {
  return text.split('\n').filter((line) => line !== '');
}

/**
 * Splits lines into words. Only a comment is quoted; one written by a third party may contain line
 * ends.
 */
function* linesOf(text: string): Generator<string[]> {
  const word = /(?<=comment )"([^"]*)"|[^ \n]+|(?<= )(?= )|\n/g;
  let words: string[] = [];
  for (const [whole, comment] of text.matchAll(word)) {
    if (whole !== '\n') words.push(comment ?? whole);
    else {
      if (words.length > 0) yield words;
      words = [];
    }
  }
  if (words.length > 0) yield words;
}

function toOpenSet(words: readonly string[]): OpenSet {
  const at = words.findIndex((word, index) => index > 0 && isType(word));
  if (at < 0) throw unreadable(['create', ...words]);
  const type = toType(words[at] ?? '');
  return { name: words.slice(0, at).join(' '), type, ...toOptions(type, words.slice(at + 1)), entries: [] };
}

function toOptions(type: SetType, words: readonly string[]): Record<string, unknown> {
  const known: readonly CreateOption[] = CREATE_OPTIONS[type];
  const options: Record<string, unknown> = {};
  for (let at = 0; at < words.length; ) {
    const option = known.find((candidate) => candidate === words[at]);
    if (option === undefined) throw unreadable([type, ...words]);
    at++;
    switch (option) {
      case 'counters':
      case 'comment':
      case 'skbinfo':
      case 'forceadd':
        options[option] = true;
        break;
      case 'range':
      case 'family':
      case 'bitmask':
        options[option] = words[at++];
        break;
      case 'timeout':
      case 'netmask':
      case 'hashsize':
      case 'maxelem':
      case 'bucketsize':
      case 'initval':
      case 'markmask':
      case 'size':
        options[option] = Number(words[at++]);
    }
  }
  return options;
}

function toEntry(type: SetType, words: readonly string[]): Record<string, unknown> {
  const [element = '', ...rest] = words;
  const entry = toKey(type, element);
  for (let at = 0; at < rest.length; ) {
    const option = ENTRY_OPTIONS.find((candidate) => candidate === rest[at]);
    if (option === undefined) throw unreadable(words);
    at++;
    if (option === 'nomatch' || option === 'wildcard') entry[option] = true;
    else entry[option] = toOptionValue(option, rest[at++] ?? '');
  }
  return entry;
}

function toOptionValue(option: Exclude<EntryOption, 'nomatch' | 'wildcard'>, text: string): unknown {
  switch (option) {
    case 'timeout':
    case 'skbqueue':
      return Number(text);
    case 'packets':
    case 'bytes':
      return BigInt(text);
    case 'before':
    case 'after':
    case 'comment':
    case 'skbmark':
    case 'skbprio':
      return text;
  }
}

function toKey(type: SetType, element: string): Record<string, unknown> {
  const fields: readonly Field[] = FIELDS[type];
  // The members of a list are names, which may contain commas.
  const parts = type === 'list:set' ? [element] : element.split(',');
  const isWhole = parts.length === fields.length || (type === 'bitmap:ip,mac' && parts.length === 1);
  if (!isWhole) throw unreadable([type, element]);
  const key: Record<string, unknown> = {};
  parts.forEach((part, index) => {
    const field = fields[index];
    if (field === undefined) return;
    if (field === 'mark' || (field === 'port' && type === 'bitmap:port')) key[field] = Number(part);
    else if (field === 'iface' && part.startsWith('physdev:'))
      Object.assign(key, { iface: part.slice(8), physdev: true });
    else key[field] = part;
  });
  return key;
}

function isType(word: string): word is SetType {
  return SET_TYPES.some((type) => type === word);
}

function toType(word: string): SetType {
  if (!isType(word)) throw new IpsetError('UNKNOWN', `unknown set type ${word}`);
  return word;
}

function unreadable(words: readonly string[]): IpsetError {
  return new IpsetError('UNKNOWN', `cannot parse the output of ipset: ${words.join(' ')}`);
}
