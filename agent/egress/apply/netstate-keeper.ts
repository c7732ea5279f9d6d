import type { RouteEvent } from 'nftables-napi';
import type { Netstate } from '../../../apis/egress/netstate.ts';
import { BackOff, type Closable, keepOpen } from '../../../lib/process/back-off.ts';
import type { Clock } from '../../../lib/process/clock.ts';
import { pace } from '../../../lib/process/timers.ts';
import type { NetstateResult } from './kernel-object.ts';
import type { ApplyOptions, NetstateReconciler } from './netstate-reconciler.ts';

/** Milliseconds between full comparisons, besides those after events. */
const VERIFY_INTERVAL = 60_000;
/**
 * Milliseconds between two comparisons after events, at least: others may change things all the
 * time.
 */
const EVENT_INTERVAL = 50;
/** The same after lost events. */
const OVERRUN_INTERVAL = 1_000;
/** Milliseconds between attempts while the kernel or a foreign object is in the way. */
const RETRY = { first: 1_000, longest: 60_000 } as const;

interface KeeperOptions {
  readonly reconciler: Pick<NetstateReconciler, 'apply' | 'verify' | 'isExpected'>;
  readonly clock: Clock;
  /** Opens a RouteMonitor; may throw. */
  readonly open: (listener: (events: readonly RouteEvent[]) => void) => Closable;
  /** Called after a repair of what somebody else changed, with what was done. */
  readonly drifted: (operations: readonly string[]) => void;
  /** Called when the problems are others than before; none: they are over. */
  readonly problems: (problems: NetstateResult['problems']) => void;
  /** The monitor lost events, or failed; it is opened again. */
  readonly troubled: (trouble: 'overrun' | 'failed', error?: Error) => void;
}

/**
 * Keeps the newest Netstate in the kernel: repairs what others change, as soon as events tell and
 * once a minute, and tries again what the kernel refused. Nothing is done before the first apply().
 */
export class NetstateKeeper {
  readonly #options: KeeperOptions;
  readonly #backOff = new BackOff(RETRY);
  readonly #repairs: ReturnType<typeof pace>;
  readonly #overruns: ReturnType<typeof pace>;
  #monitor: ReturnType<typeof keepOpen> | null = null;
  #tail: Promise<unknown> = Promise.resolve();
  #cancelNext = (): void => {};
  #lastProblems = '';
  #isClosed = false;

  constructor(options: KeeperOptions) {
    this.#options = options;
    this.#repairs = pace(options.clock, EVENT_INTERVAL, () => void this.#verify());
    this.#overruns = pace(options.clock, OVERRUN_INTERVAL, () => void this.#verify());
  }

  /** Rejects only if the kernel cannot be read; it is tried again then, as after problems. */
  apply(wanted: Netstate, options?: ApplyOptions): Promise<NetstateResult> {
    this.#monitor ??= this.#watch();
    return this.#run(() => this.#options.reconciler.apply(wanted, options));
  }

  /** Nothing is removed from the kernel. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#cancelNext();
    this.#repairs.close();
    this.#overruns.close();
    await this.#monitor?.close();
    await this.#tail;
  }

  #verify(): Promise<void> {
    return this.#run(() => this.#options.reconciler.verify()).then(
      ({ operations }) => {
        if (operations.length > 0) this.#options.drifted(operations);
      },
      () => {}, // told to `problems`, and tried again
    );
  }

  #run(task: () => Promise<NetstateResult>): Promise<NetstateResult> {
    const result = this.#tail.then(task);
    this.#tail = result.then(
      ({ problems }) => this.#settled(problems),
      (error: Error) => this.#settled([{ code: 'UNREADABLE', message: error.message }]),
    );
    return result;
  }

  #settled(problems: NetstateResult['problems']): void {
    const text = problems.map(({ message }) => message).join('\n');
    if (text !== this.#lastProblems) {
      this.#lastProblems = text;
      this.#options.problems(problems);
    }
    if (problems.length === 0) this.#backOff.reset();
    this.#cancelNext();
    if (this.#isClosed) return;
    const wait = problems.length === 0 ? VERIFY_INTERVAL : this.#backOff.next();
    this.#cancelNext = this.#options.clock.after(wait, () => void this.#verify());
  }

  #watch(): ReturnType<typeof keepOpen> {
    const { clock, open, troubled } = this.#options;
    return keepOpen({
      clock,
      open: (failed, isAgain) => {
        const opened = open((events) => this.#receive(events, failed));
        if (isAgain) void this.#verify();
        return opened;
      },
      failed: (error) => troubled('failed', error),
    });
  }

  /** Events of our own changes may arrive before the call returns: they wait for it. */
  #receive(events: readonly RouteEvent[], failed: (error: Error) => void): void {
    for (const event of events) {
      if (event.event === 'error') failed(event.error);
      if (event.event !== 'overrun') continue;
      this.#options.troubled('overrun');
      this.#overruns.request();
    }
    void this.#tail.then(() => {
      const isDrift = events.some(
        (event) => 'object' in event && !this.#options.reconciler.isExpected(event),
      );
      if (isDrift && !this.#isClosed) this.#repairs.request();
    });
  }
}
