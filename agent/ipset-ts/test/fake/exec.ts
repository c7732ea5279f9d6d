/**
 * An Exec without a kernel, for tests of what uses ipset. It refuses what ipset 7.17 refuses, in
 * its words.
 */
import type { Exec, ExecResult } from '../../lib/exec.ts';
import { type ElementRules, expandElements, NO_SUCH_SET, Refusal, type SetType, syntax } from './element.ts';

interface FakeOptions {
  /** Milliseconds, for timeouts. Time stands still by default. */
  readonly now?: () => number;
}

/** Options as ipset spells them; a flag's value is the empty text. */
type Header = ReadonlyMap<string, string>;

/** An element's options, and when it goes (null: never). */
interface Stored {
  readonly options: Header;
  readonly expires: number | null;
}

/** A set in the fake's memory; entries by their element. */
interface FakeSet {
  readonly rules: ElementRules;
  readonly header: Header;
  readonly entries: Map<string, Stored>;
}

interface Pending {
  readonly command: string;
  readonly name: string;
  readonly actions: { readonly line: number; readonly act: () => void }[];
}

const SET_TYPES: readonly SetType[] = ['hash:ip', 'hash:net', 'hash:ip,port'];
/** In the order in which ipset prints them. */
const CREATE_OPTIONS = ['family', 'hashsize', 'maxelem', 'timeout', 'bucketsize', 'initval'];
const MAX_TIMEOUT = 2_147_483;
const MAX_NUMBER = 2 ** 32 - 1;

/**
 * A kernel without sets, and the ipset command to it: sets of the types that nodewall makes, with
 * the options that it gives. Not pretended: the kernel's order, and names of services and hosts.
 * Ranges of more than 65,536 addresses are a RangeError.
 */
export function createFakeExec(options: FakeOptions = {}): Exec {
  const kernel = new FakeKernel(options);
  return async (args, { stdin = '' } = {}) =>
    kernel.run(args, typeof stdin === 'string' ? stdin : [...stdin].join(''));
}

class FakeKernel {
  readonly #sets = new Map<string, FakeSet>();
  readonly #now: () => number;

  constructor({ now = () => 0 }: FakeOptions) {
    this.#now = now;
  }

  run(args: readonly string[], stdin: string): ExecResult {
    for (const set of this.#sets.values()) expire(set, this.#now());
    const flags = args.filter((argument) => /^-(exist|name)$/.test(argument));
    const words = args.filter((argument) => !flags.includes(argument));
    const exist = flags.includes('-exist');
    try {
      if (words[0] === 'restore') return done(this.#restore(stdin, exist));
      if (words[0] === 'list' && flags.includes('-name'))
        return done([...this.#sets.keys()].map((one) => `${one}\n`).join(''));
      return done(this.#command(words, exist));
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      return { code: error.exitCode, stdout: '', stderr: `ipset v7.17: ${error.message}\n` };
    }
  }

  #command(words: readonly string[], exist: boolean): string {
    const [command = '', name, ...rest] = words;
    switch (command) {
      case 'create':
        return this.#create(needed(command, name), rest, exist);
      case 'add':
      case 'del':
        this.#change(command, needed(command, name), rest, exist)();
        return '';
      case 'flush':
        this.#find(needed(command, name)).entries.clear();
        return '';
      case 'destroy':
        if (exist && !this.#sets.has(name ?? '')) return '';
        this.#find(needed(command, name));
        this.#sets.delete(name ?? '');
        return '';
      case 'swap':
        return this.#swap(needed(command, name), needed(command, rest[0]));
      case 'save': {
        const wanted: [string, FakeSet][] = name === undefined ? [...this.#sets] : [[name, this.#find(name)]];
        return wanted.map(([one, set]) => saveText(one, set, this.#now())).join('');
      }
      default:
        throw new Refusal(`No command specified: unknown argument ${command}`, 2);
    }
  }

  /**
   * As ipset does: adds to one set are collected, and sent before the next other line; what is not
   * sent when a line is refused is lost.
   */
  #restore(text: string, exist: boolean): string {
    let pending: Pending | null = null;
    const commit = (): void => {
      for (const { line, act } of pending?.actions ?? []) at(line, act);
      pending = null;
    };
    text.split('\n').forEach((whole, index) => {
      if (/^\s*(#|$)/.test(whole)) return;
      const words = whole.split(' ').filter((word) => word !== '');
      const [command = '', name = '', ...rest] = words;
      if (command === 'restore' || command === 'list')
        throw new Refusal(`Command ${command} is invalid in restore mode`, 2);
      if (command !== 'add' && command !== 'del') {
        commit();
        at(index + 1, () => this.#command(words, exist));
        return;
      }
      const act = at(index + 1, () => this.#change(command, name, rest, exist));
      if (pending?.command !== command || pending.name !== name) {
        commit();
        pending = { command, name, actions: [] };
      }
      pending.actions.push({ line: index + 1, act });
    });
    commit();
    return '';
  }

  #create(name: string, words: readonly string[], exist: boolean): string {
    if (Buffer.byteLength(name) > 31) throw syntax(`setname '${name}' is longer than 31 characters`);
    const [typename, ...options] = words;
    if (typename === undefined) throw new Refusal('Missing second mandatory argument to command create', 2);
    const type = SET_TYPES.find((one) => one === typename);
    if (type === undefined) throw syntax(`typename '${typename}' is unknown`);
    const header = toCreateHeader(options);
    const family = header.get('family') === 'inet6' ? 'inet6' : 'inet';
    const old = this.#sets.get(name);
    if (old === undefined) this.#sets.set(name, { rules: { type, family }, header, entries: new Map() });
    else if (!exist || old.rules.type !== type || identity(old.header) !== identity(header)) {
      throw new Refusal('Set cannot be created: set with the same name already exists');
    }
    return '';
  }

  /** Everything that ipset checks by itself, at once; what is returned is the kernel's part. */
  #change(command: 'add' | 'del', name: string, words: readonly string[], exist: boolean): () => void {
    const [text, ...rest] = words;
    const set = this.#find(name);
    if (text === undefined) throw new Refusal(`Missing second mandatory argument to command ${command}`, 2);
    const isNet = set.rules.type === 'hash:net';
    const known = command === 'del' ? [] : isNet ? ['timeout', 'nomatch'] : ['timeout'];
    const options = toHeader(rest, known);
    checkSyntax(set.rules, text);
    return () => {
      if (options.has('timeout') && !set.header.has('timeout'))
        throw new Refusal('Timeout cannot be used: set was created without timeout support');
      for (const element of expandElements(set.rules, text)) {
        if (command === 'add') addElement(set, element, { options, exist, now: this.#now() });
        else if (!set.entries.delete(element) && !exist)
          throw new Refusal("Element cannot be deleted from the set: it's not added");
      }
    };
  }

  #swap(from: string, to: string): string {
    const [first, second] = [this.#find(from), this.#sets.get(to)];
    if (second === undefined) throw new Refusal('Sets cannot be swapped: the second set does not exist');
    if (first.rules.type !== second.rules.type || first.rules.family !== second.rules.family) {
      throw new Refusal('The sets cannot be swapped: their type does not match');
    }
    this.#sets.set(from, second).set(to, first);
    return '';
  }

  #find(name: string): FakeSet {
    const set = this.#sets.get(name);
    if (set === undefined) throw new Refusal(NO_SUCH_SET);
    return set;
  }
}

function done(stdout: string): ExecResult {
  return { code: 0, stdout, stderr: '' };
}

function needed(command: string, word: string | undefined): string {
  if (word === undefined) throw new Refusal(`Missing mandatory argument to command ${command}`, 2);
  return word;
}

/** Reads `option value option …` of which only the known may be, each once. */
function toHeader(words: readonly string[], known: readonly string[]): Map<string, string> {
  const header = new Map<string, string>();
  for (let at = 0; at < words.length; at++) {
    const option = words[at] ?? '';
    if (!known.includes(option)) throw new Refusal(`Unknown argument: \`${option}'`, 2);
    if (header.has(option)) throw syntax(`${option} already specified`);
    if (option === 'nomatch') header.set(option, '');
    else {
      at++;
      const value = words[at];
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

/** The options that a set gets, with the kernel's defaults and corrections. */
function toCreateHeader(words: readonly string[]): Header {
  const given = toHeader(words, CREATE_OPTIONS);
  for (const option of ['hashsize', 'maxelem']) checkNumber(given, option, MAX_NUMBER);
  const defaults: [string, string][] = [
    ['family', 'inet'],
    ['hashsize', '1024'],
    ['maxelem', '65536'],
    ['bucketsize', '12'],
    ['initval', '0x00000000'],
  ];
  for (const [option, value] of defaults) if (!given.has(option)) given.set(option, value);
  const buckets = 2 ** Math.ceil(Math.log2(Number(given.get('hashsize'))));
  given.set('hashsize', String(Math.max(64, buckets)));
  return new Map(
    CREATE_OPTIONS.flatMap((option) => (given.has(option) ? [[option, given.get(option) ?? '']] : [])),
  );
}

/**
 * The properties that two sets must share to be the same for -exist: the kernel does not compare
 * families.
 */
function identity(header: Header): string {
  return ['maxelem', 'timeout'].map((option) => header.get(option)).join();
}

/** Refuses what cannot be parsed; what does not fit the set is the kernel's to say, later. */
function checkSyntax(rules: ElementRules, text: string): void {
  try {
    expandElements(rules, text);
  } catch (error) {
    if (!(error instanceof Refusal) || error.message.startsWith('Syntax error')) throw error;
  }
}

function addElement(
  { entries, header }: FakeSet,
  element: string,
  { options, exist, now }: { readonly options: Header; readonly exist: boolean; readonly now: number },
): void {
  if (entries.has(element) && !exist)
    throw new Refusal("Element cannot be added to the set: it's already added");
  if (!entries.has(element) && entries.size >= Number(header.get('maxelem')))
    throw new Refusal('Hash is full, cannot add more elements');
  const seconds = Number(options.get('timeout') ?? header.get('timeout') ?? 0);
  entries.set(element, { options, expires: seconds === 0 ? null : now + seconds * 1000 });
}

/** Forgets what has gone. */
function expire(set: FakeSet, now: number): void {
  for (const [element, { expires }] of set.entries)
    if (expires !== null && expires <= now) set.entries.delete(element);
}

/** Runs it for a line of a restore; only refusals of library and kernel name their line. */
function at<R>(line: number, act: () => R): R {
  try {
    return act();
  } catch (error) {
    if (!(error instanceof Refusal) || error.exitCode === 2) throw error;
    throw new Refusal(`Error in line ${line}: ${error.message}`);
  }
}

function saveText(name: string, { rules, header, entries }: FakeSet, now: number): string {
  const options = [...header].map(([option, value]) => ` ${option} ${value}`).join('');
  const lines = [`create ${name} ${rules.type}${options}\n`];
  for (const [element, stored] of entries) {
    const left = stored.expires === null ? 0 : Math.ceil((stored.expires - now) / 1000);
    const timeout = header.has('timeout') ? ` timeout ${left}` : '';
    lines.push(`add ${name} ${element}${timeout}${stored.options.has('nomatch') ? ' nomatch' : ''}\n`);
  }
  return lines.join('');
}
