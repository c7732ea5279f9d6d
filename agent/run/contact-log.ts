import type { WallClock } from '../../lib/process/clock.ts';
import type { Log } from '../../lib/process/log.ts';

/** Interval at which a continuing outage of the controller is logged again (milliseconds). */
const AGAIN = 300_000;

/** The value while no folding error has been logged. */
const FOLLOWED = { reason: '', said: 0 };

interface ContactOptions {
  readonly node: string;
  readonly controller: string;
  readonly log: Log;
  readonly clock: WallClock;
}

/** The log of the connection to the controller: when it is lost and restored, not each attempt. */
export class ContactLog {
  readonly #log: Log;
  readonly #clock: WallClock;
  readonly #fields: object;
  /** HOST:PORT of the connection. */
  #address = '';
  /** `since` for people; `at` is the clock's time then: the wall clock may have been set since. */
  #away: {
    readonly since: Date;
    readonly at: number;
    readonly reason: string;
    readonly said: number;
  } | null = null;
  #unfollowed = FOLLOWED;
  #isFollowed = false;
  /** The error of the last report; empty: the controller accepted it. */
  #unreported = '';

  constructor({ node, controller, log, clock }: ContactOptions) {
    this.#log = log;
    this.#clock = clock;
    this.#fields = { node, stage: 'receive', controller };
  }

  /** ISO 8601; null: the controller is connected. */
  awaySince(): string | null {
    return this.#away?.since.toISOString() ?? null;
  }

  /** @param address HOST:PORT of the other end */
  connected(address: string): void {
    this.#address = address;
    this.#log.debug('connected', { ...this.#fields, address });
  }

  /** The view is complete: only now the connection counts as restored. */
  bookmark(revision: string): void {
    const fields = { ...this.#fields, address: this.#address, revision };
    if (this.#away !== null) {
      const seconds = Math.round((this.#clock.now() - this.#away.at) / 1000);
      this.#log.info('the controller answers again', { ...fields, seconds });
    } else if (!this.#isFollowed) this.#log.info('following the controller', fields);
    if (this.#unfollowed !== FOLLOWED) this.#log.info("applying the controller's view again", fields);
    this.#away = null;
    this.#unfollowed = FOLLOWED;
    this.#isFollowed = true;
  }

  /** The messages can't be applied to the current state; the agent requests them again. */
  refolding(error: Error): void {
    this.#log.warn('the messages from the controller do not match the view; requesting a full view', {
      ...this.#fields,
      error: error.message,
    });
  }

  /** The controller answers, but even its whole view can't be folded. */
  unfollowable(error: Error, retryIn: number): void {
    const now = this.#clock.now();
    const { reason, said } = this.#unfollowed;
    const isNews = error.message !== reason || now - said >= AGAIN;
    if (isNews) this.#unfollowed = { reason: error.message, said: now };
    this.#log.log(
      isNews ? 'error' : 'debug',
      "cannot apply the controller's view; the rules in force stay. Use one version for controller and agent; restart the controller, then this agent; please report it",
      { ...this.#fields, error: error.message, retryIn: Math.round(retryIn) },
    );
  }

  disconnected(error: Error, retryIn: number): void {
    const now = this.#clock.now();
    const before = this.#away;
    const isNews = before === null || before.reason !== error.message || now - before.said >= AGAIN;
    const since = before?.since ?? this.#clock.date();
    const fields = {
      ...this.#fields,
      error: error.message,
      since: since.toISOString(),
      retryIn: Math.round(retryIn),
    };
    if (!isNews) return void this.#log.debug('the controller still does not answer', fields);
    this.#away = { since, at: before?.at ?? now, reason: error.message, said: now };
    this.#log.warn('the controller does not answer; the rules in force stay', fields);
  }

  /** Null: the controller accepted the report. */
  reported(error: Error | null): void {
    const reason = error?.message ?? '';
    const isThere = this.#away === null;
    // While the connection is lost, a failed report is no news.
    const level = isThere && reason !== this.#unreported ? 'warn' : 'debug';
    if (error !== null)
      this.#log.log(level, 'the controller did not accept the report of this node; retrying', {
        ...this.#fields,
        error: reason,
      });
    else if (this.#unreported !== '') this.#log.info('the controller accepts reports again', this.#fields);
    if (isThere) this.#unreported = reason;
  }
}
