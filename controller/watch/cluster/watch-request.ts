import { asFields } from '../../../apis/schema/json-schema.ts';
import { LineSplitter } from '../../../lib/process/body.ts';
import { type Watchdog, watchdog } from '../../../lib/process/timers.ts';
import { type RawObject, statusFailure, throwRefusal, toRawObject, toVersion } from './object-store.ts';
import { type Resource, resourcePath } from './resources.ts';
import { type ApiAnswer, type ApiGet, toWatchFailure, WatchFailure } from './transport.ts';
import { between, type WatchTimes } from './watch-failures.ts';

interface WatchRequestOptions {
  readonly resource: Resource;
  readonly get: ApiGet;
  readonly times: WatchTimes;
  /** Returns numbers from 0 to 1. */
  readonly random: () => number;
  /** Aborted when the reflector closes. */
  readonly signal: AbortSignal;
  /** Called when the API server has accepted the watch. */
  readonly opened: () => void;
  /** Called with the complete lines of each chunk. */
  readonly received: (lines: readonly string[]) => void;
}

/** Bytes; an object is at most 3 MiB in etcd. */
const LONGEST_LINE = 64 * 1024 * 1024;

/** One request that watches a resource, until the server ends it, data stop, or `end` is called. */
export class WatchRequest {
  readonly #options: WatchRequestOptions;
  readonly #limit: Watchdog;
  /** When it was opened (monotonic milliseconds); null: it was not. */
  #since: number | null = null;
  #isEnded = false;

  constructor(options: WatchRequestOptions) {
    this.#options = options;
    this.#limit = watchdog(options.times.answer, options.signal);
  }

  /** Whether `end` was called. */
  get isEnded(): boolean {
    return this.#isEnded;
  }

  /** Milliseconds since it was opened; 0: it was not. */
  age(): number {
    return this.#since === null ? 0 : performance.now() - this.#since;
  }

  end(): void {
    this.#isEnded = true;
    this.#limit.end();
  }

  /**
   * Watches from this version on; may be called once. Throws WatchFailure, and whatever `take`
   * throws as one; nothing after `end`.
   */
  async run(position: number): Promise<void> {
    const { times } = this.#options;
    try {
      const answer = await this.#ask(position);
      this.#limit.restart(times.idle);
      this.#since = performance.now();
      this.#options.opened();
      await this.#read(answer);
    } catch (error) {
      if (this.#isEnded) return;
      if (!this.#limit.isOver()) throw toWatchFailure(error);
      const patience = this.#since === null ? times.answer : times.idle;
      throw new WatchFailure('silent', `no data was received for ${patience} ms`, { cause: error });
    } finally {
      this.#limit.clear();
    }
  }

  async #ask(position: number): Promise<ApiAnswer> {
    const { resource, get, times, random } = this.#options;
    const seconds = Math.ceil(between(times.watch, random) / 1000);
    const query = { watch: 'true', allowWatchBookmarks: 'true', timeoutSeconds: String(seconds) };
    const path = resourcePath(resource, { ...query, resourceVersion: String(position) });
    const answer = await get(path, this.#limit.signal);
    return answer.status === 200 ? answer : await throwRefusal(answer);
  }

  async #read({ chunks }: ApiAnswer): Promise<void> {
    const splitter = new LineSplitter(LONGEST_LINE);
    for await (const chunk of chunks) {
      const lines = [...splitter.push(chunk)];
      if (lines.length > 0) this.#limit.restart();
      this.#options.received(lines);
    }
    splitter.end();
  }
}

/** One line of a watch (metav1.WatchEvent). */
type WatchEvent =
  | { readonly kind: 'put' | 'delete'; readonly object: RawObject }
  | { readonly kind: 'bookmark'; readonly version: number };

/** Throws a WatchFailure for an ERROR event, and for anything that is not an event. */
export function parseWatchEvent(line: string, resource: Resource): WatchEvent {
  let value: unknown;
  try {
    value = JSON.parse(line);
  } catch (cause) {
    throw new WatchFailure('malformed', `an event is not valid JSON: ${(cause as Error).message}`, { cause });
  }
  const { type, object } = asFields(value) ?? {};
  switch (type) {
    case 'ADDED':
    case 'MODIFIED':
      return { kind: 'put', object: toRawObject(object, resource) };
    case 'DELETED':
      return { kind: 'delete', object: toRawObject(object, resource) };
    case 'BOOKMARK':
      return { kind: 'bookmark', version: toVersion(asFields(asFields(object)?.metadata)?.resourceVersion) };
    case 'ERROR':
      throw statusFailure(object);
    default:
      throw new WatchFailure('malformed', `unknown type of event: ${JSON.stringify(type)}`);
  }
}
