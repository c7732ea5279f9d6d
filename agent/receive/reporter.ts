import { NODE_VIEWS_PATH, type NodeReport } from '../../apis/stream.ts';
import { BackOff } from '../../lib/process/back-off.ts';
import type { Clock } from '../../lib/process/clock.ts';
import { type ControllerClient, ControllerError } from './controller-client.ts';

export interface ReporterParts {
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

export interface Reporter {
  /** Schedules a report. `soon`: within a second or two; else within ten. */
  changed(soon: boolean): void;
  close(): Promise<void>;
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
export function reporter({ node, client, clock, random, report, done }: ReporterParts): Reporter {
  let due = Number.POSITIVE_INFINITY;
  let cancel: () => void = () => {};
  let last = Number.NEGATIVE_INFINITY;
  const retries = new BackOff({ first: FIRST_RETRY, longest: LONGEST_RETRY });
  let sending: Promise<void> | null = null;
  const closing = new AbortController();

  function within(milliseconds: number): void {
    const at = Math.max(clock.now() + milliseconds * (0.5 + random() / 2), last + LEAST);
    if (closing.signal.aborted || at >= due) return;
    due = at;
    // Otherwise armed after the report in progress.
    if (sending === null) arm();
  }

  function arm(): void {
    cancel();
    if (due === Number.POSITIVE_INFINITY) return;
    cancel = clock.after(Math.max(0, due - clock.now()), () => {
      sending = send().finally(() => {
        sending = null;
        if (!closing.signal.aborted) arm();
      });
    });
  }

  async function send(): Promise<void> {
    due = Number.POSITIVE_INFINITY;
    last = clock.now();
    try {
      const path = `${NODE_VIEWS_PATH}/${encodeURIComponent(node)}/status`;
      const response = await client.request({ method: 'PUT', path, body: report(), signal: closing.signal });
      response.resume();
      retries.reset();
      within(INTERVAL);
      done(null);
    } catch (error) {
      if (closing.signal.aborted) return;
      const asked = error instanceof ControllerError ? (error.retryAfter ?? 0) : 0;
      const isStale = error instanceof ControllerError && error.hasNewToken;
      const retry = retries.next();
      within(isStale ? 0 : Math.max(retry, Math.min(2 * asked, LONGEST_RETRY)));
      done(error as Error);
    }
  }

  within(SOON);
  return {
    changed: (soon) => within(soon ? SOON : LATER),
    async close() {
      closing.abort();
      cancel();
      await sending;
    },
  };
}
