import type { Generation } from 'nftables-napi';
import type { NodeState } from '../../apis/compiled.ts';
import type { Config, DataplaneName } from '../../apis/config.ts';
import type { Clock } from '../../lib/process/clock.ts';
import type { Log } from '../../lib/process/log.ts';
import type { DeadlineKeeper } from '../apply/deadline.ts';
import type { Enforced, Enforcer, EnforcerOptions } from '../apply/enforcer.ts';
import type { Kernel } from '../apply/netlink/kernel.ts';
import type { Reconciler } from '../apply/reconciler-interface.ts';
import type { BootFiles } from '../boot/boot-folder.ts';
import type { CountedTable, Owners } from '../record/accounting.ts';
import type { CountSource, Readings } from '../record/counters.ts';
import type { Ruleset } from '../render/ruleset.ts';

/**
 * One way to enforce rules: stages 5 and 6, counters, and the detection of changes by third
 * parties.
 */
export interface Dataplane {
  readonly name: DataplaneName;
  run(parts: DataplaneOptions): Running;
}

/** `overrun`: events were lost. `failed`: no events come until the monitor is open again. */
export type MonitorTrouble = 'failed' | 'overrun';

export interface DataplaneOptions {
  readonly config: Config;
  readonly log: Log;
  /** The result of `Running.digests` in an earlier run. */
  readonly digests: Readonly<Record<string, string>>;
  /** Receives each reading of the counters. */
  readonly readings: Readings;
  /** Counts troubles of the kernel's event monitor, if the dataplane has one. */
  readonly troubled: (trouble: MonitorTrouble) => void;
  /** Enforced with the rules; null or absent: nothing is. */
  readonly extension?: DataplaneExtension | null;
  /** The deadline of rules that are tried has passed: packets were accepted against the rules. */
  readonly deadlinePassed?: () => void;
  readonly enforcer: Omit<EnforcerOptions<unknown>, 'reconciler' | 'renderer'>;
}

export interface Running {
  readonly enforcer: Pick<Enforcer<unknown>, 'submit' | 'verify' | 'idle' | 'close'>;
  readonly counts: CountSource;
  /** The owners of the counters in force; null if nothing is in force yet. */
  owners(): Owners | null;
  /**
   * The rules in force now as files that are loaded at boot. The texts are made when the result is
   * called.
   * @param state in force
   */
  bootFiles(state: NodeState): () => BootFiles;
  /** Identifies the rules of this run to the next one; empty if the dataplane has no digests. */
  digests(): Record<string, string>;
  /** Keeps the deadline of rules that are tried. */
  readonly deadline: Pick<DeadlineKeeper, 'check' | 'close' | 'isLeft'>;
  /** Compares after changes by third parties. Returns a function that stops it. */
  watch(): () => Promise<void>;
}

/** A dataplane as all commands see it; its parts are loaded when they are used. */
export interface DataplaneKind {
  /** The name of its text for `compile -o`. */
  readonly output: string;
  /** Whether it finds rules by the rule index, which `compile --stats` describes. */
  readonly hasIndex: boolean;
  text(): Promise<DataplaneText>;
  port(): Promise<DataplanePort>;
}

/** Its rules as text; pure. */
export interface DataplaneText {
  /** A whole ruleset that can be loaded by hand on a node without rules of nodewall. */
  ruleset(state: NodeState, config: Config): string;
  /** The first transaction on such a node. */
  firstTransaction(state: NodeState, config: Config): string;
}

/** Its side to the kernel; needs the native addon. */
export interface DataplanePort {
  /**
   * Whether it works on this machine, as a trial in the kernel shows; what it tried it removes.
   * `lacks`: a part that doesn't work; absent or '': all does.
   */
  trial(
    config: Pick<Config, 'iptables'>,
  ): Promise<
    { readonly works: true; readonly lacks?: string } | { readonly works: false; readonly why: string }
  >;
  /** Changes nothing. Throws CommandError if something that it needs isn't installed. */
  open(config: Config, kernel: Kernel): Promise<OpenDataplane>;
  /** All places where it may have left rules, in an order in which these can be removed. */
  leftOvers(kernel: Kernel): readonly LeftOvers[];
  /** The transaction from the rules in force to a state, as text. */
  plan(planned: Planned): Promise<string>;
  /** The counters of its rules in force, of whatever run; null if there are no rules. */
  counts(kernel: Kernel): Promise<CountedTable | null>;
}

interface OpenDataplane {
  readonly dataplane: Dataplane;
  /** Names of the remains that this dataplane changes itself, so that they are no left-overs. */
  readonly manages: readonly string[];
  /** For the log. */
  readonly details: Readonly<Record<string, string>>;
}

interface Planned {
  readonly kernel: Kernel;
  readonly state: NodeState;
  readonly config: Config;
  /** The digests that the last agent saved. */
  readonly digests: () => Promise<Readonly<Record<string, string>>>;
}

/** An optional capability that the nftables dataplane enforces with the rules (agent/extension). */
export interface DataplaneExtension {
  open(options: ExtensionOptions): OpenExtension;
}

export interface ExtensionOptions extends Pick<DataplaneOptions, 'log' | 'troubled'> {
  readonly kernel: Kernel;
  readonly clock: Clock;
  /** A transaction in our tables that changed nothing but elements with a timeout. */
  readonly committed: (generation: Readonly<Generation>) => void;
}

export interface OpenExtension {
  /** The kernel without the elements that the extension changes itself. */
  readonly kernel: Kernel;
  /** Sets whose elements it changes all the time. */
  readonly quietSets: readonly string[];
  /** Enforces the rules, with what they need besides; its `close` closes the extension. */
  enforce(rules: ExtendedRules): Running['enforcer'];
}

/** The rules of a dataplane, for an extension that enforces them. */
export interface ExtendedRules {
  readonly rules: Reconciler<Ruleset>;
  /** @param canLog as in EnforcerOptions */
  readonly render: (canLog: boolean) => (state: NodeState) => Ruleset;
  /** With the deadline of rules that are tried. */
  readonly timed: <Desired extends Ruleset>(reconciler: Reconciler<Desired>) => Reconciler<Desired>;
  readonly enforcer: DataplaneOptions['enforcer'];
}

/** An extension in the kernel of a machine, whatever run it is of. */
export interface KernelExtension {
  isOn(config: Pick<Config, 'featureGates'>): boolean;
  /** Why it cannot work on this machine; null: nothing is known. */
  refusal(): Promise<string | null>;
  /** Throws a CommandError if this kernel lacks what its rules need. */
  check(): Promise<void>;
  /** Where it may have left something, in the order in which it can be removed. */
  leftOvers(kernel: Kernel): {
    readonly beforeTable: readonly LeftOvers[];
    readonly afterTable: readonly LeftOvers[];
  };
  /** The names of those that a run with it, or without it, changes itself. */
  manages(isOn: boolean): readonly string[];
  /** Before rules without it replace those of an earlier run that may have had it. */
  replaced(kernel: Kernel): Promise<unknown>;
  /** No agent enforces it any more: nothing on this machine waits for one. */
  release(stateDir: string): Promise<void>;
}

export interface Dataplanes {
  /** The dataplane of this node. */
  readonly chosen: Dataplane;
  /**
   * Places where other dataplanes may have left rules in earlier runs and which the chosen one
   * doesn't manage.
   */
  readonly others: readonly LeftOvers[];
  /** All places where a dataplane may have left rules. */
  readonly all: readonly LeftOvers[];
}

/** One place in the kernel where one of our dataplanes may have left rules in any run. */
export interface LeftOvers {
  /** For logs. */
  readonly name: string;
  /** Whether packets traverse rules of ours there. */
  holdsRules(): Promise<boolean>;
  /**
   * Removes them and returns human-readable lines about what was removed. Loads no module, and
   * starts no process, for rules that can't exist.
   */
  remove(): Promise<string[]>;
}

interface Warnings {
  warn(message: string, fields: object): void;
}

/** An error in one place. */
interface LeftOverError {
  readonly from: LeftOvers;
  readonly error: Error;
}

export interface Removal {
  /** Human-readable lines about what was removed. */
  readonly removed: readonly string[];
  /** Places that this process is not permitted to read. */
  readonly hidden: readonly LeftOverError[];
  readonly failed: readonly LeftOverError[];
}

/**
 * Rules exist that this process is not permitted to read; perhaps none are ours. A retry gives the
 * same answer.
 */
function isHidden(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'NOT_PERMITTED';
}

export function logHidden(log: Warnings, node: string, hidden: readonly LeftOverError[]): void {
  for (const { from, error } of hidden) {
    log.warn(
      'cannot check another dataplane for left-over rules of nodewall; run nodewall cleanup on the node',
      { node, dataplane: from.name, error: error.message },
    );
  }
}

/**
 * Whether packets traverse rules of ours, of any dataplane. Places that this process is not
 * permitted to read are skipped with a warning, except those that the chosen dataplane manages: for
 * these the error is thrown.
 */
export async function holdRules(
  { all, others }: Pick<Dataplanes, 'all' | 'others'>,
  node: string,
  log: Warnings,
): Promise<boolean> {
  for (const from of all) {
    try {
      if (await from.holdsRules()) return true;
    } catch (error) {
      if (!isHidden(error) || !others.includes(from)) throw error;
      logHidden(log, node, [{ from, error: error as Error }]);
    }
  }
  return false;
}

/** Tries every place, whatever errors the others have. */
export async function removeEach(all: readonly LeftOvers[]): Promise<Removal> {
  const removed: string[] = [];
  const hidden: LeftOverError[] = [];
  const failed: LeftOverError[] = [];
  for (const from of all) {
    try {
      removed.push(...(await from.remove()));
    } catch (error) {
      (isHidden(error) ? hidden : failed).push({ from, error: error as Error });
    }
  }
  return { removed, hidden, failed };
}

/** Like `removeEach`, but throws the errors once all places were tried. */
export async function removeAll(all: readonly LeftOvers[]): Promise<Omit<Removal, 'failed'>> {
  const { failed, ...rest } = await removeEach(all);
  const [first] = failed;
  if (first === undefined) return rest;
  const messages = new Set(failed.map(({ error }) => error.message));
  throw messages.size === 1 ? first.error : new Error([...messages].join('; '), { cause: first.error });
}

/**
 * Removes the rules of other dataplanes once the chosen one has everything in force, never before:
 * at every moment at least one of them is enforced. Until then a packet must pass both; if that
 * lasts because a policy fails, it is logged. Such rules stay, because they may be all that
 * enforces the policy. The function returned resolves to whether no retry is needed.
 */
export function dataplaneMigration(
  { chosen, others }: Pick<Dataplanes, 'others'> & { readonly chosen: Pick<Dataplane, 'name'> },
  node: string,
  log: Pick<Log, 'info' | 'warn'>,
): (failedPolicies: Enforced['failed']) => Promise<boolean> {
  let left = [...others];
  let isSaid = false;

  async function sayOnce(policies: Enforced['failed']): Promise<void> {
    if (isSaid) return;
    isSaid = true;
    const held = await Promise.all(left.map((one) => one.holdsRules().catch(() => false)));
    const names = left.flatMap(({ name }, i) => (held[i] ? name : []));
    if (names.length === 0) return;
    log.warn(
      'the previous dataplane stays in force until every policy can be applied; until then a packet must pass both',
      { node, dataplane: chosen.name, previous: names, policies: [...policies.keys()] },
    );
  }

  return async (failedPolicies) => {
    if (failedPolicies.size > 0) {
      await sayOnce(failedPolicies);
      return true;
    }
    const { removed, hidden, failed } = await removeEach(left);
    logHidden(log, node, hidden);
    for (const { from, error } of failed) {
      log.warn('cannot remove the rules of the previous dataplane; both are in force, retrying', {
        node,
        dataplane: chosen.name,
        previous: from.name,
        error: error.message,
      });
    }
    if (removed.length > 0)
      log.info('removed the rules of the previous dataplane', { node, dataplane: chosen.name, removed });
    left = failed.map(({ from }) => from);
    return left.length === 0;
  };
}
