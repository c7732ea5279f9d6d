import { setImmediate } from 'node:timers/promises';
import { type Generation, NftError } from 'nftables-napi';
import type { RuleSource } from '../../apis/compiled.ts';
import type { Chain, Ruleset } from '../render/ruleset.ts';
import { type Applied, type Reconciler, Refusal } from './dataplane.ts';
import { inOrder, toBatches, toParts } from './netlink/batches.ts';
import { Commits } from './netlink/commits.ts';
import { type ChainReading, type Committed, type Kernel, MAX_CHAINS_READ } from './netlink/kernel.ts';
import { makeProbes, probes, recognise, removeProbes } from './netlink/probe.ts';
import { digestOf, type Reading, readHeld } from './netlink/reading.ts';
import type { Command } from './plan/command.ts';
import { compare } from './plan/compare.ts';
import { difference } from './plan/difference.ts';
import { type Held, heldAfter, holdsChain } from './plan/held.ts';
import { nftChange } from './plan/nft-change.ts';
import { withRetired } from './plan/retired.ts';
import {
  changesStructure,
  detour,
  isReplacement,
  type Transaction,
  transaction,
} from './plan/transaction.ts';

/** The kernel refused a part of a transaction; what was in force still is. */
export class ApplyError extends Refusal {
  override readonly name = 'ApplyError';
  readonly stage: keyof Transaction;

  constructor(stage: keyof Transaction, refused: Command | null, cause: unknown) {
    const source = refused === null ? null : sourceOf(refused);
    const where = source === null ? '' : `rule ${source.policy}/${source.rule}: `;
    super(
      `${where}the kernel refused it (${stage}): ${cause instanceof Error ? cause.message : String(cause)}`,
      { source, lacksLog: lacksLog(refused, cause), cause },
    );
    this.stage = stage;
  }
}

/**
 * ENOENT would be said of a chain that isn't there, too: then the table was changed, and the second
 * look at it makes the chain.
 */
function lacksLog(refused: Command | null, cause: unknown): boolean {
  return (
    cause instanceof NftError &&
    cause.code === 'ENOENT' &&
    refused?.kind === 'addRule' &&
    refused.rule.statement.kind === 'log'
  );
}

function sourceOf(command: Command): RuleSource | null {
  if (command.kind === 'addChain') return command.chain.source;
  return command.kind === 'addRule' ? command.source : null;
}

interface NftApplied extends Applied {
  /** What `change` says. */
  readonly transaction: Transaction;
  /** What had to come before it (see `detour`); null: nothing. */
  readonly detour: Transaction | null;
}

export interface ReconcilerOptions {
  /**
   * Digests that an earlier run took (see `digests`): a fixed chain that still has its digest is
   * what its name says, and is left alone with its counters. Of another run's rules or of a
   * stranger's doing, they just don't fit.
   */
  readonly remembered?: Readonly<Record<string, string>>;
}

const MAX_UNSEEN = 255;

/**
 * Stage 6: makes the kernel hold exactly a ruleset, and tells when it no longer does. One call at a
 * time: the caller awaits each.
 *
 * What a chain holds is told by the digests of its rules, taken from the kernel right after they
 * were applied: a chain with other digests has been changed by somebody else and is written again.
 */
export class NodeRuleReconciler implements Reconciler<Ruleset> {
  readonly #kernel: Kernel;
  /** What the kernel holds, exactly; null where that isn't known. */
  #exact: Ruleset | null = null;
  /** Else what was last found there; null: to be read before the next change. */
  #found: Reading | null = null;
  /**
   * The generation (see nft_generation) up to which that was proven; null where somebody may have
   * changed it since.
   */
  #proven: number | null = null;
  /** Of the chains of `#applied`, by name. */
  readonly #digests = new Map<string, string>();
  /** Of the chains that were seen in the kernel, by name. */
  readonly #handles = new Map<string, number>();
  #remembered: Readonly<Record<string, string>>;
  #applied: Ruleset | null = null;
  /**
   * Digests were taken after these generations and up to these, with commits of others in between:
   * one to our table makes all worthless.
   */
  readonly #doubtful: Generation[] = [];
  /** Commits of ours that no event has told of yet: each is one generation in (before, after]. */
  readonly #unseen: Readonly<Generation>[] = [];

  constructor(kernel: Kernel, { remembered = {} }: ReconcilerOptions = {}) {
    this.#kernel = kernel;
    this.#remembered = remembered;
  }

  /** What was applied last; null before the first time. */
  inForce(): Ruleset | null {
    return this.#applied;
  }

  /**
   * The fixed chains in force and their digests, for the next run (ReconcilerOptions.remembered).
   */
  digests(): Record<string, string> {
    const chains = this.#applied?.chains ?? new Map<string, Chain>();
    return Object.fromEntries([...this.#digests].filter(([name]) => chains.get(name)?.fixed));
  }

  /** The transaction that `apply` would run now; changes nothing. */
  async plan(desired: Ruleset): Promise<Transaction> {
    const held = await this.#held();
    return transaction(held, withRetired(desired, held));
  }

  async #held(): Promise<Held> {
    if (this.#exact !== null) return heldAfter(this.#exact, this.#handles);
    this.#found ??= await this.#read();
    return this.#found.held;
  }

  /**
   * Throws ApplyError where the kernel refuses it, NftError where the kernel can't be read; then it
   * enforces what it enforced before (members of sets in use may be changed already). What can't be
   * swept is no failure: all that is wanted is in force.
   */
  async apply(desired: Ruleset): Promise<NftApplied> {
    const wasRead = this.#exact === null && this.#found === null;
    const started = performance.now();
    try {
      return await this.#applyOnce(desired, started);
    } catch (error) {
      // Somebody else may have changed the table since: no policy is to blame before it has been
      // looked at.
      if (wasRead || !(error instanceof ApplyError)) throw error;
      return await this.#applyOnce(desired, started);
    }
  }

  async #applyOnce(given: Ruleset, started: number): Promise<NftApplied> {
    const commits = new Commits();
    const desired = withRetired(given, await this.#held());
    const wasProven = this.#exact === null ? (this.#found?.generation ?? null) : this.#proven;
    if (this.#exact === null) await this.#recognise(desired, commits);
    const first = await this.#takeDetour(desired, started);
    const proven = first === null ? wasProven : this.#proven;
    const held = await this.#held();
    const change = transaction(held, desired);
    // Those among them that no command is for lead to one that got another name: what they show is
    // its name.
    const rewritten = difference(held.chains, desired.chains).changed.flatMap((one) =>
      holdsChain(one.held, one.desired) ? [] : [one.desired.name],
    );
    const found = this.#exact === null ? this.#found : null;
    // Until it has gone through, nothing is known for sure.
    this.#exact = null;
    this.#found = null;
    this.#proven = null;
    if (isReplacement(change)) await this.#showCounters();
    for (const stage of ['rename', 'prepare', 'members', 'swap', 'withdraw'] as const) {
      await this.#run(stage, change[stage], commits);
    }
    const enforced = {
      change: nftChange(change),
      transaction: change,
      detour: first?.transaction ?? null,
      enforcedAfter: first?.enforcedAfter ?? performance.now() - started,
      kernelMicroseconds: first?.kernelMicroseconds ?? commits.kernelMicroseconds,
    };
    this.#applied = desired;
    if (found !== null) this.#keepDigests(found, desired);
    // Before the sweep: the same reading shows the counters of the chains that go.
    if (changesStructure(change)) await this.#takeDigests(change, rewritten, desired, commits);
    const unswept = await this.#sweep(change, commits);
    if (unswept === null) {
      const { span, isUnbroken } = commits;
      this.#exact = desired;
      if (span === null) this.#proven = proven;
      else if (isUnbroken && span.before === proven) this.#proven = span.after;
    }
    return { ...enforced, unswept };
  }

  /** Once it is there, all that is desired is in force: what follows changes names. */
  async #takeDetour(desired: Ruleset, started: number): Promise<NftApplied | null> {
    const held = this.#exact === null ? this.#found?.held : heldAfter(this.#exact, this.#handles);
    const by = held === undefined ? null : detour(held, desired);
    return by === null ? null : await this.#applyOnce(by, started);
  }

  /**
   * Chains that an earlier run left and no digest was kept of (it was killed), or all of them after
   * events were lost: they are compared with copies of what they should be, so that only what
   * somebody changed is written again, and the others keep their counters.
   */
  async #recognise(desired: Ruleset, commits: Commits): Promise<void> {
    const found = this.#found;
    const list = found === null ? [] : probes(found, desired);
    if (found === null || list.length === 0) return;
    // One transaction: all of them are there, or none. Something is refused, or the table was
    // changed: what follows finds out.
    if ((await this.#commit('prepare', makeProbes(list), commits)) !== null) return;
    this.#found = null;
    const reading = await this.#chains(list.map(({ name }) => name)).catch(() => null);
    await this.#run('prepare', removeProbes(list), commits);
    this.#found = reading === null ? found : recognise(found, list, reading.chains);
  }

  /** What was vouched for when it was read, and is left as it is. */
  #keepDigests({ held, digests }: Reading, { chains }: Ruleset): void {
    this.#digests.clear();
    this.#handles.clear();
    for (const name of chains.keys()) {
      const digest = digests.get(name);
      const handle = held.handles.get(name);
      if (handle !== undefined) this.#handles.set(name, handle);
      if (digest !== undefined && held.chains.get(name)?.rules) this.#digests.set(name, digest);
    }
  }

  /** Null: no table. */
  #chains(names: readonly string[]): Promise<Pick<ChainReading, 'generation' | 'chains'> | null> {
    return names.length > MAX_CHAINS_READ ? this.#kernel.snapshot() : this.#kernel.chains(names);
  }

  /**
   * Whoever counts along (agent/record/counters.ts) sees what is replaced for the last time. A
   * count that is lost is no reason to enforce the old rules.
   */
  async #showCounters(): Promise<void> {
    await this.#kernel.snapshot().catch(() => null);
  }

  async #sweep({ sweep }: Transaction, commits: Commits): Promise<ApplyError | null> {
    try {
      await this.#run('sweep', sweep, commits);
      return null;
    } catch (error) {
      if (!(error instanceof ApplyError)) throw error;
      return error;
    }
  }

  /**
   * Whether packets meet rules of ours: a table that a first apply made and could not finish has
   * none.
   */
  async holdsRules(): Promise<boolean> {
    const table = await this.#kernel.snapshot();
    return table?.chains.some(({ base, rules }) => base !== null && rules.length > 0) ?? false;
  }

  /** Forgets what was vouched for: events were lost, so anything may have been changed. */
  distrust(): void {
    this.#digests.clear();
    this.#remembered = {};
    this.#exact = null;
    this.#found = null;
    this.#proven = null;
  }

  /**
   * Compares the kernel with what was last applied. Returns what differs, in words, and is ready
   * for `apply` to repair it; empty: nothing does. Where nobody committed anything since that was
   * last known, nothing is read.
   */
  async verify(): Promise<string[]> {
    if (this.#applied === null) return [];
    if (this.#exact === this.#applied && this.#proven !== null) {
      if ((await this.#kernel.generation()) === this.#proven) return [];
    }
    // Should the reading fail, the next apply starts with one.
    this.#exact = null;
    this.#proven = null;
    this.#found = await this.#read();
    const differences = compare(this.#applied, this.#found.held);
    if (differences.length === 0) {
      this.#exact = this.#applied;
      this.#proven = this.#found.generation;
    }
    return differences;
  }

  /**
   * Whether an event of this generation, which touched our table, is of a commit of ours. Where
   * somebody else committed between the numbers read before and after ours, the first event in that
   * range is taken for it: if it was the other's, ours is looked at as foreign, and the comparison
   * that follows finds what there is to find. A foreign change between a commit of ours and the
   * digests taken after it makes them worthless.
   */
  isOwn(generation: number): boolean {
    const at = this.#unseen.findIndex((commit) => isIn(generation, commit));
    if (at >= 0) this.#unseen.splice(at, 1);
    else if (this.#doubtful.some((reading) => isIn(generation, reading))) this.#digests.clear();
    return at >= 0;
  }

  async #run(stage: keyof Transaction, commands: readonly Command[], commits: Commits): Promise<void> {
    // What changes verdicts is one transaction, however large.
    const parts = BATCHES[stage](commands);
    const sent: Promise<ApplyError | null>[] = [];
    for (const part of parts) {
      sent.push(this.#commit(stage, part, commits));
      // The kernel begins with it, in a thread of its own; one more is put into messages meanwhile,
      // not all of them.
      if (parts.length > 1) await (sent.at(-2) ?? setImmediate());
    }
    const refused = (await Promise.all(sent)).find((error) => error !== null);
    if (refused !== undefined) throw refused;
  }

  /**
   * Parts are committed in the order they were sent; those behind one that was refused are wasted.
   */
  async #commit(
    stage: keyof Transaction,
    commands: readonly Command[],
    commits: Commits,
  ): Promise<ApplyError | null> {
    try {
      const committed = await this.#kernel.transact(commands);
      commits.add(committed);
      this.#remember(committed);
      return null;
    } catch (error) {
      const index = error instanceof NftError ? error.operation : null;
      return new ApplyError(stage, index === null ? null : (commands[index] ?? null), error);
    }
  }

  #remember({ generation }: Committed): void {
    // Without a monitor (`agent --once`) nothing is ever seen.
    this.#unseen.push(generation);
    if (this.#unseen.length > MAX_UNSEEN) this.#unseen.shift();
  }

  /** Of the chains that were touched; those that go are read along, for whoever counts. */
  async #takeDigests(
    change: Transaction,
    rewritten: readonly string[],
    desired: Ruleset,
    { span, isUnbroken }: Commits,
  ): Promise<void> {
    const touched = new Set([...rewritten, ...[...change.prepare, ...change.swap].flatMap(chainOf)]);
    const going = change.sweep.flatMap((one) => (one.kind === 'deleteChain' ? one.name : []));
    if (isReplacement(change)) for (const known of [this.#digests, this.#handles]) known.clear();
    for (const known of [this.#digests, this.#handles])
      for (const name of [...going, ...touched]) known.delete(name);
    const names = [...touched, ...going];
    try {
      const reading = await this.#chains(names);
      if (reading === null) return;
      for (const { name, handle, rules } of reading.chains) {
        if (!touched.has(name) || !desired.chains.has(name)) continue;
        this.#digests.set(name, digestOf(rules));
        this.#handles.set(name, handle);
      }
      if (span === null || (isUnbroken && span.after === reading.generation)) return;
      this.#doubtful.push({ before: span.before, after: reading.generation });
      if (this.#doubtful.length > MAX_UNSEEN) this.#doubtful.shift();
    } catch {
      // The rules are in force all the same; without digests the next comparison writes these
      // chains again.
    }
  }

  #read(): Promise<Reading> {
    const applied = this.#applied;
    return readHeld(this.#kernel, (name, digest) => {
      if (applied === null) return this.#remembered[name] === digest ? rememberedChain(name) : null;
      return this.#digests.get(name) === digest ? (applied.chains.get(name) ?? null) : null;
    });
  }
}

/** What changes verdicts is one transaction, however large. */
const whole = (commands: readonly Command[]): (readonly Command[])[] =>
  commands.length > 0 ? [commands] : [];

/** Each stage as kernel transactions. */
const BATCHES: Readonly<Record<keyof Transaction, (commands: readonly Command[]) => (readonly Command[])[]>> =
  {
    rename: whole,
    prepare: (commands) => toBatches(commands).flatMap(toParts),
    members: toBatches,
    swap: whole,
    withdraw: inOrder,
    sweep: toBatches,
  };

function isIn(generation: number, { before, after }: Readonly<Generation>): boolean {
  return before < generation && generation <= after;
}

function chainOf(command: Command): string[] {
  if (command.kind === 'addChain') return [command.chain.name];
  if (command.kind === 'addRule') return [command.chain];
  if (command.kind === 'renameChain') return [command.name, command.to];
  return command.kind === 'flushChain' ? [command.name] : [];
}

/** A fixed chain of an earlier run is known by its name; what it was made of need not be. */
function rememberedChain(name: string): Chain {
  return { name, base: null, fixed: true, rules: [], source: null, ruleId: null };
}
