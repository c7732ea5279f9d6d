import { AGENT_CALLS } from '../../apis/calls.ts';
import type { NodeReport } from '../../apis/node-report.ts';
import { BackOff } from '../../lib/process/back-off.ts';
import type { Clock } from '../../lib/process/clock.ts';
import { type ControllerClient, ControllerError, callController } from './controller-client.ts';

interface ReporterOptions {
  readonly node: string;
  readonly client: ControllerClient;
  readonly clock: Clock;
  /** Returns numbers from 0 to 1. */
  readonly random: () => number;
  /** Returns the current report. */
  readonly report: () => NodeReport;
  /**
   * Called after each report: null if the controller accepted it, else the error; the reporter
   * retries.
   */
  readonly done: (error: Error | null) => void;
}

/**
 * Milliseconds. Each wait is a random half to whole of it, so that 5,000 nodes don't send their
 * reports at the same time.
 */
const SOON = 1_000;
const LATER = 10_000;
const INTERVAL = 66_000;
const FIRST_RETRY = 1_000;
const LONGEST_RETRY = 30_000;
/** The least time between two reports (milliseconds). */
const LEAST = 1_000;

/**
 * Reports this node's status to the controller: when something changes, and once a minute. One
 * report at a time; callers don't wait for it.
 */
export class Reporter {
  readonly #options: ReporterOptions;
  readonly #retries = new BackOff({ first: FIRST_RETRY, longest: LONGEST_RETRY });
  readonly #closing = new AbortController();
  #due = Number.POSITIVE_INFINITY;
  #cancel: () => void = () => {};
  #last = Number.NEGATIVE_INFINITY;
  #sending: Promise<void> | null = null;

  constructor(options: ReporterOptions) {
    this.#options = options;
    this.#within(SOON);
  }

  /** Schedules a report. `soon`: within a second or two; else within ten. */
  changed(soon: boolean): void {
    this.#within(soon ? SOON : LATER);
  }

  async close(): Promise<void> {
    this.#closing.abort();
    this.#cancel();
    await this.#sending;
  }

  #within(milliseconds: number): void {
    const { clock, random } = this.#options;
    const at = Math.max(clock.now() + milliseconds * (0.5 + random() / 2), this.#last + LEAST);
    if (this.#closing.signal.aborted || at >= this.#due) return;
    this.#due = at;
    // Otherwise armed after the report in progress.
    if (this.#sending === null) this.#arm();
  }

  #arm(): void {
    this.#cancel();
    if (this.#due === Number.POSITIVE_INFINITY) return;
    const { clock } = this.#options;
    this.#cancel = clock.after(Math.max(0, this.#due - clock.now()), () => {
      this.#sending = this.#send().finally(() => {
        this.#sending = null;
        if (!this.#closing.signal.aborted) this.#arm();
      });
    });
  }

  async #send(): Promise<void> {
    const { node, client, clock, report, done } = this.#options;
    const { signal } = this.#closing;
    this.#due = Number.POSITIVE_INFINITY;
    this.#last = clock.now();
    try {
      await callController({ node, client, clock }, AGENT_CALLS.report, report(), { signal });
      this.#retries.reset();
      this.#within(INTERVAL);
      done(null);
    } catch (error) {
      if (signal.aborted) return;
      const asked = error instanceof ControllerError ? (error.retryAfter ?? 0) : 0;
      const isStale = error instanceof ControllerError && error.hasNewToken;
      const retry = this.#retries.next();
      this.#within(isStale ? 0 : Math.max(retry, Math.min(2 * asked, LONGEST_RETRY)));
      done(error as Error);
    }
  }
}
