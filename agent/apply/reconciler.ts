import { setImmediate } from 'node:timers/promises';
import { type Generation, NftError } from 'nftables-napi';
import type { RuleSource } from '../../apis/compiled.ts';
import { errorMessage } from '../../lib/sharing/error.ts';
import type { Ruleset } from '../render/ruleset.ts';
import { BASE_CHAINS } from '../render/topology.ts';
import { ChainDigests, changedChains, isIn } from './netlink/chain-digests.ts';
import {
  type ChainReading,
  Commits,
  type Committed,
  type Kernel,
  MAX_CHAINS_READ,
} from './netlink/kernel.ts';
import {
  addShadowCopies,
  readCurrentState,
  recognize,
  removeShadowCopies,
  shadowCopies,
  type TableReading,
} from './netlink/reading.ts';
import { BATCHES, type Command } from './plan/command.ts';
import { type CurrentState, holdsChain, stateAfter, withUnusedBaseChains } from './plan/current-state.ts';
import { mapDifference, rulesetDifferences } from './plan/difference.ts';
import {
  changesStructure,
  interimRuleset,
  isReplacement,
  nftChange,
  type Transaction,
  transaction,
} from './plan/transaction.ts';
import { type Applied, type Reconciler, RefusedError } from './reconciler-interface.ts';

interface NftApplied extends Applied {
  /** The transaction behind `change`. */
  readonly transaction: Transaction;
  /**
   * The transaction of the interim ruleset that was applied first (see `interimRuleset`); null if
   * none was needed.
   */
  readonly interimRuleset: Transaction | null;
}

interface ReconcilerOptions {
  /**
   * Chain digests that an earlier run took (see `digests`). A chain that still has its digest holds
   * the rules that the earlier run wrote; if these are desired, it is left alone and keeps its
   * counters. Digests of other rules, or of chains that a third party changed, don't match and have
   * no effect.
   */
  readonly remembered?: Readonly<Record<string, string>>;
}

const MAX_UNSEEN = 255;

/**
 * Stage 6: makes the kernel hold exactly one ruleset, and reports when it no longer does. One call
 * at a time: the caller awaits each.
 *
 * The rules of a chain are identified by their digests, read from the kernel right after they were
 * applied. A chain with another digest was changed by a third party and is written again.
 */
export class NodeRuleReconciler implements Reconciler<Ruleset> {
  readonly #kernel: Kernel;
  /** The exact state of the kernel; null if unknown. */
  #exact: Ruleset | null = null;
  /**
   * The last reading, for when `#exact` is null; null: the kernel must be read before the next
   * change.
   */
  #found: TableReading | null = null;
  /**
   * The generation (see nft_generation) up to which that state is proven; null if a third party may
   * have changed it since.
   */
  #proven: number | null = null;
  readonly #digests: ChainDigests;
  #applied: Ruleset | null = null;
  /** Commits of ours whose event has not arrived yet: each is one generation in (before, after]. */
  readonly #unseen: Readonly<Generation>[] = [];

  constructor(kernel: Kernel, { remembered = {} }: ReconcilerOptions = {}) {
    this.#kernel = kernel;
    this.#digests = new ChainDigests(remembered);
  }

  /** The ruleset applied last; null before the first apply. */
  inForce(): Ruleset | null {
    return this.#applied;
  }

  /** The digests of the chains in force, for the next run (ReconcilerOptions.remembered). */
  digests(): Record<string, string> {
    return this.#digests.forNextRun(this.#applied?.chains ?? new Map());
  }

  /** The transaction that `apply` would run now; changes nothing. */
  async plan(desired: Ruleset): Promise<Transaction> {
    const current = await this.#current();
    return transaction(current, withUnusedBaseChains(desired, current));
  }

  async #current(): Promise<CurrentState> {
    if (this.#exact !== null) return stateAfter(this.#exact, this.#digests.handles);
    this.#found ??= await this.#read();
    return this.#found.current;
  }

  /**
   * Throws ApplyError if the kernel refuses the change, NftError if the kernel can't be read. Then
   * the rules enforced before stay in force (members of sets in use may have changed already). A
   * failed garbage collection is not an error but is returned as `leftBehind`: the desired ruleset
   * is in force.
   */
  async apply(desired: Ruleset): Promise<NftApplied> {
    const wasRead = this.#exact === null && this.#found === null;
    const started = performance.now();
    try {
      return await this.#applyOnce(desired, started);
    } catch (error) {
      // A third party may have changed the table since it was read: it is read again before a
      // policy is blamed.
      if (wasRead || !(error instanceof ApplyError)) throw error;
      return await this.#applyOnce(desired, started);
    }
  }

  async #applyOnce(given: Ruleset, started: number): Promise<NftApplied> {
    const commits = new Commits();
    const desired = withUnusedBaseChains(given, await this.#current());
    const wasProven = this.#exact === null ? (this.#found?.generation ?? null) : this.#proven;
    if (this.#exact === null) await this.#recognize(desired, commits);
    const first = await this.#applyInterim(desired, started);
    const proven = first === null ? wasProven : this.#proven;
    const current = await this.#current();
    const change = transaction(current, desired);
    // A changed chain that has no command of its own leads to a chain that was renamed: its digest
    // changes with the target's name.
    const rewritten = mapDifference(current.chains, desired.chains).changed.flatMap((one) =>
      holdsChain(one.current, one.desired) ? [] : [one.desired.name],
    );
    const found = this.#exact === null ? this.#found : null;
    // The kernel's state is unknown until the transaction has gone through.
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
      interimRuleset: first?.transaction ?? null,
      enforcedAfter: first?.enforcedAfter ?? performance.now() - started,
      kernelMicroseconds: first?.kernelMicroseconds ?? commits.kernelMicroseconds,
    };
    this.#applied = desired;
    if (found !== null) this.#digests.keep(found, desired);
    // Before the garbage collection: the same reading shows the last counters of the chains to be
    // deleted.
    if (changesStructure(change)) await this.#readDigests(change, rewritten, desired, commits);
    const leftBehind = await this.#collect(change, commits);
    if (leftBehind === null) {
      const { span, isUnbroken } = commits;
      this.#exact = desired;
      if (span === null) this.#proven = proven;
      else if (isUnbroken && span.before === proven) this.#proven = span.after;
    }
    return { ...enforced, leftBehind };
  }

  /**
   * Applies the interim ruleset if one is needed, else returns null. Once it is applied, everything
   * desired is in force; the transaction that follows only changes names.
   */
  async #applyInterim(desired: Ruleset, started: number): Promise<NftApplied | null> {
    const current =
      this.#exact === null ? this.#found?.current : stateAfter(this.#exact, this.#digests.handles);
    const by = current === undefined ? null : interimRuleset(current, desired);
    return by === null ? null : await this.#applyOnce(by, started);
  }

  /**
   * Compares chains whose rules are unknown with shadow copies of the desired ones: chains of an
   * earlier run that saved no digest (it was killed), or all chains after an overrun. Only chains
   * that a third party changed are then written again; the others keep their counters. No copy is
   * made of a chain with a digest: for each jump of a copy, Linux 5.10 walks along every path of
   * the table.
   */
  async #recognize(desired: Ruleset, commits: Commits): Promise<void> {
    if (this.#found !== null) this.#found = this.#digests.recall(this.#found, desired);
    const found = this.#found;
    const list = found === null ? [] : shadowCopies(found, desired);
    if (found === null || list.length === 0) return;
    // One transaction: all copies exist, or none. If it fails, a rule was refused or a third party
    // changed the table; the apply that follows finds out.
    if ((await this.#commit('prepare', addShadowCopies(list), commits)) !== null) return;
    this.#found = null;
    const reading = await this.#chains(list.map(({ name }) => name)).catch(() => null);
    await this.#run('prepare', removeShadowCopies(list), commits);
    this.#found = reading === null ? found : recognize(found, list, reading.chains);
  }

  /** The named chains, or all if these are many; null if there is no table. */
  #chains(names: readonly string[]): Promise<Pick<ChainReading, 'generation' | 'chains'> | null> {
    return names.length > MAX_CHAINS_READ ? this.#kernel.snapshot() : this.#kernel.chains(names);
  }

  /**
   * Reads the table, so that the accounting of counters (agent/record/counters.ts) sees those that
   * the replacement discards. A lost count is no reason to keep enforcing the old rules, so errors
   * are ignored.
   */
  async #showCounters(): Promise<void> {
    await this.#kernel.snapshot().catch(() => null);
  }

  async #collect({ collect }: Transaction, commits: Commits): Promise<ApplyError | null> {
    try {
      await this.#run('collect', collect, commits);
      return null;
    } catch (error) {
      if (!(error instanceof ApplyError)) throw error;
      return error;
    }
  }

  /**
   * Whether packets traverse rules of ours: these two chains have some in every ruleset. In a table
   * left by a first apply that failed halfway they have none.
   */
  async holdsRules(): Promise<boolean> {
    const { chains } = await this.#kernel.chains([BASE_CHAINS.ingress.chain, BASE_CHAINS.egress.chain]);
    return chains.some(({ base, rules }) => base !== null && rules.length > 0);
  }

  /**
   * Discards all knowledge of the kernel's state: events were lost, so a third party may have
   * changed anything.
   */
  invalidate(): void {
    this.#digests.invalidate();
    this.#exact = null;
    this.#found = null;
    this.#proven = null;
  }

  /**
   * Compares the kernel with the ruleset applied last. Returns the differences as human-readable
   * lines, empty if there are none; the next `apply` repairs them. Reads nothing if nobody
   * committed since the state was last proven. Throws NftError if the kernel can't be read.
   */
  async verify(): Promise<string[]> {
    if (this.#applied === null) return [];
    if (this.#exact === this.#applied && this.#proven !== null) {
      if ((await this.#kernel.generation()) === this.#proven) return [];
    }
    // If the reading fails, the next apply starts with one.
    this.#exact = null;
    this.#proven = null;
    this.#found = await this.#read();
    const differences = rulesetDifferences(this.#applied, this.#found.current);
    if (differences.length === 0) {
      this.#exact = this.#applied;
      this.#proven = this.#found.generation;
    }
    return differences;
  }

  /**
   * Whether an event of this generation, for our table, belongs to a commit of ours. If a third
   * party committed between the generations read before and after ours, the first event in that
   * range counts as ours. If it was the third party's, our own event is treated as foreign, and the
   * comparison that follows finds any difference. A foreign change between a commit of ours and the
   * digests taken after it invalidates all digests.
   */
  isOwn(generation: number): boolean {
    const at = this.#unseen.findIndex((commit) => isIn(generation, commit));
    if (at >= 0) this.#unseen.splice(at, 1);
    else this.#digests.foreignCommit(generation);
    return at >= 0;
  }

  async #run(stage: keyof Transaction, commands: readonly Command[], commits: Commits): Promise<void> {
    const parts = BATCHES[stage](commands);
    const sent: Promise<ApplyError | null>[] = [];
    for (const part of parts) {
      sent.push(this.#commit(stage, part, commits));
      // A separate thread sends this part to the kernel. Meanwhile only the next part is encoded
      // into messages, not all of them.
      if (parts.length > 1) await (sent.at(-2) ?? setImmediate());
    }
    const refused = (await Promise.all(sent)).find((error) => error !== null);
    if (refused !== undefined) throw refused;
  }

  /**
   * Parts are committed in the order in which they were sent; parts after a refused one are wasted
   * work. An error names the refused command by its position; the command has the policy rule that
   * it is for, and ApplyError says so.
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

  /**
   * A commit of this process beside those of `apply`, which changed only elements of sets with a
   * timeout: the state is as it was. The monitor reports none of these.
   */
  committed({ before, after }: Readonly<Generation>): void {
    if (after === before + 1 && this.#proven === before) this.#proven = after;
  }

  #remember({ generation }: Committed): void {
    // The list is limited: without a monitor (`agent --once`) no event ever removes an entry.
    this.#unseen.push(generation);
    if (this.#unseen.length > MAX_UNSEEN) this.#unseen.shift();
  }

  /**
   * Reads the digests of the changed chains. Chains to be deleted are read with them, to show their
   * last counters.
   */
  async #readDigests(
    change: Transaction,
    rewritten: readonly string[],
    desired: Ruleset,
    commits: Commits,
  ): Promise<void> {
    const changed = changedChains(change, rewritten);
    this.#digests.forget(changed);
    try {
      const reading = await this.#chains([...changed.touched, ...changed.deleted]);
      if (reading !== null) this.#digests.store(reading, changed, desired, commits);
    } catch {
      // The rules are in force all the same; without digests the next comparison writes these
      // chains again.
    }
  }

  #read(): Promise<TableReading> {
    const applied = this.#applied;
    return readCurrentState(this.#kernel, (name, digest) => this.#digests.vouched(name, digest, applied));
  }
}

/** The kernel refused a part of a transaction; the rules enforced before stay in force. */
export class ApplyError extends RefusedError {
  override readonly name = 'ApplyError';
  readonly stage: keyof Transaction;

  constructor(stage: keyof Transaction, refused: Command | null, cause: unknown) {
    const source = refused === null ? null : sourceOf(refused);
    const where = source === null ? '' : `rule ${source.policy}/${source.rule}: `;
    super(`${where}the kernel rejected the transaction (${stage}): ${errorMessage(cause)}`, {
      source,
      lacksLog: lacksLog(refused, cause),
      cause,
    });
    this.stage = stage;
  }
}

/**
 * Whether the kernel lacks NFLOG: it refuses a log rule with ENOENT. It reports a missing chain
 * with ENOENT too; then a third party has changed the table, and the second attempt of `apply`
 * creates the chain.
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
