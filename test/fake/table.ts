import { isDeepStrictEqual } from 'node:util';
import type { BaseChain, Verdict } from 'nftables-napi';
import type { SetDeclaration } from './nftcommand.ts';
import { type ParsedRule, splitTargets } from './nftrule.ts';
import { Refusal } from './refusal.ts';

/**
 * The table as the fake holds it. What refers to something refers to its handle, as in the kernel: a renamed chain keeps those that jump to it.
 * Every change throws a Refusal where nf_tables refuses it, and where nodewall has no reason to ask for it (adding what is there).
 */
export interface FakeTable {
  readonly chains: Map<string, FakeChain>;
  /** Sets and maps have one name space. */
  readonly sets: Map<string, FakeSet>;
  nextHandle: number;
}

export interface FakeChain {
  readonly handle: number;
  name: string;
  base: BaseChain | null;
  readonly rules: FakeRule[];
}

export interface FakeRule {
  readonly handle: number;
  /** As it was added, without its comment. */
  readonly text: string;
  /** Text and handles of the chains it leads to, in turn. */
  readonly parts: readonly (string | number)[];
  readonly sets: readonly number[];
  readonly comment: string | null;
}

export interface FakeSet extends Omit<SetDeclaration, 'elements'> {
  readonly handle: number;
  /** By first key, hex. A key of a hash set is its own last. */
  readonly elements: Map<string, FakeElement>;
  /** An element `*`: only strangers add it. */
  catchAll: boolean;
}

export interface FakeElement {
  readonly last: string;
  /** The chain by handle. */
  readonly verdict: { readonly kind: 'jump' | 'goto'; readonly chain: number } | null;
}

/** NFT_JUMP_STACK_SIZE. */
const MAX_DEPTH = 16;

export function newTable(): FakeTable {
  return { chains: new Map(), sets: new Map(), nextHandle: 1 };
}

/** Of a base chain that is there it sets the policy. */
export function addChain(table: FakeTable, name: string, base: BaseChain | null): void {
  const there = table.chains.get(name);
  if (there?.base && base && isDeepStrictEqual({ ...there.base, policy: base.policy }, base)) {
    there.base = base;
    return;
  }
  if (there?.base && base) throw new Refusal('EOPNOTSUPP', `chain ${name}: Operation not supported`);
  if (there !== undefined) throw new Refusal('EEXIST', `chain ${name}: File exists`);
  table.chains.set(name, { handle: table.nextHandle++, name, base, rules: [] });
}

export function renameChain(table: FakeTable, name: string, to: string): void {
  const chain = chainOf(table, name);
  if (table.chains.has(to)) throw new Refusal('EEXIST', `chain ${to}: File exists`);
  chain.name = to;
  table.chains.delete(name);
  table.chains.set(to, chain);
}

export function flushChain(table: FakeTable, name: string): void {
  chainOf(table, name).rules.length = 0;
}

/** Its own rules go with it. */
export function deleteChain(table: FakeTable, name: string): void {
  const { handle } = chainOf(table, name);
  const jumped = [...table.chains.values()].some(
    (chain) => chain.name !== name && chain.rules.some(({ parts }) => parts.includes(handle)),
  );
  const mapped = [...table.sets.values()].some(({ elements }) =>
    [...elements.values()].some(({ verdict }) => verdict?.chain === handle),
  );
  if (jumped || mapped) throw new Refusal('EBUSY', `chain ${name}: Device or resource busy`);
  table.chains.delete(name);
}

export function addRule(table: FakeTable, chain: string, { text, comment, sets }: ParsedRule): void {
  const { rules } = chainOf(table, chain);
  const parts = splitTargets(text).map((part, i) => (i % 2 === 0 ? part : targetOf(table, part)));
  const named = sets.map((name) => setOf(table, name).handle);
  rules.push({ handle: table.nextHandle++, text, parts, sets: named, comment });
}

export function addSet(table: FakeTable, { elements: _, ...declared }: SetDeclaration): FakeSet {
  if (table.sets.has(declared.name)) throw new Refusal('EEXIST', `set ${declared.name}: File exists`);
  const set: FakeSet = { ...declared, handle: table.nextHandle++, elements: new Map(), catchAll: false };
  table.sets.set(declared.name, set);
  return set;
}

export function deleteSet(table: FakeTable, name: string, isMap: boolean): void {
  const { handle, keyLength } = setOf(table, name);
  if ((keyLength === 2) !== isMap) throw new Refusal('ENOENT', `${name}: wrong kind of set`);
  const used = [...table.chains.values()].some(({ rules }) =>
    rules.some(({ sets }) => sets.includes(handle)),
  );
  if (used) throw new Refusal('EBUSY', `set ${name}: Device or resource busy`);
  table.sets.delete(name);
}

export function addElement(table: FakeTable, set: FakeSet, element: NewElement): void {
  const { first, last, verdict } = element;
  if ((set.keyLength === 2) !== (verdict !== undefined)) throw new Refusal('EINVAL', 'Invalid argument');
  const clash = set.interval
    ? [...set.elements].some(([from, there]) => from <= last && first <= there.last)
    : set.elements.has(first);
  if (clash) throw new Refusal('EEXIST', `element ${first}: File exists`);
  set.elements.set(first, { last, verdict: verdict === undefined ? null : toHandle(table, verdict) });
}

export interface NewElement {
  readonly first: string;
  readonly last: string;
  readonly verdict?: Verdict | undefined;
}

function toHandle(table: FakeTable, verdict: Verdict): NonNullable<FakeElement['verdict']> {
  if (!('chain' in verdict)) throw new Refusal('EINVAL', `not a verdict of nodewall's: ${verdict.kind}`);
  return { kind: verdict.kind, chain: targetOf(table, verdict.chain) };
}

/** A range goes as it came. */
export function deleteElement(set: FakeSet, first: string, last: string): void {
  if (set.elements.get(first)?.last !== last) {
    throw new Refusal('ENOENT', `element ${first}: No such file or directory`);
  }
  set.elements.delete(first);
}

export function chainOf({ chains }: FakeTable, name: string): FakeChain {
  const chain = chains.get(name);
  if (chain === undefined) throw new Refusal('ENOENT', `chain ${name}: No such file or directory`);
  return chain;
}

export function setOf({ sets }: FakeTable, name: string): FakeSet {
  const set = sets.get(name);
  if (set === undefined) throw new Refusal('ENOENT', `set ${name}: No such file or directory`);
  return set;
}

function targetOf(table: FakeTable, name: string): number {
  const { handle, base } = chainOf(table, name);
  if (base !== null) throw new Refusal('EOPNOTSUPP', `${name} is a base chain`);
  return handle;
}

/** What the kernel examines at the end of a transaction: no chain is called more than 16 deep from a hook. */
export function validate(table: FakeTable): void {
  const byHandle = new Map([...table.chains.values()].map((chain) => [chain.handle, chain]));
  const sets = new Map([...table.sets.values()].map((set) => [set.handle, set]));
  const calls = ({ rules }: FakeChain): number[] =>
    rules.flatMap(({ parts, sets: named }) => [
      ...parts.filter((part) => typeof part === 'number'),
      ...named.flatMap((handle) =>
        [...(sets.get(handle)?.elements.values() ?? [])].flatMap(({ verdict }) => verdict?.chain ?? []),
      ),
    ]);
  const deepest = new Map<number, number>();
  const visit = (chain: FakeChain, depth: number): void => {
    if (depth > MAX_DEPTH) throw new Refusal('EMLINK', `chain ${chain.name}: Too many links`);
    if ((deepest.get(chain.handle) ?? 0) >= depth) return;
    deepest.set(chain.handle, depth);
    for (const handle of new Set(calls(chain))) {
      const called = byHandle.get(handle);
      if (called !== undefined) visit(called, depth + 1);
    }
  };
  for (const chain of table.chains.values()) if (chain.base !== null) visit(chain, 1);
}

/** The rule as text, with the names that its chains have now. */
export function ruleText({ chains }: FakeTable, { parts }: FakeRule): string {
  const names = new Map([...chains.values()].map(({ handle, name }) => [handle, name]));
  return parts.map((part) => (typeof part === 'string' ? part : (names.get(part) ?? '?'))).join('');
}
