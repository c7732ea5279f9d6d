import { isDeepStrictEqual } from 'node:util';
import { type BaseChainProperties, NftError } from 'nftables-napi';
import { ruleText } from '../../agent/render/nft-text.ts';
import { type NftRule, targets, withTargets } from '../../agent/render/ruleset.ts';
import type { ChainVerdict, MapKey } from '../../agent/render/verdict-map.ts';

/**
 * The table as the fake holds it. What refers to something refers to its handle, as in the kernel:
 * a renamed chain keeps those that jump to it. Every change throws a FakeRefusal where nf_tables
 * refuses it, and where nodewall has no reason to ask for it (adding what is there).
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
  base: BaseChainProperties | null;
  readonly rules: FakeRule[];
}

interface FakeRule {
  readonly handle: number;
  readonly rule: NftRule;
  /** As it was added, without its comment. */
  readonly text: string;
  /** Handles of the chains it leads to by itself, and of the sets and maps it looks up. */
  readonly chains: readonly number[];
  readonly sets: readonly number[];
}

interface SetDeclaration {
  readonly name: string;
  /** Bytes. */
  readonly keyLength: number;
  readonly interval: boolean;
  /** To verdicts. */
  readonly isMap: boolean;
  readonly comment: string | null;
  readonly timed?: boolean;
  /** What the keys of a map of ours are; the kernel knows only their length. */
  readonly key?: MapKey;
}

export interface FakeSet extends SetDeclaration {
  readonly handle: number;
  /** By first key, hex. A key of a hash set is its own last. */
  readonly elements: Map<string, FakeElement>;
  /** An element `*`: only strangers add it. */
  catchAll: boolean;
}

interface FakeElement {
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
export function addChain(table: FakeTable, name: string, base: BaseChainProperties | null): void {
  const there = table.chains.get(name);
  if (there?.base && base && isDeepStrictEqual({ ...there.base, policy: base.policy }, base)) {
    there.base = base;
    return;
  }
  if (there?.base && base) throw new FakeRefusal('EOPNOTSUPP', `chain ${name}: Operation not supported`);
  if (there !== undefined) throw new FakeRefusal('EEXIST', `chain ${name}: File exists`);
  table.chains.set(name, { handle: table.nextHandle++, name, base, rules: [] });
}

/** By its handle, whatever its name is by now. */
export function renameChain(table: FakeTable, handle: number, to: string): void {
  const chain = [...table.chains.values()].find((one) => one.handle === handle);
  if (chain === undefined) throw new FakeRefusal('ENOENT', `chain ${handle}: No such file or directory`);
  if (table.chains.has(to)) throw new FakeRefusal('EEXIST', `chain ${to}: File exists`);
  table.chains.delete(chain.name);
  chain.name = to;
  table.chains.set(to, chain);
}

export function flushChain(table: FakeTable, name: string): void {
  chainOf(table, name).rules.length = 0;
}

/** Its own rules go with it. */
export function deleteChain(table: FakeTable, name: string): void {
  const { handle } = chainOf(table, name);
  const jumped = [...table.chains.values()].some(
    (chain) => chain.name !== name && chain.rules.some(({ chains }) => chains.includes(handle)),
  );
  const mapped = [...table.sets.values()].some(({ elements }) =>
    [...elements.values()].some(({ verdict }) => verdict?.chain === handle),
  );
  if (jumped || mapped) throw new FakeRefusal('EBUSY', `chain ${name}: Device or resource busy`);
  table.chains.delete(name);
}

export function addRule(table: FakeTable, chain: string, rule: NftRule): void {
  const { rules } = chainOf(table, chain);
  const text = ruleText({ ...rule, comment: null });
  // `@ll,96,16` is a part of the Ethernet header.
  const sets = [...text.matchAll(/@(?!ll,)([A-Za-z][\w./-]*)/g)].map(
    ([, name = '']) => setOf(table, name).handle,
  );
  const chains = targets(rule.statement).map((name) => targetOf(table, name));
  rules.push({ handle: table.nextHandle++, rule, text, chains, sets });
}

export function addSet(table: FakeTable, declared: SetDeclaration): FakeSet {
  if (table.sets.has(declared.name)) throw new FakeRefusal('EEXIST', `set ${declared.name}: File exists`);
  const set: FakeSet = { ...declared, handle: table.nextHandle++, elements: new Map(), catchAll: false };
  table.sets.set(declared.name, set);
  return set;
}

export function deleteSet(table: FakeTable, name: string): void {
  const { handle } = setOf(table, name);
  const used = [...table.chains.values()].some(({ rules }) =>
    rules.some(({ sets }) => sets.includes(handle)),
  );
  if (used) throw new FakeRefusal('EBUSY', `set ${name}: Device or resource busy`);
  table.sets.delete(name);
}

export function addElement(
  table: FakeTable,
  set: FakeSet,
  {
    first,
    last,
    verdict,
  }: { readonly first: string; readonly last: string; readonly verdict: ChainVerdict | null },
): void {
  if (set.isMap !== (verdict !== null)) throw new FakeRefusal('EINVAL', 'Invalid argument');
  const clash = set.interval
    ? [...set.elements].some(([from, there]) => from <= last && first <= there.last)
    : set.elements.has(first);
  if (clash) throw new FakeRefusal('EEXIST', `element ${first}: File exists`);
  const target = verdict && { kind: verdict.kind, chain: targetOf(table, verdict.chain) };
  set.elements.set(first, { last, verdict: target });
}

/** A range goes as it came. */
export function deleteElement(set: FakeSet, first: string, last: string): void {
  if (set.elements.get(first)?.last !== last) {
    throw new FakeRefusal('ENOENT', `element ${first}: No such file or directory`);
  }
  set.elements.delete(first);
}

function chainOf({ chains }: FakeTable, name: string): FakeChain {
  const chain = chains.get(name);
  if (chain === undefined) throw new FakeRefusal('ENOENT', `chain ${name}: No such file or directory`);
  return chain;
}

export function setOf({ sets }: FakeTable, name: string): FakeSet {
  const set = sets.get(name);
  if (set === undefined) throw new FakeRefusal('ENOENT', `set ${name}: No such file or directory`);
  return set;
}

function targetOf(table: FakeTable, name: string): number {
  const { handle, base } = chainOf(table, name);
  if (base !== null) throw new FakeRefusal('EOPNOTSUPP', `${name} is a base chain`);
  return handle;
}

/**
 * What the kernel examines at the end of a transaction: no chain is called more than 16 deep from a
 * hook.
 */
export function validate(table: FakeTable): void {
  const byHandle = new Map([...table.chains.values()].map((chain) => [chain.handle, chain]));
  const sets = new Map([...table.sets.values()].map((set) => [set.handle, set]));
  const calls = ({ rules }: FakeChain): number[] =>
    rules.flatMap(({ chains, sets: named }) => [
      ...chains,
      ...named.flatMap((handle) =>
        [...(sets.get(handle)?.elements.values() ?? [])].flatMap(({ verdict }) => verdict?.chain ?? []),
      ),
    ]);
  const deepest = new Map<number, number>();
  const visit = (chain: FakeChain, depth: number): void => {
    if (depth > MAX_DEPTH) throw new FakeRefusal('EMLINK', `chain ${chain.name}: Too many links`);
    if ((deepest.get(chain.handle) ?? 0) >= depth) return;
    deepest.set(chain.handle, depth);
    for (const handle of new Set(calls(chain))) {
      const called = byHandle.get(handle);
      if (called !== undefined) visit(called, depth + 1);
    }
  };
  for (const chain of table.chains.values()) if (chain.base !== null) visit(chain, 1);
}

/** Names of chains, by handle. */
export function chainNames({ chains }: FakeTable): Map<number, string> {
  return new Map([...chains.values()].map(({ handle, name }) => [handle, name]));
}

/** The rule with the names that its chains have now. */
export function currentRule({ rule, chains }: FakeRule, names: ReadonlyMap<number, string>): NftRule {
  const before = targets(rule.statement);
  if (before.length === 0) return rule;
  const now = (name: string): string => names.get(chains[before.indexOf(name)] ?? 0) ?? '?';
  return { ...rule, statement: withTargets(rule.statement, now) };
}

/** A command that the fake refuses; fake-kernel.ts says which one it was. */
export class FakeRefusal extends Error {
  override readonly name = 'FakeRefusal';
  readonly code: string;

  constructor(code: string, message: string) {
    super(message);
    this.code = code;
  }
}

/** Which command of a transaction was refused; absent: the kernel didn't say. */
interface Place {
  readonly operation?: number;
}

/** The error of the real binding. */
export function toNftError(code: string, message: string, { operation }: Place = {}): NftError {
  return new NftError([{ code, message, operation: operation ?? null }]);
}
