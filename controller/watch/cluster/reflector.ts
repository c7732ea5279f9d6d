import { setTimeout as sleep } from 'node:timers/promises';
import { LineSplitter } from '../../../lib/process/body.ts';
import { type Watchdog, watchdog } from '../../../lib/process/timers.ts';
import { type Provable, VersionWait } from './freshness.ts';
import {
  type Narrow,
  ObjectStore,
  type PartialList,
  parseWatchEvent,
  type StoreChange,
  throwRefusal,
  type WatchPosition,
} from './object-store.ts';
import { ResourceLister } from './resource-lister.ts';
import { type Resource, resourcePath } from './resources.ts';
import { type ApiAnswer, type ApiGet, toWatchFailure, WatchFailure } from './transport.ts';
import {
  between,
  type WatchEvent,
  WatchFailures,
  type WatchMetrics,
  type WatchNotice,
  type WatchTimes,
  watchCounts,
} from './watch-failures.ts';

export interface ReflectorOptions<T> {
  readonly resource: Resource;
  readonly get: ApiGet;
  readonly times: WatchTimes;
  /** Returns numbers from 0 to 1. */
  readonly random: () => number;
  readonly narrow: Narrow<T>;
  /** Called after every list, also without changes, and after events that changed something. */
  readonly changed: (changes: readonly StoreChange<T>[]) => void;
  readonly notice: (notice: WatchNotice) => void;
}

/** Keeps a local copy of one resource of the API up to date. */
export interface Reflector extends Provable {
  start(): void;
  /**
   * Whether the resource was listed completely at least once; a missing CRD counts as an empty
   * list.
   */
  isListed(): boolean;
  /**
   * Whether a watch is open and has had time to deliver its first events; otherwise the API server
   * may have newer objects.
   */
  isCurrent(): boolean;
  position(): WatchPosition;
  metrics(): WatchMetrics;
  close(): Promise<void>;
}

/** A watch without any event counts as a success after this time (milliseconds). */
const LASTING = 5_000;
const MOST_NAMED = 10;

/**
 * Lists, then watches from the version of the list. After a break it resumes from the last version
 * received, and lists again if that is not possible (README.md says when). It ends only on `close`:
 * every failure is counted, reported, and followed by a back-off.
 */
export function reflector<T>(options: ReflectorOptions<T>): Reflector {
  return new ResourceReflector<T>(options);
}

class ResourceReflector<T> implements Reflector {
  readonly #options: ReflectorOptions<T>;
  readonly #store: ObjectStore<T>;
  readonly #counts: ReturnType<typeof watchCounts>;
  readonly #failures: WatchFailures;
  readonly #stopped = new AbortController();
  #loops: Promise<unknown> = Promise.resolve();
  #listed = false;
  /** The next list must not reuse stored versions: the server's versions have started again. */
  #distrust = false;
  /** The open watch; null while there is none. */
  #open: WatchRequest | null = null;
  /** The watch that is open or was asked for. */
  #request: WatchRequest | null = null;
  readonly #lister: ResourceLister;
  readonly #versions: VersionWait;

  constructor(options: ReflectorOptions<T>) {
    const { resource, get, times, random, narrow } = options;
    const counts = watchCounts(resource.name);
    this.#options = options;
    this.#store = new ObjectStore(narrow);
    this.#lister = new ResourceLister({ resource, get, times, signal: this.#stopped.signal });
    this.#versions = new VersionWait(() => this.#store.position() ?? 0);
    this.#counts = counts;
    const notice = (event: WatchEvent): void => this.#notice(event);
    this.#failures = new WatchFailures({ resource, times, random, counts, notice });
  }

  start(): void {
    this.#loops = Promise.all([this.#follow(), this.#compareNowAndThen()]);
  }

  isListed(): boolean {
    return this.#listed;
  }

  isCurrent(): boolean {
    return this.#open !== null && this.#open.age() >= this.#options.times.catchUp;
  }

  position(): WatchPosition {
    return { newest: this.#store.newest(), reached: this.#store.position() ?? 0 };
  }

  metrics(): WatchMetrics {
    return { ...this.#counts, failures: { ...this.#counts.failures } };
  }

  async prove(): Promise<void> {
    for (;;) {
      try {
        return await this.#prove();
      } catch (error) {
        this.#stopped.signal.throwIfAborted();
        await this.#pause(this.#failures.add(toWatchFailure(error)));
      }
    }
  }

  async close(): Promise<void> {
    this.#stopped.abort();
    await this.#loops;
    this.#counts.state = 'closed';
  }

  #pause(milliseconds: number): Promise<unknown> {
    return sleep(milliseconds, undefined, { signal: this.#stopped.signal });
  }

  #notice(event: WatchEvent): void {
    this.#options.notice({ resource: this.#options.resource.name, ...event });
  }

  #replace(list: PartialList<T>, version: number): void {
    const changes = this.#store.replace(list, version);
    this.#distrust = false;
    this.#listed = true;
    this.#counts.objects = this.#store.size();
    this.#options.changed(changes);
    this.#versions.advanced();
  }

  /** Returns false if the CRD doesn't exist. */
  async #list(): Promise<boolean> {
    const wasAbsent = this.#counts.state === 'absent';
    if (!wasAbsent) this.#counts.state = 'listing';
    const list = this.#store.startList(!this.#distrust);
    let version: number | null;
    try {
      const stored = this.#store.size() > 0 ? 'objects' : 'none';
      version = await this.#lister.list(list.add, wasAbsent ? 'absent' : stored);
    } finally {
      list.end();
    }
    if (version === null) {
      if (!wasAbsent) this.#setAbsent();
      return false;
    }
    this.#counts.lists++;
    this.#counts.state = 'listing';
    this.#counts.lacks = null;
    this.#replace(list, version);
    this.#notice({ event: 'listed', objects: this.#store.size() });
    return true;
  }

  #setAbsent(): void {
    this.#counts.state = 'absent';
    this.#counts.lacks = null;
    this.#failures.end();
    const nothing = this.#store.startList();
    nothing.end();
    this.#replace(nothing, 0);
    this.#store.forget();
    this.#notice({ event: 'absent' });
  }

  async #watch(position: number): Promise<void> {
    const watch: WatchRequest = new WatchRequest({
      ...this.#options,
      signal: this.#stopped.signal,
      opened: () => {
        this.#counts.watches++;
        this.#counts.state = 'watching';
        this.#counts.lacks = null;
        this.#open = watch;
      },
      received: (lines) => this.#receiveLines(lines),
    });
    this.#request = watch;
    try {
      await watch.run(position);
      const isFruitless = this.#store.position() === position && watch.age() < LASTING;
      if (isFruitless && !watch.isEnded) {
        throw new WatchFailure('unreachable', 'the server ended the watch at once');
      }
    } finally {
      this.#open = null;
      this.#request = null;
      if (watch.age() > LASTING) this.#failures.end();
    }
  }

  /** Changes taken before a line that fails are reported all the same. */
  #receiveLines(lines: readonly string[]): void {
    const changes: StoreChange<T>[] = [];
    try {
      for (const line of lines) this.#receiveLine(line, changes);
    } finally {
      this.#counts.objects = this.#store.size();
      if (changes.length > 0) this.#options.changed(changes);
    }
  }

  #receiveLine(line: string, changes: StoreChange<T>[]): void {
    const event = parseWatchEvent(line, this.#options.resource);
    const before = this.#store.position() ?? 0;
    this.#counts.lastEvent = Date.now();
    if (event.kind === 'bookmark') {
      this.#counts.bookmarks++;
      if (event.version < before) {
        throw new WatchFailure('disordered', `a bookmark at ${event.version} after version ${before}`);
      }
      this.#store.advance(event.version);
    } else {
      this.#counts.events++;
      const { change, isDisordered } = this.#store.receive(event.object, event.kind === 'delete');
      if (change !== null) changes.push(change);
      if (isDisordered) {
        const { key, version } = event.object;
        throw new WatchFailure('disordered', `${key} at version ${version} came after version ${before}`);
      }
    }
    if ((this.#store.position() ?? 0) > before || event.kind === 'bookmark') this.#failures.end();
    this.#versions.advanced();
  }

  async #follow(): Promise<void> {
    const { times, random } = this.#options;
    for (;;) {
      try {
        const position = this.#store.position();
        if (position === null) {
          if (!(await this.#list())) await this.#pause(between([times.absent / 2, times.absent], random));
          continue;
        }
        await this.#watch(position);
        if (this.#stopped.signal.aborted) return;
      } catch (error) {
        if (this.#stopped.signal.aborted) return;
        const failure = toWatchFailure(error);
        const wait = this.#failures.add(failure, this.#store.position() === null ? 'list' : 'watch');
        this.#listIfLost(failure);
        if (this.#counts.state !== 'absent') this.#counts.state = 'waiting';
        await this.#pause(wait).catch(() => undefined);
        if (this.#stopped.signal.aborted) return;
      }
    }
  }

  /** Lists next if the watch can't be resumed. */
  #listIfLost(failure: WatchFailure): void {
    if (failure.reason === 'disordered') this.#distrust = true;
    if (this.#failures.needsList(failure)) this.#store.forget();
  }

  async #compareNowAndThen(): Promise<void> {
    while (!this.#stopped.signal.aborted) {
      try {
        await this.#pause(between(this.#options.times.relist, this.#options.random));
        if (this.#store.position() !== null) await this.#compare();
      } catch (error) {
        if (this.#stopped.signal.aborted) return;
        this.#failures.add(toWatchFailure(error), 'list');
      }
    }
  }

  /**
   * Relists while the watch is open. Events that the list shows, but the watch didn't deliver
   * although it has passed the list's version, were missed.
   */
  async #compare(): Promise<void> {
    const from = this.#store.position();
    const stream = this.#open;
    const list = this.#store.startList(false);
    try {
      const version = await this.#lister.listBeside(list.add);
      this.#counts.lists++;
      this.#counts.lacks = null;
      if (from !== null && version < from) {
        this.#startAnew(wasReset(version, from));
        return;
      }
      await this.#reaches(version, this.#options.times.overlap);
      // After a break, the watch itself recovers the missed events.
      if (this.#open === null || this.#open !== stream) return;
      this.#tellCorrections(this.#store.correct(list, version));
    } finally {
      list.end();
    }
  }

  #startAnew(message: string): void {
    const failure = new WatchFailure('disordered', message);
    this.#failures.add(failure);
    this.#listIfLost(failure);
    this.#request?.end();
  }

  #reaches(version: number, milliseconds: number): Promise<boolean> {
    return this.#versions.reaches(version, milliseconds, this.#stopped.signal);
  }

  /**
   * A list without a version shows what etcd has, whatever the API server's watch cache has. An
   * idle watch may be at an older version without being behind: then listing again is the proof.
   */
  async #prove(): Promise<void> {
    const { times } = this.#options;
    const newest = await this.#lister.newestVersion().catch((error: unknown) => {
      if (this.#counts.state === 'absent' && toWatchFailure(error).reason === 'missing') return null;
      throw error;
    });
    if (newest === null) return;
    const from = this.#store.position();
    if (from !== null && newest < from) this.#startAnew(wasReset(newest, from));
    else if (await this.#reaches(newest, times.proof)) return;
    else {
      this.#store.forget();
      // Also one that has no answer yet: it would go on from the old version, without a list.
      this.#request?.end();
    }
    if (await this.#reaches(newest, times.answer)) return;
    throw new WatchFailure('silent', `a list did not end within ${times.answer} ms`);
  }

  #tellCorrections(changes: readonly StoreChange<T>[]): void {
    if (changes.length === 0) return;
    this.#counts.corrections += changes.length;
    this.#counts.objects = this.#store.size();
    const objects = changes.slice(0, MOST_NAMED).map(({ key }) => key);
    this.#notice({ event: 'corrected', corrections: changes.length, objects });
    this.#options.changed(changes);
  }
}

function wasReset(version: number, from: number): string {
  return `the list has version ${version}, but events had reached ${from}: the server was reset to older data`;
}

interface WatchRequestOptions extends Pick<ReflectorOptions<never>, 'resource' | 'get' | 'times' | 'random'> {
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
class WatchRequest {
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
   * Watches from this version on; may be called once. Throws WatchFailure, and whatever
   * `received` throws as one; nothing after `end`.
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
