import { type Generation, NftError, type TableSnapshot } from 'nftables-napi';
import type { RuleSource } from '../../apis/compiled.ts';
import { sameMembers } from '../../apis/memberset.ts';
import { type Chain, type Ruleset, TABLE } from '../render/ruleset.ts';
import {
  type Held,
  type HeldChain,
  type HeldMap,
  type HeldSet,
  heldAfter,
  NOTHING_HELD,
  sameHook,
  samePolicy,
} from './held.ts';
import { type Kernel, readMap, readSet, readTable, toBatches } from './kernel.ts';
import {
  type Command,
  changesStructure,
  isReplacement,
  replacement,
  type Transaction,
  transaction,
  transactionBetween,
} from './transaction.ts';

/** The kernel refused a part of a transaction; what was in force still is. */
export class ApplyError extends Error {
  override readonly name = 'ApplyError';
  readonly stage: keyof Transaction;
  /** The policy rule that the refused line is for; null where that can't be told. */
  readonly source: RuleSource | null;
  /** The kernel knows no NFLOG, which the refused line needs. */
  readonly lacksLog: boolean;

  constructor(stage: keyof Transaction, refused: Command | null, cause: unknown) {
    const source = refused?.source ?? null;
    const where = source === null ? '' : `rule ${source.policy}/${source.rule}: `;
    super(
      `${where}the kernel refused it (${stage}): ${cause instanceof Error ? cause.message : String(cause)}`,
      { cause },
    );
    this.stage = stage;
    this.source = source;
    this.lacksLog = cause instanceof NftError && isWithoutLog(cause, refused?.text ?? '');
  }
}

/** ENOENT for a rule that logs, as nfttext.ts writes it; where the table or the chain is what isn't there, nft underlines its name. */
function isWithoutLog({ code, refersTo }: NftError, text: string): boolean {
  const [, chain] = /^add rule \S+ \S+ (\S+) .*\blog prefix "/.exec(text) ?? [];
  return code === 'ENOENT' && chain !== undefined && refersTo !== chain && refersTo !== TABLE.name;
}

export interface Applied {
  readonly transaction: Transaction;
  /** Why what nothing leads to any more could not be removed. */
  readonly unswept: ApplyError | null;
}

export interface ReconcilerOptions {
  /**
   * Digests that an earlier run took (see `digests`): a fixed chain that still has its digest is what its name says, and is left alone with its
   * counters. Of another run's text or of a stranger's doing, they just don't fit.
   */
  readonly remembered?: Readonly<Record<string, string>>;
  /** Is awaited before chains with counters are renamed, removed or replaced. What it throws is ignored: enforcement comes first. */
  readonly beforeLoss?: () => Promise<void>;
}

const MAX_UNSEEN = 255;

/**
 * Stage 6: makes the kernel hold exactly a ruleset, and tells when it no longer does. One call at a time: the caller awaits each.
 *
 * What a chain holds is told by the digests of its rules, taken from the kernel right after they were applied: a chain with other digests
 * has been changed by somebody else and is written again.
 */
export class NodeRuleReconciler {
  readonly #kernel: Kernel;
  /** What the kernel holds, exactly; null where that isn't known. */
  #exact: Ruleset | null = null;
  /** Else what was last found there; null: to be read before the next change. */
  #found: Held | null = null;
  #digests: ReadonlyMap<string, string> = new Map();
  #remembered: Readonly<Record<string, string>>;
  readonly #beforeLoss: () => Promise<void>;
  #applied: Ruleset | null = null;
  /** The next apply replaces the table. */
  #replace = false;
  /** Generation of the nf_tables ruleset (see nft_generation) up to which `#digests` was taken. */
  #digestGeneration = 0;
  /** Commits of ours that no event has told of yet: each is one generation in (before, after]. */
  #unseen: Generation[] = [];

  constructor(
    kernel: Kernel,
    { remembered = {}, beforeLoss = async () => undefined }: ReconcilerOptions = {},
  ) {
    this.#kernel = kernel;
    this.#remembered = remembered;
    this.#beforeLoss = beforeLoss;
  }

  /** What was applied last; null before the first time. */
  inForce(): Ruleset | null {
    return this.#applied;
  }

  /** The fixed chains in force and their digests, for the next run (ReconcilerOptions.remembered). */
  digests(): Record<string, string> {
    const chains = this.#applied?.chains ?? new Map<string, Chain>();
    return Object.fromEntries([...this.#digests].filter(([name]) => chains.get(name)?.fixed));
  }

  /** The transaction that `apply` would run now; changes nothing. */
  async plan(desired: Ruleset): Promise<Transaction> {
    if (this.#exact !== null) return transactionBetween(this.#exact, desired);
    this.#found ??= await this.#read();
    return this.#replace ? replacement(desired) : transaction(this.#found, desired);
  }

  /**
   * Throws ApplyError where the kernel refuses it, NftError where the kernel can't be read; then it enforces what it enforced before (members
   * of sets in use may be changed already). What can't be swept is no failure: all that is wanted is in force.
   */
  async apply(desired: Ruleset): Promise<Applied> {
    const wasRead = this.#exact === null && this.#found === null;
    try {
      return await this.#applyOnce(desired);
    } catch (error) {
      // Somebody else may have changed the table since: no policy is to blame before it has been looked at.
      if (wasRead || !(error instanceof ApplyError)) throw error;
      return await this.#applyOnce(desired);
    }
  }

  async #applyOnce(desired: Ruleset): Promise<Applied> {
    const change = await this.plan(desired);
    // Until it has gone through, nothing is known for sure.
    this.#exact = null;
    this.#found = null;
    if (change.rename.length > 0 || isReplacement(change)) await this.#prepareLoss();
    await this.#run('rename', change.rename);
    await this.#run('prepare', change.prepare);
    await this.#changeElements(change);
    await this.#run('swap', change.swap);
    this.#applied = desired;
    const unswept = await this.#sweep(change);
    if (changesStructure(change)) await this.#takeDigests(desired);
    if (unswept === null) this.#exact = desired;
    return { transaction: change, unswept };
  }

  /** A name that is a word of nft's language (a stranger's, made by netlink) can't be swept: then the table is replaced next time. */
  async #sweep({ sweep }: Transaction): Promise<ApplyError | null> {
    try {
      if (sweep.length > 0) await this.#prepareLoss();
      await this.#run('sweep', sweep);
      this.#replace = false;
      return null;
    } catch (error) {
      if (!(error instanceof ApplyError)) throw error;
      this.#replace = error.cause instanceof NftError && error.cause.code === 'SYNTAX';
      return error;
    }
  }

  async #prepareLoss(): Promise<void> {
    try {
      await this.#beforeLoss();
    } catch {
      // A count that is lost is no reason to enforce the old rules.
    }
  }

  /** Whether there is a table of ours, of whatever content. */
  async holdsTable(): Promise<boolean> {
    return (await readTable(this.#kernel)) !== null;
  }

  /** Forgets what was vouched for: events were lost, so anything may have been changed. */
  distrust(): void {
    this.#digests = new Map();
    this.#remembered = {};
    this.#exact = null;
    this.#found = null;
  }

  /**
   * Compares the kernel with what was last applied. Returns what differs, in words, and is ready for `apply` to repair it;
   * empty: nothing does.
   */
  async verify(): Promise<string[]> {
    if (this.#applied === null) return [];
    // Should the reading fail, the next apply starts with one.
    this.#exact = null;
    this.#found = await this.#read();
    const differences = compare(heldAfter(this.#applied), this.#found);
    if (differences.length === 0) this.#exact = this.#applied;
    return differences;
  }

  /**
   * Whether an event of this generation, which touched our table, is of a commit of ours. Where somebody else committed between the numbers
   * read before and after ours, the first event in that range is taken for it: if it was the other's, ours is looked at as foreign, and
   * the comparison that follows finds what there is to find. A foreign change older than the digests makes them worthless.
   */
  isOwn(generation: number): boolean {
    const at = this.#unseen.findIndex(({ before, after }) => before < generation && generation <= after);
    if (at >= 0) this.#unseen.splice(at, 1);
    else if (generation <= this.#digestGeneration) this.#digests = new Map();
    return at >= 0;
  }

  async #run(stage: keyof Transaction, commands: readonly Command[]): Promise<void> {
    if (commands.length === 0) return;
    try {
      const result = await this.#kernel.commands.run(`${commands.map(({ text }) => text).join('\n')}\n`);
      this.#remember(result.generation);
    } catch (error) {
      const line = error instanceof NftError ? error.line : null;
      throw new ApplyError(stage, line === null ? null : (commands[line - 1] ?? null), error);
    }
  }

  async #changeElements(change: Transaction): Promise<void> {
    try {
      for (const batch of toBatches(change)) {
        this.#remember((await this.#kernel.netlink.batch(batch)).generation);
      }
    } catch (error) {
      throw new ApplyError('members', null, error);
    }
  }

  #remember(generation: Generation): void {
    // Without a monitor (`agent --once`) nothing is ever seen.
    this.#unseen = [...this.#unseen.slice(-MAX_UNSEEN), generation];
  }

  async #takeDigests(desired: Ruleset): Promise<void> {
    try {
      const table = await readTable(this.#kernel);
      const digests = chainDigests(table);
      this.#digests = new Map([...digests].filter(([name]) => desired.chains.has(name)));
      this.#digestGeneration = table?.generation ?? 0;
    } catch {
      // The rules are in force all the same; without digests the next comparison writes every chain again.
      this.#digests = new Map();
    }
  }

  async #read(): Promise<Held> {
    const table = await readTable(this.#kernel);
    if (table === null) return NOTHING_HELD;
    const digests = chainDigests(table);
    const vouched = (name: string): Chain | null =>
      this.#applied === null
        ? rememberedChain(name, this.#remembered[name], digests.get(name))
        : this.#digests.get(name) === digests.get(name)
          ? (this.#applied.chains.get(name) ?? null)
          : null;
    // A chain that is bound to a rule (`jump { … }`) comes and goes with that rule.
    const own = table.chains.filter(({ name }) => !name.startsWith('__chain'));
    const chains = own.map(({ name, base }): [string, HeldChain] => [
      name,
      { base: base as HeldChain['base'], known: vouched(name) },
    ]);
    const named = table.sets.filter((set) => !set.isAnonymous);
    const sets: [string, HeldSet][] = [];
    const maps: [string, HeldMap][] = [];
    for (const { name, isMap, isInterval } of named) {
      if (isMap) maps.push([name, await readMap(this.#kernel, name)]);
      else sets.push([name, await readSet(this.#kernel, name, isInterval)]);
    }
    return {
      table: true,
      dormant: table.isDormant,
      chains: new Map(chains),
      sets: new Map(sets),
      maps: new Map(maps),
    };
  }
}

/** A fixed chain of an earlier run is known by its name; what it was made of need not be. */
function rememberedChain(name: string, then: string | undefined, now: string | undefined): Chain | null {
  if (then === undefined || then !== now) return null;
  return { name, base: null, fixed: true, rules: [], source: null, ruleId: null };
}

function chainDigests(table: TableSnapshot | null): Map<string, string> {
  return new Map(
    (table?.chains ?? []).map(({ name, rules }) => [name, rules.map(({ digest }) => digest).join(' ')]),
  );
}

function compare(wanted: Held, now: Held): string[] {
  if (!now.table) return [`table ${TABLE.family} ${TABLE.name} is gone`];
  const differences: string[] = now.dormant ? [`table ${TABLE.family} ${TABLE.name} was switched off`] : [];
  for (const [name, { base }] of wanted.chains) {
    const there = now.chains.get(name);
    if (there === undefined) differences.push(`chain ${name} is gone`);
    else if (there.known === null) differences.push(`chain ${name} was changed`);
    else if (!sameHook(there.base, base) || !samePolicy(there.base, base)) {
      differences.push(`chain ${name} has another hook, priority or policy`);
    }
  }
  for (const name of now.chains.keys())
    if (!wanted.chains.has(name)) differences.push(`chain ${name} is foreign`);
  for (const [name, set] of wanted.sets) {
    const there = now.sets.get(name);
    if (there === undefined) differences.push(`set ${name} is gone`);
    else if (
      there.family !== set.family ||
      there.key !== set.key ||
      !there.members ||
      !set.members ||
      !sameMembers(there.members, set.members)
    ) {
      differences.push(`set ${name} has other members`);
    }
  }
  for (const name of now.sets.keys()) if (!wanted.sets.has(name)) differences.push(`set ${name} is foreign`);
  for (const [name, { entries }] of wanted.maps) {
    const there = now.maps.get(name);
    if (there === undefined) differences.push(`map ${name} is gone`);
    else if (
      there.entries === null ||
      JSON.stringify([...there.entries]) !== JSON.stringify([...(entries ?? [])])
    ) {
      differences.push(`map ${name} has other elements`);
    }
  }
  for (const name of now.maps.keys()) if (!wanted.maps.has(name)) differences.push(`map ${name} is foreign`);
  return differences;
}
