import { NODE_VIEWS_PATH, type NodeReport } from '../../apis/stream.ts';
import { BackOff } from '../../lib/process/back-off.ts';
import type { Clock } from '../../lib/process/clock.ts';
import { type ControllerClient, ControllerError } from './controller-client.ts';

export interface ReporterParts {
  readonly node: string;
  readonly client: ControllerClient;
  readonly clock: Clock;
  /** 0 to 1. */
  readonly random: () => number;
  /** What is to be said, now. */
  readonly report: () => NodeReport;
  /** The report was taken (null), or why not; then it is tried again by itself. */
  readonly done: (error: Error | null) => void;
}

export interface Reporter {
  /** There is something new to say. `soon`: within a second or two; else within ten. */
  changed(soon: boolean): void;
  close(): Promise<void>;
}

/**
 * Milliseconds. Each is a random half to whole of it: what concerns 5,000 nodes is not reported by
 * all in the same moment.
 */
const SOON = 1_000;
const LATER = 10_000;
const INTERVAL = 66_000;
const FIRST_RETRY = 1_000;
const LONGEST_RETRY = 30_000;
/** At least from one report to the next. */
const LEAST = 1_000;

/**
 * Tells the controller how this node does: when something changes, and once a minute. One report at
 * a time; nobody waits for it.
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
    // After the one that is under way.
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
