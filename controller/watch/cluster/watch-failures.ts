import { waitAfter } from '../../../lib/process/back-off.ts';
import { type RbacRule, rbacRule } from '../../kubeapi/rbac-rule.ts';
import type { WatchFailure } from './failure.ts';
import { groupVersionPath, type Resource } from './resources.ts';
import type { WatchCounts, WatchEvent } from './watch-notice.ts';
import type { WatchTimes } from './watch-times.ts';

/**
 * The longest wait that a server's Retry-After is granted (milliseconds): as a date it is compared
 * with a clock that may be wrong.
 */
const MOST_ASKED = 60_000;

interface WatchFailuresOptions {
  readonly times: WatchTimes;
  /** Returns numbers from 0 to 1. */
  readonly random: () => number;
  readonly counts: WatchCounts;
  readonly notice: (event: WatchEvent) => void;
}

/** The failures of one resource since the last data was received: counted, reported, backed off. */
export class WatchFailures {
  readonly #options: WatchFailuresOptions;
  #count = 0;
  /** The number of the latest that are of one kind: all without a connection, or all with one. */
  #alike = 0;
  #wasUnreachable = false;
  #lastReason = '';

  constructor(options: WatchFailuresOptions) {
    this.#options = options;
  }

  /** Data was received. */
  end(): void {
    if (this.#count > 0) this.#options.notice({ event: 'recovered', failures: this.#count });
    this.#count = 0;
    this.#lastReason = '';
  }

  /** Returns the wait until the next attempt (milliseconds). */
  add({ reason, message: error, retryAfter }: WatchFailure): number {
    const { times, random, counts, notice } = this.#options;
    const isUnreachable = reason === 'unreachable';
    // A server that has just become reachable starts with the shortest back-off.
    this.#alike = this.#count > 0 && isUnreachable === this.#wasUnreachable ? this.#alike + 1 : 1;
    this.#wasUnreachable = isUnreachable;
    this.#count++;
    counts.failures[reason]++;
    const { firstWait: first, longestWait, longestReconnect } = times;
    const longest = isUnreachable ? Math.min(longestReconnect, longestWait) : longestWait;
    // The first `expired` needs a list, not a longer wait.
    const turn = reason === 'expired' && this.#lastReason !== 'expired' ? 1 : this.#alike;
    const wait = Math.max(
      Math.round(waitAfter(turn, { first, longest, random })),
      Math.min(retryAfter ?? 0, MOST_ASKED),
    );
    if (reason !== this.#lastReason || Number.isInteger(Math.log2(this.#count))) {
      notice({ event: 'failed', reason, error, failures: this.#count, retryIn: wait });
    }
    this.#lastReason = reason;
    return wait;
  }
}

/** The right without which a list or a watch failed; null: the failure had another reason. */
export function lackedRight(
  resource: Resource,
  { reason }: WatchFailure,
  verb: 'list' | 'watch',
): RbacRule | null {
  const rule = rbacRule('GET', `${groupVersionPath(resource)}/${resource.plural}`);
  return reason === 'forbidden' && rule !== null ? { ...rule, verbs: [verb] } : null;
}
