import { setTimeout as sleep } from 'node:timers/promises';
import { waitAfter } from '../../../lib/process/back-off.ts';
import { deadline } from '../../../lib/process/deadline.ts';
import { type Change, entries, type Gathering, type Narrow } from './entries.ts';
import { toWatchFailure, WatchFailure } from './failure.ts';
import { lineSplitter } from './lines.ts';
import { isAbsent, type Listing, listAll } from './list-all.ts';
import { refuse } from './raw-object.ts';
import { type Resource, resourcePath } from './resources.ts';
import type { ApiGet } from './transport.ts';
import { parseWatchEvent } from './watch-event.ts';
import { type WatchMetrics, type WatchNotice, watchCounts } from './watch-notice.ts';
import { between, type WatchTimes } from './watch-times.ts';

export interface ReflectorOptions<T> {
  readonly resource: Resource;
  readonly get: ApiGet;
  readonly times: WatchTimes;
  /** Numbers from 0 to 1. */
  readonly random: () => number;
  readonly narrow: Narrow<T>;
  /** Told after every list, also of no change, and after events that changed something. */
  readonly changed: (changes: readonly Change<T>[]) => void;
  readonly notice: (notice: WatchNotice) => void;
}

/** Keeps up with one resource of the API. */
export interface Reflector {
  start(): void;
  /** Whether everything there is was listed once; of a CRD that isn't there, nothing. */
  isListed(): boolean;
  /** Whether a watch is open and has had time to tell what it began with; while not, newer objects may be at the API server. */
  isCurrent(): boolean;
  metrics(): WatchMetrics;
  close(): Promise<void>;
}

/** Objects a page; four times as many where pages expire before the last is read. */
const PAGE = 500;
const MOST_A_PAGE = 32_000;
/** Watches that bring nothing but failure from the same version; then the version may be what is wrong. */
const MOST_FRUITLESS = 2;
/** A watch that brings nothing counts as a success when it lasted so long (milliseconds). */
const LASTING = 5_000;
const MOST_NAMED = 10;

/**
 * Lists, then watches from there; after a break it goes on from the last version told, and lists anew where that can't be (DESIGN.md section 5, and what
 * is said of the JavaScript client in test-cluster.md). It ends only when closed: every failure is counted, told and waited after.
 */
export function reflector<T>(options: ReflectorOptions<T>): Reflector {
  const { resource, get, times, random, changed, notice } = options;
  const kept = entries(options.narrow);
  const counts = watchCounts(resource.name);
  const stopped = new AbortController();
  let loops: Promise<unknown> = Promise.resolve();
  let listed = false;
  /** Since when a CRD that had objects is not found; null where it is. */
  let goneSince: number | null = null;
  let limit = PAGE;
  /** Since anything was heard. */
  let failures = 0;
  /** Of those the last ones, as far as all were with or all without an answer. */
  let alike = 0;
  let wasUnreachable = false;
  let lastReason = '';
  let fruitless = 0;
  /** A list must not rely on versions known: the server has begun to count anew. */
  let distrust = false;
  /** The watch that is open; null while none is. */
  let open: { readonly since: number; end(): void } | null = null;
  let advanced = (): void => undefined;

  const pause = (milliseconds: number): Promise<unknown> =>
    sleep(milliseconds, undefined, { signal: stopped.signal });
  const listing = (): Listing => {
    return { resource, get, signal: stopped.signal, patience: times.answer, limit };
  };

  function hear(): void {
    if (failures > 0) notice({ resource: resource.name, event: 'recovered', failures });
    failures = 0;
    fruitless = 0;
    lastReason = '';
  }

  function fail(failure: WatchFailure): number {
    const isUnreachable = failure.reason === 'unreachable';
    // A server that has just begun to answer is not one that has refused for long.
    alike = failures > 0 && isUnreachable === wasUnreachable ? alike + 1 : 1;
    wasUnreachable = isUnreachable;
    failures++;
    counts.failures[failure.reason]++;
    const longest = isUnreachable ? Math.min(times.longestReconnect, times.longestWait) : times.longestWait;
    // A list, not patience, is what helps against the first of these.
    const turn = failure.reason === 'expired' && lastReason !== 'expired' ? 1 : alike;
    const ownWait = Math.round(waitAfter(turn, { first: times.firstWait, longest, random }));
    const wait = Math.max(ownWait, failure.retryAfter ?? 0);
    const { reason, message } = failure;
    if (reason !== lastReason || Number.isInteger(Math.log2(failures))) {
      notice({ resource: resource.name, event: 'failed', reason, message, failures, retryIn: wait });
    }
    lastReason = reason;
    return wait;
  }

  async function read(gathering: Gathering<T>): Promise<number> {
    try {
      const version = await listAll(listing(), gathering.add);
      counts.lists++;
      limit = PAGE;
      return version;
    } catch (error) {
      const failure = toWatchFailure(error);
      if (failure.reason === 'expired') limit = Math.min(limit * 4, MOST_A_PAGE);
      throw failure;
    } finally {
      gathering.end();
    }
  }

  function replace(gathering: Gathering<T>, version: number): void {
    const changes = kept.replace(gathering, version);
    distrust = false;
    listed = true;
    counts.objects = kept.size();
    changed(changes);
  }

  /** False where the CRD is not there. */
  async function list(): Promise<boolean> {
    if (counts.state !== 'absent') counts.state = 'listing';
    const gathering = kept.gather(!distrust);
    try {
      const version = await read(gathering);
      goneSince = null;
      counts.state = 'listing';
      replace(gathering, version);
      notice({ resource: resource.name, event: 'listed', objects: kept.size() });
      return true;
    } catch (error) {
      const failure = toWatchFailure(error);
      if (failure.reason !== 'missing' || !resource.isCustom) throw failure;
      await acceptAbsence(failure);
      return false;
    }
  }

  /** Throws where it can't be told, or not yet. */
  async function acceptAbsence(failure: WatchFailure): Promise<void> {
    if (counts.state === 'absent') return;
    if (!(await isAbsent(listing()))) throw failure;
    if (kept.size() > 0) {
      goneSince ??= performance.now();
      if (performance.now() - goneSince < times.absence) throw failure;
      goneSince = null;
    }
    counts.state = 'absent';
    hear();
    const nothing = kept.gather();
    nothing.end();
    replace(nothing, 0);
    kept.forget();
    notice({ resource: resource.name, event: 'absent' });
  }

  async function watch(position: number): Promise<void> {
    const seconds = Math.ceil(between(times.watch, random) / 1000);
    const query = { watch: 'true', allowWatchBookmarks: 'true', timeoutSeconds: String(seconds) };
    const path = resourcePath(resource, { ...query, resourceVersion: String(position) });
    const limit = deadline(times.answer, stopped.signal);
    let since = Number.POSITIVE_INFINITY;
    let isEnded = false;
    let patience = times.answer;
    try {
      const answer = await get(path, limit.signal);
      if (answer.status !== 200) return await refuse(answer);
      counts.watches++;
      counts.state = 'watching';
      patience = times.idle;
      limit.restart(patience);
      since = performance.now();
      open = {
        since,
        end() {
          isEnded = true;
          limit.end();
        },
      };
      const splitter = lineSplitter();
      for await (const chunk of answer.chunks) {
        const lines = splitter.push(chunk);
        if (lines.length > 0) limit.restart();
        takeLines(lines);
      }
      splitter.end();
      if (kept.position() === position && performance.now() - since < LASTING) {
        throw new WatchFailure('unreachable', 'the server ended the watch at once');
      }
    } catch (error) {
      if (isEnded) return;
      if (!limit.isOver()) throw toWatchFailure(error);
      throw new WatchFailure('silent', `nothing came for ${patience} ms`, { cause: error });
    } finally {
      open = null;
      limit.clear();
      if (performance.now() - since > LASTING) hear();
    }
  }

  /** What was taken before a line that fails is told all the same. */
  function takeLines(lines: readonly string[]): void {
    const changes: Change<T>[] = [];
    try {
      for (const line of lines) takeLine(line, changes);
    } finally {
      counts.objects = kept.size();
      if (changes.length > 0) changed(changes);
    }
  }

  function takeLine(line: string, changes: Change<T>[]): void {
    const event = parseWatchEvent(line, resource);
    const before = kept.position() ?? 0;
    counts.lastEvent = Date.now();
    if (event.type === 'bookmark') {
      counts.bookmarks++;
      if (event.version < before) {
        throw new WatchFailure('disordered', `a bookmark at ${event.version} after version ${before}`);
      }
      kept.advance(event.version);
    } else {
      counts.events++;
      const { change, isDisordered } = kept.take(event.object, event.type === 'delete');
      if (change !== null) changes.push(change);
      if (isDisordered) {
        const { key, version } = event.object;
        throw new WatchFailure('disordered', `${key} at version ${version} came after version ${before}`);
      }
    }
    if ((kept.position() ?? 0) > before || event.type === 'bookmark') hear();
    advanced();
  }

  async function follow(): Promise<void> {
    for (;;) {
      try {
        const position = kept.position();
        if (position === null) {
          if (!(await list())) await pause(between([times.absent / 2, times.absent], random));
          continue;
        }
        await watch(position);
        if (stopped.signal.aborted) return;
      } catch (error) {
        if (stopped.signal.aborted) return;
        const failure = toWatchFailure(error);
        const wait = fail(failure);
        if (mustList(failure)) kept.forget();
        if (counts.state !== 'absent') counts.state = 'waiting';
        await pause(wait).catch(() => undefined);
        if (stopped.signal.aborted) return;
      }
    }
  }

  /** Where going on from the last version won't help. */
  function mustList({ reason }: WatchFailure): boolean {
    if (reason === 'disordered') distrust = true;
    if (['expired', 'disordered', 'missing', 'internal'].includes(reason)) return true;
    if (reason === 'malformed' || reason === 'serverError') fruitless++;
    return fruitless >= MOST_FRUITLESS;
  }

  async function compareNowAndThen(): Promise<void> {
    while (!stopped.signal.aborted) {
      try {
        await pause(between(times.relist, random));
        if (kept.position() !== null) await compare();
      } catch (error) {
        if (stopped.signal.aborted) return;
        fail(toWatchFailure(error));
      }
    }
  }

  /** A list that is read while events come: what it says and they didn't, though they have come further, was missed. */
  async function compare(): Promise<void> {
    const from = kept.position();
    const stream = open;
    const gathering = kept.gather(false);
    try {
      const version = await listAll(listing(), gathering.add);
      counts.lists++;
      if (from !== null && version < from) {
        startAnew(
          `a list is of version ${version}, events had come to ${from}: the server's data was set back`,
        );
        return;
      }
      await caughtUp(version);
      // After a break the watch has its own way to make up for what was missed.
      if (open === null || open !== stream) return;
      tellCorrections(kept.correct(gathering, version));
    } finally {
      gathering.end();
    }
  }

  function startAnew(message: string): void {
    const failure = new WatchFailure('disordered', message);
    fail(failure);
    if (mustList(failure)) kept.forget();
    open?.end();
  }

  /** Ends when events have come to this version, or had time enough to. */
  async function caughtUp(version: number): Promise<void> {
    const wait = new AbortController();
    advanced = () => {
      if ((kept.position() ?? 0) >= version) wait.abort();
    };
    advanced();
    const signal = AbortSignal.any([wait.signal, stopped.signal]);
    await sleep(times.overlap, undefined, { signal }).catch(() => undefined);
    advanced = () => undefined;
    stopped.signal.throwIfAborted();
  }

  function tellCorrections(changes: readonly Change<T>[]): void {
    if (changes.length === 0) return;
    counts.corrections += changes.length;
    counts.objects = kept.size();
    const objects = changes.slice(0, MOST_NAMED).map(({ key }) => key);
    notice({ resource: resource.name, event: 'corrected', corrections: changes.length, objects });
    changed(changes);
  }

  return {
    start() {
      loops = Promise.all([follow(), compareNowAndThen()]);
    },
    isListed: () => listed,
    isCurrent: () => open !== null && performance.now() - open.since >= times.catchUp,
    metrics: () => ({ ...counts, failures: { ...counts.failures } }),
    async close() {
      stopped.abort();
      await loops;
      counts.state = 'closed';
    },
  };
}
