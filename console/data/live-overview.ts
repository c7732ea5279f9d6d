import {
  type Overview,
  type OverviewChange,
  type OverviewLine,
  type OverviewPolicy,
  overviewPolicyKey,
} from '../../apis/console.ts';
import { BackOff } from '../../lib/process/back-off.ts';
import type { Clock } from '../../lib/process/clock.ts';
import { present } from '../../lib/sharing/present.ts';
import { ApiError } from './api.ts';

/**
 * connecting: the first answer is on its way. live: changes are shown as they come. waiting: the
 * stream ended, and is tried again.
 */
export type LiveConnection =
  | { readonly kind: 'connecting' }
  | { readonly kind: 'live' }
  | { readonly kind: 'waiting'; readonly error: ApiError; readonly seconds: number };

interface LiveOptions {
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
  #connection: LiveConnection = { kind: 'connecting' };
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

  get connection(): LiveConnection {
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
      for await (const line of streamLines(await this.#options.open(signal))) {
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

  #say(connection: LiveConnection): void {
    this.#connection = connection;
    this.dispatchEvent(new Event('change'));
  }
}

/** Characters of a line: an endless one would fill the memory. A whole Overview has about 2 MB. */
const LONGEST = 64 << 20;

/**
 * The lines of a stream, without their line feeds. Ends with the stream; what follows the last line
 * feed is dropped, as it was cut off. Throws where a line is longer than `longest` characters, or
 * not UTF-8.
 */
export async function* streamLines(
  stream: ReadableStream<Uint8Array>,
  longest = LONGEST,
): AsyncGenerator<string, void, undefined> {
  const decoder = new TextDecoder('utf-8', { fatal: true });
  let parts: string[] = [];
  let length = 0;
  for await (const chunk of stream) {
    const [first = '', ...lines] = decoder.decode(chunk, { stream: true }).split('\n');
    parts.push(first);
    length += first.length;
    if (length > longest) throw new Error(`a line is longer than ${longest} characters`);
    for (const line of lines) {
      yield parts.join('');
      parts = [line];
      length = line.length;
    }
  }
}

/**
 * The Overview after a change. What did not change is the same object as before, so that it need
 * not be shown again. Throws where a change does not fit the Overview: then a whole one is needed.
 */
export function withChange(overview: Overview, change: OverviewChange): Overview {
  const { time, revision, isEnabled, remark, rollouts, problems } = change;
  return {
    ...overview,
    time,
    revision,
    ...present({ isEnabled, remark, rollouts, problems }),
    nodes: withNodes(overview, change),
    policies: withPolicies(overview, change),
  };
}

function withNodes({ nodes }: Overview, change: OverviewChange): Overview['nodes'] {
  if (change.nodes === undefined || change.nodes.length === 0) return nodes;
  const changed = [...nodes];
  for (const { index, node } of change.nodes) {
    if (nodes[index]?.name !== node.name) throw new Error(`node ${index} is not ${node.name}`);
    changed[index] = node;
  }
  return changed;
}

function withPolicies({ policies }: Overview, change: OverviewChange): Overview['policies'] {
  if (change.policies === undefined && change.order === undefined) return policies;
  const byKey = new Map<string, OverviewPolicy>();
  for (const policy of [...policies, ...(change.policies ?? [])])
    byKey.set(overviewPolicyKey(policy), policy);
  const order = change.order ?? policies.map(overviewPolicyKey);
  if (change.order === undefined && byKey.size > order.length) throw new Error('a policy without a place');
  return order.map((key) => {
    const policy = byKey.get(key);
    if (policy === undefined) throw new Error(`no policy ${key}`);
    return policy;
  });
}
