/**
 * An Exec without a kernel, for tests of what uses ipset. It refuses what ipset 7.17 refuses, in
 * its words.
 */
import { ENTRY_OPTIONS, type EntryOption } from '../../lib/entry.ts';
import type { Exec, ExecResult } from '../../lib/exec.ts';
import { SET_TYPES, type SetType } from '../../lib/set.ts';
import { NO_SUCH_SET, Refusal, syntax } from './element.ts';
import {
  addElements,
  addMember,
  checkExtensions,
  checkSyntax,
  delElements,
  delMember,
  ENTRY_FLAGS,
  expire,
  type FakeSet,
  type Header,
  makeFakeSet,
  type Stored,
  testElement,
  testMember,
  toCreateHeader,
  toHeader,
} from './set.ts';

interface FakeOptions {
  /** Milliseconds, for timeouts. Time stands still by default. */
  readonly now?: () => number;
  /** The types that the pretended kernel supports; all by default. */
  readonly types?: readonly SetType[];
}

const NET_FLAGS: Readonly<Record<string, readonly EntryOption[]>> = {
  'hash:net': ['nomatch'],
  'hash:net,net': ['nomatch'],
  'hash:net,port': ['nomatch'],
  'hash:ip,port,net': ['nomatch'],
  'hash:net,port,net': ['nomatch'],
  'hash:net,iface': ['nomatch', 'wildcard'],
  'list:set': ['before', 'after'],
};
const FOR_ALL = ENTRY_OPTIONS.filter(
  (option) => !['nomatch', 'wildcard', 'before', 'after'].includes(option),
);

/**
 * A kernel without sets, and the ipset command to it. Not pretended: hash:ip,mark's mask, which
 * entry gives way with forceadd (the oldest here), the kernel's order, memory, timeouts of a list's
 * members, and names of services and hosts. Ranges of more than 65,536 addresses are a RangeError.
 */
export function createFakeExec(options: FakeOptions = {}): Exec {
  const kernel = new FakeKernel(options);
  return async (args, { stdin = '', signal } = {}) => {
    signal?.throwIfAborted();
    return kernel.run(args, typeof stdin === 'string' ? stdin : [...stdin].join(''));
  };
}

interface Pending {
  readonly command: string;
  readonly name: string;
  readonly actions: { readonly line: number; readonly act: () => void }[];
}

class FakeKernel {
  readonly #sets = new Map<string, FakeSet>();
  readonly #now: () => number;
  readonly #types: readonly SetType[];

  constructor({ now = () => 0, types = SET_TYPES }: FakeOptions) {
    this.#now = now;
    this.#types = types;
  }

  run(args: readonly string[], stdin: string): ExecResult {
    for (const set of this.#sets.values()) expire(set, this.#now());
    const flags = args.filter((argument) => /^-(exist|terse|name)$/.test(argument));
    const words = args.filter((argument) => !flags.includes(argument));
    try {
      if (words[0] === 'restore') return done(this.#restore(stdin, flags.includes('-exist')));
      return done(this.#command(words, flags));
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      const stderr = error.message.includes(' is NOT in set ')
        ? `${error.message}\n`
        : `ipset v7.17: ${error.message}\n`;
      return { code: error.exitCode, stdout: '', stderr };
    }
  }

  #command(words: readonly string[], flags: readonly string[]): string {
    const [command = '', name, ...rest] = words;
    const exist = flags.includes('-exist');
    switch (command) {
      case 'create':
        return this.#create(needed(command, name), rest, exist);
      case 'add':
      case 'del':
        this.#change(command, needed(command, name), rest, exist)();
        return '';
      case 'test':
        return this.#test(needed(command, name), rest);
      case 'flush':
        this.#find(needed(command, name)).entries.clear();
        return '';
      case 'destroy':
        return this.#destroy(needed(command, name), exist);
      case 'swap':
        return this.#swap(needed(command, name), needed(command, rest[0]));
      case 'rename':
        return this.#rename(needed(command, name), needed(command, rest[0]));
      case 'save':
      case 'list':
        return this.#print(command, name, flags);
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
      const words = toWords(whole);
      const [command = '', name = '', ...rest] = words;
      if (command === 'restore' || command === 'list')
        throw new Refusal(`Command ${command} is invalid in restore mode`, 2);
      if (command !== 'add' && command !== 'del') {
        commit();
        at(index + 1, () => this.#command(words, exist ? ['-exist'] : []));
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
    checkName(name);
    const [typename, ...options] = words;
    if (typename === undefined) throw new Refusal('Missing second mandatory argument to command create', 2);
    const type = SET_TYPES.find((one) => one === typename);
    if (type === undefined) throw syntax(`typename '${typename}' is unknown`);
    const set = makeFakeSet(type, toCreateHeader(type, options));
    if (!this.#types.includes(type)) throw new Refusal('Kernel error received: set type not supported');
    const old = this.#sets.get(name);
    if (old === undefined) this.#sets.set(name, set);
    else if (!exist || old.type !== type || identity(old) !== identity(set)) {
      throw new Refusal('Set cannot be created: set with the same name already exists');
    }
    return '';
  }

  /** Everything that ipset checks by itself, at once; what is returned is the kernel's part. */
  #change(command: 'add' | 'del', name: string, words: readonly string[], exist: boolean): () => void {
    const [element, ...rest] = words;
    const set = this.#find(name);
    if (element === undefined)
      throw new Refusal(`Missing second mandatory argument to command ${command}`, 2);
    const known = command === 'add' ? [...(NET_FLAGS[set.type] ?? []), ...FOR_ALL] : ['before', 'after'];
    const options = toHeader(rest, known, ENTRY_FLAGS);
    if (set.type === 'list:set') {
      return () => {
        checkExtensions(set, options);
        if (command === 'add') addMember(this.#sets, set, element, options, exist);
        else delMember(this.#sets, set, element, options, exist);
      };
    }
    checkSyntax(set, element);
    return () => {
      checkExtensions(set, options);
      if (command === 'add') addElements(set, element, options, exist, this.#now());
      else delElements(set, element, exist);
    };
  }

  #test(name: string, words: readonly string[]): string {
    const [element = '', ...rest] = words;
    const set = this.#find(name);
    const options = toHeader(
      rest,
      NET_FLAGS[set.type]?.filter((option) => option !== 'wildcard') ?? [],
      ENTRY_FLAGS,
    );
    const isIn =
      set.type === 'list:set'
        ? testMember(set, element, options)
        : testElement(set, element, options.has('nomatch'));
    if (!isIn) throw new Refusal(`${element} is NOT in set ${name}.`);
    return '';
  }

  #destroy(name: string, exist: boolean): string {
    if (exist && !this.#sets.has(name)) return '';
    this.#find(name);
    if (this.#references(name) > 0)
      throw new Refusal('Set cannot be destroyed: it is in use by a kernel component');
    this.#sets.delete(name);
    return '';
  }

  #swap(from: string, to: string): string {
    const [first, second] = [this.#find(from), this.#sets.get(to)];
    if (second === undefined) throw new Refusal('Sets cannot be swapped: the second set does not exist');
    if (first.type !== second.type || first.rules.family !== second.rules.family) {
      throw new Refusal('The sets cannot be swapped: their type does not match');
    }
    this.#sets.set(from, second).set(to, first);
    return '';
  }

  #rename(from: string, to: string): string {
    checkName(to);
    const set = this.#find(from);
    if (this.#references(from) > 0)
      throw new Refusal('Set cannot be renamed: it is in use by another system');
    if (this.#sets.has(to))
      throw new Refusal('Set cannot be renamed: a set with the new name already exists');
    this.#sets.delete(from);
    this.#sets.set(to, set);
    return '';
  }

  #print(command: 'save' | 'list', name: string | undefined, flags: readonly string[]): string {
    if (flags.includes('-name')) return [...this.#sets.keys()].map((one) => `${one}\n`).join('');
    // Lists last, as their members must be there before them.
    const isList = ([, set]: readonly [string, FakeSet]) => Number(set.type === 'list:set');
    const all = [...this.#sets].sort((a, b) => isList(a) - isList(b));
    const wanted: [string, FakeSet][] = name === undefined ? all : [[name, this.#find(name)]];
    if (command === 'save') return wanted.map(([one, set]) => saveText(one, set, this.#now())).join('');
    const terse = flags.includes('-terse');
    return wanted
      .map(([one, set]) => listText(one, set, this.#references(one), terse, this.#now()))
      .join('\n');
  }

  #find(name: string): FakeSet {
    const set = this.#sets.get(name);
    if (set === undefined) throw new Refusal(NO_SUCH_SET);
    return set;
  }

  #references(name: string): number {
    const lists = [...this.#sets.values()].filter(({ type }) => type === 'list:set');
    return lists.filter(({ entries }) => entries.has(name)).length;
  }
}

function done(stdout: string): ExecResult {
  return { code: 0, stdout, stderr: '' };
}

function needed(command: string, word: string | undefined): string {
  if (word === undefined) throw new Refusal(`Missing mandatory argument to command ${command}`, 2);
  return word;
}

function checkName(name: string): void {
  if (Buffer.byteLength(name) > 31) throw syntax(`setname '${name}' is longer than 31 characters`);
}

/**
 * The properties that two sets must share to be the same for -exist: the kernel does not compare
 * families.
 */
function identity(set: FakeSet): string {
  const others = ['family', 'hashsize', 'initval', 'bucketsize', 'forceadd'];
  return headerText(new Map([...set.header].filter(([option]) => !others.includes(option))));
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

function toWords(line: string): string[] {
  return [...line.matchAll(/"([^"]*)"|\S+/g)].flatMap(([whole, quoted]) =>
    quoted === '' ? [] : [quoted ?? whole],
  );
}

function headerText(header: Header): string {
  // forceadd is in force, but ipset does not print it.
  const printed = [...header].filter(([option]) => option !== 'forceadd');
  return printed.map(([option, value]) => (value === '' ? option : `${option} ${value}`)).join(' ');
}

function saveText(name: string, set: FakeSet, now: number): string {
  const lines = [`create ${name} ${set.type} ${headerText(set.header)}`];
  for (const stored of set.entries.values()) lines.push(`add ${name} ${entryText(set, stored, now)}`);
  return lines.map((line) => `${line}\n`).join('');
}

function listText(name: string, set: FakeSet, references: number, terse: boolean, now: number): string {
  const lines = [
    `Name: ${name}`,
    `Type: ${set.type}`,
    'Revision: 0',
    `Header: ${headerText(set.header)}`,
    'Size in memory: 0',
    `References: ${references}`,
    `Number of entries: ${set.entries.size}`,
  ];
  if (!terse)
    lines.push('Members:', ...[...set.entries.values()].map((stored) => entryText(set, stored, now)));
  return lines.map((line) => `${line}\n`).join('');
}

function entryText(set: FakeSet, { element, options, expires }: Stored, now: number): string {
  const shown = new Map(options);
  if (set.header.has('timeout'))
    shown.set('timeout', String(expires === null ? 0 : Math.ceil((expires - now) / 1000)));
  if (set.header.has('counters')) {
    for (const counter of ['packets', 'bytes']) shown.set(counter, options.get(counter) ?? '0');
  }
  const words = ENTRY_OPTIONS.flatMap((option) => {
    const value = shown.get(option);
    if (value === undefined || (option === 'comment' && value === '')) return [];
    if (option === 'comment') return [`${option} "${value}"`];
    return [value === '' ? option : `${option} ${value}`];
  });
  return [element.parts.join(','), ...words].join(' ');
}
