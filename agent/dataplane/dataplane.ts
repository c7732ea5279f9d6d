import type { Generation } from 'nftables-napi';
import type { NodeState } from '../../apis/compiled.ts';
import type { Config } from '../../apis/config.ts';
import type { DataplaneName } from '../../apis/dataplanes.ts';
import type { Clock } from '../../lib/process/clock.ts';
import type { Log } from '../../lib/process/log.ts';
import type { Reconciler } from '../apply/dataplane.ts';
import type { DeadlineKeeper } from '../apply/deadline.ts';
import type { Enforcer, EnforcerOptions } from '../apply/enforcer.ts';
import type { Kernel } from '../apply/netlink/kernel.ts';
import type { BootFiles } from '../boot/boot-folder.ts';
import type { Owners } from '../record/accounting.ts';
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
