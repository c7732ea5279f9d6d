import type { Generation } from 'nftables-napi';
import { shortHash } from '../../../lib/sharing/hash.ts';
import { type Chain, fixedChain, type Ruleset } from '../../render/ruleset.ts';
import type { Command } from '../plan/command.ts';
import { isReplacement, type Transaction } from '../plan/transaction.ts';
import { encode } from './encode.ts';
import type { ChainReading, Commits } from './kernel.ts';
import { chainDigest, type TableReading } from './reading.ts';

/** The most ranges of generations in which digests may be wrong that are remembered. */
const MOST_DOUBTFUL = 255;

/** The names of the chains of one transaction whose digests change. */
interface ChangedChains {
  /** Written: they get new digests. */
  readonly touched: ReadonlySet<string>;
  /** To be deleted; they are read with the others, to show their last counters. */
  readonly deleted: readonly string[];
  /** The table is replaced: no other chain stays. */
  readonly isReplacement: boolean;
}

/**
 * Digests and handles of the chains in the kernel that hold what was applied last. A chain with
 * another digest was changed by a third party.
 */
export class ChainDigests {
  readonly #digests = new Map<string, string>();
  readonly #handles = new Map<string, number>();
  #remembered: Readonly<Record<string, string>>;
  /**
   * Ranges (before, after] of generations in which digests were taken while third parties committed
   * too. If one of those commits changed our table, all digests are invalid.
   */
  readonly #doubtful: Generation[] = [];
  /** Chains whose digests were taken so. Only this run hears of such a commit: none is saved. */
  readonly #uncertain = new Set<string>();
  /** By chain, because most chains stay from one change to the next. */
  readonly #identities = new WeakMap<Chain, string>();

  /** @param remembered the result of `forNextRun` of an earlier run */
  constructor(remembered: Readonly<Record<string, string>>) {
    this.#remembered = remembered;
  }

  get handles(): ReadonlyMap<string, number> {
    return this.#handles;
  }

  /** The certain digests of these chains for the next run, by what identifies a chain's rules. */
  forNextRun(chains: ReadonlyMap<string, Chain>): Record<string, string> {
    const found: Record<string, string> = {};
    for (const [name, digest] of this.#digests) {
      const chain = chains.get(name);
      if (chain !== undefined && !this.#uncertain.has(name)) found[this.#identity(chain)] = digest;
    }
    return found;
  }

  /**
   * The reading, with the chains that an earlier run has written as they are desired. Fixed chains
   * are in it already (see `vouched`).
   */
  recall(reading: TableReading, desired: Ruleset): TableReading {
    const chains = new Map(reading.current.chains);
    for (const [name, { base, rules }] of reading.current.chains) {
      const chain = desired.chains.get(name);
      if (rules !== null || chain === undefined || chain.fixed) continue;
      if (this.#remembered[this.#identity(chain)] === reading.digests.get(name))
        chains.set(name, { ...chain, base });
    }
    return { ...reading, current: { ...reading.current, chains } };
  }

  /**
   * Says the chain's rules as the kernel gets them. The name of a fixed chain does so by itself. A
   * name has no space.
   */
  #identity(chain: Chain): string {
    if (chain.fixed) return chain.name;
    const known =
      this.#identities.get(chain) ?? `${chain.name} ${shortHash(IDENTITY_DIGITS, written(chain))}`;
    this.#identities.set(chain, known);
    return known;
  }

  /** The chain that the kernel holds by this name and digest; null: its rules are unknown. */
  vouched(name: string, digest: string, applied: Ruleset | null): Chain | null {
    // A fixed chain of an earlier run is identified by its name; its rules aren't needed.
    if (applied === null) return this.#remembered[name] === digest ? fixedChain(name, []) : null;
    return this.#digests.get(name) === digest ? (applied.chains.get(name) ?? null) : null;
  }

  /** Replaces all by those of the reading; digests only of chains whose rules are known. */
  keep({ current, digests }: TableReading, { chains }: Ruleset): void {
    this.#digests.clear();
    this.#handles.clear();
    for (const name of chains.keys()) {
      const digest = digests.get(name);
      const handle = current.handles.get(name);
      if (handle !== undefined) this.#handles.set(name, handle);
      if (digest !== undefined && current.chains.get(name)?.rules) this.#digests.set(name, digest);
    }
  }

  /** Chains that were changed, and have not been read since. */
  forget({ touched, deleted, isReplacement }: ChangedChains): void {
    for (const known of [this.#digests, this.#handles, this.#uncertain]) {
      if (isReplacement) known.clear();
      for (const name of [...deleted, ...touched]) known.delete(name);
    }
  }

  /** Takes the digests of chains that were touched and are desired, read after the commits. */
  store(
    { generation, chains }: ChainReading,
    { touched }: ChangedChains,
    desired: Ruleset,
    { span, isUnbroken }: Commits,
  ): void {
    const isCertain = span === null || (isUnbroken && span.after === generation);
    for (const { name, handle, rules } of chains) {
      if (!touched.has(name) || !desired.chains.has(name)) continue;
      this.#digests.set(name, chainDigest(rules));
      this.#handles.set(name, handle);
      if (!isCertain) this.#uncertain.add(name);
    }
    if (isCertain) return;
    this.#doubtful.push({ before: span.before, after: generation });
    if (this.#doubtful.length > MOST_DOUBTFUL) this.#doubtful.shift();
  }

  /** A third party changed the table in this generation. */
  foreignCommit(generation: number): void {
    if (this.#doubtful.some((range) => isIn(generation, range))) this.#digests.clear();
  }

  /** The rules of no chain are known any more. */
  invalidate(): void {
    this.#digests.clear();
    this.#remembered = {};
  }
}

const IDENTITY_DIGITS = 32;

/** Null: a rule can't be encoded, so no kernel has it. */
function written({ name, rules, source }: Chain): string | null {
  try {
    const commands = rules.map((rule): Command => ({ kind: 'addRule', chain: name, rule, source }));
    return JSON.stringify(encode(commands).operations, (_, value: unknown) =>
      typeof value === 'bigint' ? `${value}n` : value,
    );
  } catch {
    return null;
  }
}

/** @param rewritten chains without a command of their own whose digests change all the same */
export function changedChains(change: Transaction, rewritten: readonly string[]): ChangedChains {
  return {
    touched: new Set([...rewritten, ...[...change.prepare, ...change.swap].flatMap(chainsOf)]),
    deleted: change.collect.flatMap((one) => (one.kind === 'deleteChain' ? one.name : [])),
    isReplacement: isReplacement(change),
  };
}

/** Whether a generation is in (before, after]. */
export function isIn(generation: number, { before, after }: Readonly<Generation>): boolean {
  return before < generation && generation <= after;
}

function chainsOf(command: Command): string[] {
  if (command.kind === 'addChain') return [command.chain.name];
  if (command.kind === 'addRule') return [command.chain];
  if (command.kind === 'renameChain') return [command.name, command.to];
  return command.kind === 'flushChain' ? [command.name] : [];
}
