/** Sets whose entries are the names of other sets, in an order. */
import { CREATE_OPTIONS, type CreateOption, type SetFamily, type SetType } from '../../lib/set.ts';
import {
  bitsOf,
  type Element,
  type ElementRules,
  expandElements,
  maskOf,
  parseSetAddress,
  Refusal,
  syntax,
  toSpan,
} from './element.ts';

/** Options as ipset spells them; a flag's value is the empty text. */
export type Header = ReadonlyMap<string, string>;

/** Options without a value, of a set and of an entry: a comment is one of the former alone. */
const SET_FLAGS: readonly string[] = ['counters', 'comment', 'skbinfo', 'forceadd'];
export const ENTRY_FLAGS: readonly string[] = ['nomatch', 'wildcard'];
const MAX_TIMEOUT = 2_147_483;

/** Reads `option value option …` of which only the known may be, each once. */
export function toHeader(
  words: readonly string[],
  known: readonly string[],
  flags: readonly string[],
): Map<string, string> {
  const header = new Map<string, string>();
  for (let at = 0; at < words.length; at++) {
    const option = words[at] ?? '';
    if (!known.includes(option)) throw new Refusal(`Unknown argument: \`${option}'`, 2);
    if (header.has(option)) throw syntax(`${option} already specified`);
    if (flags.includes(option)) header.set(option, '');
    else {
      at++;
      const value = words[at];
      // An empty argument is one in a call, but none in the text of a restore.
      if (value === undefined) throw new Refusal(`Missing mandatory argument of option \`${option}'`, 2);
      header.set(option, value);
    }
  }
  checkNumber(header, 'timeout', MAX_TIMEOUT);
  return header;
}

function checkNumber(header: Header, option: string, max: number): void {
  const text = header.get(option);
  if (text === undefined) return;
  if (!/^-?\d+$/.test(text)) throw syntax(`'${text}' is invalid as number`);
  if (Number(text) < 0 || Number(text) > max) throw syntax(`'${text}' is out of range 0-${max}`);
}

/** The options that a set of this type gets, with the kernel's defaults and corrections. */
export function toCreateHeader(type: SetType, words: readonly string[]): Header {
  const known: readonly CreateOption[] = CREATE_OPTIONS[type];
  const given = toHeader(words, known, SET_FLAGS);
  if (known.includes('range') && !given.has('range'))
    throw new Refusal("Mandatory option `range' is missing", 2);
  if (given.has('netmask') && given.has('bitmask')) {
    throw syntax('bitmask and netmask are mutually exclusive, provide only one');
  }
  for (const option of ['hashsize', 'maxelem', 'size']) checkNumber(given, option, 2 ** 32 - 1);
  const defaults: [string, string][] = [
    ['family', 'inet'],
    ['hashsize', '1024'],
    ['maxelem', '65536'],
    ['bucketsize', '12'],
    ['initval', '0x00000000'],
    ['size', '8'],
  ];
  for (const [option, value] of defaults) {
    if (known.some((one) => one === option) && !given.has(option)) given.set(option, value);
  }
  correct(type, given);
  // forceadd is in force, but never printed.
  return new Map(known.flatMap((option) => (given.has(option) ? [[option, given.get(option) ?? '']] : [])));
}

function correct(type: SetType, header: Map<string, string>): void {
  const hashsize = header.get('hashsize');
  if (hashsize !== undefined)
    header.set('hashsize', String(Math.max(64, 2 ** Math.ceil(Math.log2(Number(hashsize))))));
  const bucketsize = Number(header.get('bucketsize'));
  if (header.has('bucketsize'))
    header.set('bucketsize', String(bucketsize > 12 ? 12 : Math.max(2, 2 * Math.ceil(bucketsize / 2))));
  if (header.has('size')) header.set('size', String(Math.max(4, Number(header.get('size')))));
  const range = header.get('range');
  if (range === undefined) return;
  if (type === 'bitmap:port') {
    const [from = 0, to = from] = range.split('-').map(Number);
    header.set('range', from <= to ? `${from}-${to}` : `${to}-${from}`);
    return;
  }
  const [from, to] = toSpan('inet', range);
  const step = 1n << BigInt(32 - Number(header.get('netmask') ?? 32));
  if ((to - from + 1n) / step > 65_536n) {
    throw new Refusal('The range you specified exceeds the size limit of the set type');
  }
  const dotted = (address: bigint) => [24n, 16n, 8n, 0n].map((bits) => (address >> bits) & 255n).join('.');
  header.set('range', `${dotted(from)}-${dotted(to)}`);
}

/** An element's options, and when it goes (null: never). */
export interface Stored {
  readonly element: Element;
  readonly options: Header;
  readonly expires: number | null;
}

/**
 * A set in the fake's memory. Members of lists are in `members`; entries of all other types in
 * `entries`.
 */
export interface FakeSet {
  readonly type: SetType;
  readonly header: Header;
  readonly rules: ElementRules;
  readonly entries: Map<string, Stored>;
}

export function makeFakeSet(type: SetType, header: Header): FakeSet {
  const family = (header.get('family') ?? 'inet') as SetFamily;
  const netmask = header.get('netmask');
  const bitmask = header.get('bitmask');
  let mask: bigint | null = null;
  if (netmask !== undefined) mask = maskOf(family, Number(netmask));
  if (bitmask !== undefined) mask = parseSetAddress(family, bitmask);
  if (netmask !== undefined && Number(netmask) > bitsOf(family)) {
    throw syntax(`'${netmask}' is out of range 1-${bitsOf(family)}`);
  }
  const text = header.get('range');
  const range = text === undefined ? null : type === 'bitmap:port' ? portSpan(text) : toSpan('inet', text);
  return { type, header, rules: { type, family, mask, range }, entries: new Map() };
}

function portSpan(text: string): [bigint, bigint] {
  const [from = '0', to = from] = text.split('-');
  return [BigInt(from), BigInt(to)];
}

/** Which option of a set an option of an entry needs, and what ipset says without. */
const NEEDS: readonly (readonly [options: readonly string[], extension: string, refusal: string])[] = [
  [['timeout'], 'timeout', 'Timeout cannot be used: set was created without timeout support'],
  [
    ['packets', 'bytes'],
    'counters',
    'Packet/byte counters cannot be used: set was created without counter support',
  ],
  [['comment'], 'comment', 'Comment cannot be used: set was created without comment support'],
  [
    ['skbmark', 'skbprio', 'skbqueue'],
    'skbinfo',
    'Skbinfo mapping cannot be used: set was created without skbinfo support',
  ],
];

export function checkExtensions(set: FakeSet, options: Header): void {
  const comment = options.get('comment');
  if (comment !== undefined && Buffer.byteLength(comment) > 255) {
    throw syntax('Comment is longer than the maximum allowed 255 characters');
  }
  if (comment?.includes('"')) throw syntax('" character is not permitted in comments');
  for (const [names, extension, refusal] of NEEDS) {
    if (names.some((name) => options.has(name)) && !set.header.has(extension)) throw new Refusal(refusal);
  }
}

/** Refuses what cannot be parsed; what does not fit the set is the kernel's to say, later. */
export function checkSyntax(set: FakeSet, text: string): void {
  try {
    expandElements(set.rules, text);
  } catch (error) {
    if (error instanceof Refusal && error.message.startsWith('Syntax error')) throw error;
    if (!(error instanceof Refusal)) throw error;
  }
}

/** A bitmap:ip,mac has an address once, whatever MAC address goes with it. */
function keyOf(set: FakeSet, element: Element): string {
  return set.type === 'bitmap:ip,mac' ? (element.parts[0] ?? '') : element.parts.join(',');
}

export function addElements(set: FakeSet, text: string, options: Header, exist: boolean, now: number): void {
  for (const element of expandElements(set.rules, text)) {
    const key = keyOf(set, element);
    const old = set.entries.get(key);
    const learnt =
      set.type === 'bitmap:ip,mac' && old?.element.parts.length === 1 && element.parts.length === 2;
    if (old !== undefined && !exist && !learnt)
      throw new Refusal("Element cannot be added to the set: it's already added");
    const maxelem = Number(set.header.get('maxelem') ?? Infinity);
    if (old === undefined && set.entries.size >= maxelem) {
      const [first] = set.entries.keys();
      if (!set.header.has('forceadd') || first === undefined)
        throw new Refusal('Hash is full, cannot add more elements');
      set.entries.delete(first);
    }
    const seconds = Number(options.get('timeout') ?? set.header.get('timeout') ?? 0);
    // Counters stay where none are given; all else is set anew.
    const counters = [...(old?.options ?? [])].filter(
      ([option]) => option === 'packets' || option === 'bytes',
    );
    const anew = new Map([...counters, ...options]);
    set.entries.set(key, { element, options: anew, expires: seconds === 0 ? null : now + seconds * 1000 });
  }
}

export function delElements(set: FakeSet, text: string, exist: boolean): void {
  for (const element of expandElements(set.rules, text)) {
    const key = keyOf(set, element);
    const old = set.entries.get(key);
    const [, mac] = element.parts;
    const differs = set.type === 'bitmap:ip,mac' && mac !== undefined && old?.element.parts[1] !== mac;
    if ((old === undefined || differs) && !exist)
      throw new Refusal("Element cannot be deleted from the set: it's not added");
    if (!differs) set.entries.delete(key);
  }
}

/**
 * Whether it is there: a single address in a network, too. The narrowest network says whether as an
 * exception.
 */
export function testElement(set: FakeSet, text: string, nomatch: boolean): boolean {
  const [element] = expandElements({ ...set.rules, range: null }, text);
  if (element === undefined) return false;
  const found = [...set.entries.values()].filter((stored) => covers(set, stored, element));
  const width = (stored: Stored) => stored.element.nets.reduce((sum, net) => sum + (net?.length ?? 0), 0);
  const [best] = found.sort((a, b) => width(b) - width(a));
  return best !== undefined && best.options.has('nomatch') === nomatch;
}

function covers(set: FakeSet, { element, options }: Stored, wanted: Element): boolean {
  const { family } = set.rules;
  const isHost = wanted.nets.every((net) => net === null || net.length === bitsOf(family));
  return wanted.parts.every((part, index) => {
    const net = element.nets[index] ?? null;
    const other = wanted.nets[index] ?? null;
    const own = element.parts[index] ?? '';
    if (isHost && net !== null && other !== null) {
      return (other.address & maskOf(family, net.length)) === net.address;
    }
    return own === part || (options.has('wildcard') && index === 1 && part.startsWith(own));
  });
}

/** Forgets what has gone. */
export function expire(set: FakeSet, now: number): void {
  for (const [key, { expires }] of set.entries)
    if (expires !== null && expires <= now) set.entries.delete(key);
}

type Sets = ReadonlyMap<string, FakeSet>;

export function addMember(sets: Sets, list: FakeSet, name: string, options: Header, exist: boolean): void {
  const neighbour = checkNames(sets, list, name, options);
  const members = [...list.entries];
  const beside = members.findIndex(([other]) => other === neighbour && other !== name);
  if (neighbour !== undefined && beside < 0) throw notThere();
  const stored = {
    element: { parts: [name], nets: [null] },
    options: withoutPosition(options),
    expires: null,
  };
  if (list.entries.has(name)) {
    if (!exist) throw new Refusal("Element cannot be added to the set: it's already added");
    // It keeps its place, whatever is said of that.
    list.entries.set(name, stored);
    return;
  }
  const index = neighbour === undefined ? members.length : options.has('before') ? beside : beside + 1;
  list.entries.clear();
  for (const [other, old] of members.toSpliced(index, 0, [name, stored])) list.entries.set(other, old);
}

export function delMember(sets: Sets, list: FakeSet, name: string, options: Header, exist: boolean): void {
  const neighbour = checkNames(sets, list, name, options);
  if (neighbour !== undefined && !stands(list, name, options)) throw notThere();
  if (!list.entries.delete(name) && !exist) {
    throw new Refusal("Element cannot be deleted from the set: it's not added");
  }
}

export function testMember(list: FakeSet, name: string, options: Header): boolean {
  return list.entries.has(name) && stands(list, name, options);
}

function checkNames(sets: Sets, list: FakeSet, name: string, options: Header): string | undefined {
  const member = sets.get(name);
  if (member === undefined) throw new Refusal('Set to be added/deleted/tested as element does not exist.');
  if (member.type === list.type) throw new Refusal('Sets with list:set type cannot be added to the set.');
  const neighbour = options.get('before') ?? options.get('after');
  if (neighbour !== undefined && !sets.has(neighbour)) {
    throw new Refusal("The set to which you referred with 'before' or 'after' does not exist.");
  }
  return neighbour;
}

/** Whether it stands where the options say. */
function stands(list: FakeSet, name: string, options: Header): boolean {
  const names = [...list.entries.keys()];
  const at = names.indexOf(name);
  const [before, after] = [options.get('before'), options.get('after')];
  return (
    (before === undefined || names[at + 1] === before) && (after === undefined || names[at - 1] === after)
  );
}

function withoutPosition(options: Header): Header {
  return new Map([...options].filter(([option]) => option !== 'before' && option !== 'after'));
}

function notThere(): Refusal {
  return new Refusal("The set to which you referred with 'before' or 'after' is not added to the set.");
}
