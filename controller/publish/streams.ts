import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Authenticate, Identity } from './auth.ts';
import type { Hub, Watch } from './hub.ts';
import type { ServerEvent } from './server-event.ts';
import { STREAM_LIMITS, type StreamLimits, type WatchStream, watchStream } from './watch-stream.ts';

/** Milliseconds, unless it says otherwise. */
export interface StreamsOptions {
  /** A watcher hears something at least so often; each somewhat sooner, so that not all do at once. */
  readonly heartbeat: number;
  /** How often a watcher's credentials are looked at again. */
  readonly recheck: number;
  /** Watches at a time. */
  readonly most: number;
  /** Of one node and user: an agent that comes back may be faster than the news that it went. The oldest is ended. */
  readonly mostOfNode: number;
  readonly limits: StreamLimits;
  /** From 0 up to 1. */
  readonly random: () => number;
  /** Calls again and again, until what it gives is called. */
  readonly every: (milliseconds: number, callback: () => void) => () => void;
}

const DEFAULTS: StreamsOptions = {
  heartbeat: 30_000,
  recheck: 600_000,
  most: 20_000,
  mostOfNode: 3,
  limits: STREAM_LIMITS,
  random: Math.random,
  every(milliseconds, callback) {
    const timer = setInterval(callback, milliseconds);
    timer.unref();
    return () => clearInterval(timer);
  },
};

export interface Streams {
  /** Whether there is room for one more. */
  readonly full: boolean;
  open(request: IncomingMessage, response: ServerResponse, watch: WatchRequest): void;
  stats(): { readonly sentBytes: number; readonly unsentBytes: number; readonly cutOff: number };
  endAll(why: string): void;
  close(): void;
}

export interface WatchRequest {
  readonly node: string;
  readonly identity: Identity;
  readonly resourceVersion: string | null;
  /** Milliseconds after which the watcher wants it to end; null: never. */
  readonly lasts: number | null;
}

interface Open extends WatchRequest {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly stream: WatchStream;
  readonly watch: Watch;
  readonly ends: number;
  /** A fraction of the heartbeat. */
  readonly pace: number;
  recheck: number;
}

export interface WatchStreamsOptions {
  readonly hub: Hub;
  readonly authenticate: Authenticate;
  readonly now: () => number;
  readonly onEvent: (event: ServerEvent) => void;
  readonly streams?: Partial<StreamsOptions>;
}

const TICK = 1000;

/**
 * Without its Node nothing selects a node any more. That is no reason to open it: it is told nothing, and keeps what it enforces until there is a Node of its
 * name again.
 */
const GONE = 'there is no such Node any more';

/** All watches: one look a second at each, for signs of life, slow watchers and credentials that have run out. */
export function watchStreams(options: WatchStreamsOptions): Streams {
  const { hub, authenticate, now, onEvent } = options;
  const settings = { ...DEFAULTS, ...options.streams };
  const { heartbeat, recheck, random } = settings;
  const open = new Set<Open>();
  const byNode = new Map<string, Open[]>();
  let sentBefore = 0;
  let cutOff = 0;

  const end = (one: Open, why: string): void => {
    if (!open.delete(one)) return;
    one.watch.close();
    sentBefore += one.stream.sent;
    const others = (byNode.get(one.node) ?? []).filter((other) => other !== one);
    if (others.length === 0) byNode.delete(one.node);
    else byNode.set(one.node, others);
    // In order where the watcher still takes what there is.
    if (one.stream.unsent === 0) one.response.end();
    else one.response.destroy();
    onEvent({ kind: 'ended', node: one.node, why });
  };
  const look = (one: Open, time: number): void => {
    const slow = one.stream.tooSlow();
    if (slow !== null) {
      cutOff++;
      end(one, `cut off: ${slow}`);
    } else if (time >= (one.identity.expires ?? Number.POSITIVE_INFINITY)) end(one, 'its token has expired');
    else if (time >= one.ends) end(one, 'it has lasted as long as was asked for');
    else if (time - one.stream.lastSent >= one.pace * heartbeat) one.watch.bookmark();
    if (time >= one.recheck) checkAgain(one, time);
  };
  const checkAgain = (one: Open, time: number): void => {
    one.recheck = time + recheck * (0.75 + random() / 2);
    authenticate(one.request).then(
      (identity) => {
        const { username, extra } = one.identity;
        const same =
          identity?.username === username && JSON.stringify(identity.extra) === JSON.stringify(extra);
        if (!same) end(one, 'its credentials are good no more');
      },
      // An API server that doesn't answer takes nobody's stream away; the next look is soon enough.
      (error: unknown) => onEvent({ kind: 'failed', path: one.request.url ?? '', error }),
    );
  };
  const endAll = (why: string): void => {
    for (const one of open) end(one, why);
  };
  const stop = settings.every(TICK, () => {
    const time = now();
    for (const one of open) look(one, time);
  });
  return {
    get full() {
      return open.size >= settings.most;
    },
    open(request, response, wanted) {
      const { node, resourceVersion, lasts } = wanted;
      response.writeHead(200, {
        'content-type': 'application/json',
        'cache-control': 'no-store',
        connection: 'close',
      });
      const stream = watchStream(response, now, settings.limits);
      const watch = hub.watch(node, resourceVersion, (lines) => {
        if (hub.has(node)) stream.send(lines);
        else for (const gone of byNode.get(node) ?? []) end(gone, GONE);
      });
      const time = now();
      const one: Open = {
        ...wanted,
        request,
        response,
        stream,
        watch,
        ends: lasts === null ? Number.POSITIVE_INFINITY : time + lasts,
        pace: 0.6 + 0.3 * random(),
        recheck: time + recheck * (0.75 + random() / 2),
      };
      open.add(one);
      const others = byNode.get(node) ?? [];
      byNode.set(node, [...others, one]);
      // Who may look at a node ends no watch of its agent.
      const own = others.filter(({ identity }) => identity.username === wanted.identity.username);
      for (const old of own.slice(0, Math.max(0, own.length + 1 - settings.mostOfNode)))
        end(old, 'the node has newer ones');
      response.once('close', () => end(one, 'the watcher went'));
      onEvent({ kind: 'watching', node, resourceVersion });
    },
    stats() {
      let sentBytes = sentBefore;
      let unsentBytes = 0;
      for (const { stream } of open) {
        sentBytes += stream.sent;
        unsentBytes += stream.unsent;
      }
      return { sentBytes, unsentBytes, cutOff };
    },
    endAll,
    close() {
      stop();
      endAll('the controller stops');
    },
  };
}
