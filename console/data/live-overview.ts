import type { Overview, OverviewLine } from '../../apis/console.ts';
import { BackOff } from '../../lib/process/back-off.ts';
import type { Clock } from '../../lib/process/clock.ts';
import { ApiError } from './api.ts';
import { linesOf } from './json-lines.ts';
import { withChange } from './with-change.ts';

/**
 * connecting: the first answer is on its way. live: changes are shown as they come. waiting: the
 * stream ended, and is tried again.
 */
export type Connection =
  | { readonly kind: 'connecting' }
  | { readonly kind: 'live' }
  | { readonly kind: 'waiting'; readonly error: ApiError; readonly seconds: number };

export interface LiveOptions {
  readonly open: (signal: AbortSignal) => Promise<ReadableStream<Uint8Array>>;
  readonly clock: Pick<Clock, 'now' | 'after'>;
  readonly random: () => number;
}

/** Milliseconds. A sign of life comes each 30 s at least. */
const LONGEST_SILENCE = 75_000;
/** Milliseconds: a stream that lasted so long may end, as servers end all of them at times. */
const LONG = 60_000;
const WAITS = { first: 1_000, longest: 30_000 };

/**
 * Follows OVERVIEW_WATCH, and begins again where it ends. Keeps one Overview, the
 * last; also while the connection is lost.
 */
export class LiveOverview extends EventTarget {
  readonly #options: LiveOptions;
  readonly #backOff: BackOff;
  #overview: Overview | null = null;
  /** When the time of the Overview was read, by the clock. */
  #readAt = 0;
  #connection: Connection = { kind: 'connecting' };
  #stop = new AbortController();
  #cancelWait = (): void => {};

  constructor(options: LiveOptions) {
    super();
    this.#options = options;
    this.#backOff = new BackOff({ ...WAITS, random: options.random });
  }

  get overview(): Overview | null {
    return this.#overview;
  }

  get connection(): Connection {
    return this.#connection;
  }

  /** The server's time (milliseconds since 1970): a browser's own clock may be wrong. */
  now(): number {
    if (this.#overview === null) return 0;
    return Date.parse(this.#overview.time) + this.#options.clock.now() - this.#readAt;
  }

  /** Begins, or begins again at once. */
  start(): void {
    this.stop();
    this.#stop = new AbortController();
    void this.#follow(this.#stop.signal);
  }

  stop(): void {
    this.#cancelWait();
    this.#stop.abort();
  }

  async #follow(stopped: AbortSignal): Promise<void> {
    let error = new ApiError(0, 'the stream ended');
    const begun = this.#options.clock.now();
    const attempt = new AbortController();
    const signal = AbortSignal.any([stopped, attempt.signal]);
    let cancelWatchdog = (): void => {};
    const sign = (): void => {
      cancelWatchdog();
      cancelWatchdog = this.#options.clock.after(LONGEST_SILENCE, () => attempt.abort());
    };
    try {
      sign();
      for await (const line of linesOf(await this.#options.open(signal))) {
        sign();
        if (line !== '') this.#receive(JSON.parse(line) as OverviewLine);
      }
      if (this.#options.clock.now() - begun >= LONG && !stopped.aborted) return this.start();
    } catch (cause) {
      if (stopped.aborted) return;
      if (attempt.signal.aborted) error = new ApiError(0, 'the server was silent for too long');
      else error = cause instanceof ApiError ? cause : new ApiError(0, 'the stream broke off', { cause });
    } finally {
      cancelWatchdog();
      // A line that does not fit leaves the stream open.
      attempt.abort();
    }
    if (!stopped.aborted) this.#retry(error);
  }

  #receive(line: OverviewLine): void {
    if (line.type === 'overview') this.#overview = line.overview;
    else if (this.#overview !== null) this.#overview = withChange(this.#overview, line);
    else throw new Error('a change before the first Overview');
    this.#readAt = this.#options.clock.now();
    this.#backOff.reset();
    this.#say({ kind: 'live' });
  }

  #retry(error: ApiError): void {
    const wait = this.#backOff.next();
    this.#say({ kind: 'waiting', error, seconds: Math.ceil(wait / 1000) });
    this.#cancelWait = this.#options.clock.after(wait, () => this.start());
  }

  #say(connection: Connection): void {
    this.#connection = connection;
    this.dispatchEvent(new Event('change'));
  }
}
