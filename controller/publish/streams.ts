import type { IncomingMessage, ServerResponse } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { type HeldView, toBody } from '../../apis/held-view.ts';
import type { ProbeUpdate, QuestionUpdate } from '../../apis/stream.ts';
import type { Authenticate, Identity } from './auth.ts';
import type { Hub, Watch } from './hub.ts';
import type { Line } from './messages.ts';
import { STREAM_LIMITS, type StreamLimits, WatchStream } from './watch-stream.ts';

/** Events for logs and metrics. */
export type ServerEvent =
  | { readonly kind: 'failed'; readonly path: string; readonly error: unknown }
  | { readonly kind: 'watching'; readonly node: string; readonly resourceVersion: string | null }
  | { readonly kind: 'ended'; readonly node: string; readonly reason: string };

/** Times are in milliseconds. */
export interface StreamsOptions {
  /**
   * The longest interval between lines to a watcher; each watcher's is somewhat shorter, so that
   * not all bookmarks are sent at the same time.
   */
  readonly heartbeat: number;
  /** Interval at which a watcher's credentials are checked again. */
  readonly recheck: number;
  /** The most concurrent watches. */
  readonly most: number;
  /**
   * The most watches of one node and user: an agent may reconnect before the server notices that
   * the old connection is gone. The oldest watch is ended.
   */
  readonly mostOfNode: number;
  readonly limits: StreamLimits;
  /** Returns numbers from 0 up to 1. */
  readonly random: () => number;
  /** Calls back repeatedly; returns the function that stops it. */
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

interface WatchRequest {
  readonly node: string;
  readonly identity: Identity;
  readonly resourceVersion: string | null;
  /** The view that the watcher holds, if it told. */
  readonly held: HeldView | null;
  /** Whether the watcher knows the messages of egress gateways. */
  readonly egress: boolean;
  /** Whether the watcher is an agent that makes probes for other nodes (ProbeUpdate). */
  readonly probes: boolean;
  /** Whether the watcher is an agent that answers a QuestionUpdate. */
  readonly questions: boolean;
  /** The time limit that the watcher requested (milliseconds); null: none. */
  readonly lasts: number | null;
}

interface OpenStream extends WatchRequest {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly stream: WatchStream;
  readonly watch: Watch;
  ends: number;
  /** A fraction of the heartbeat. */
  readonly pace: number;
  recheck: number;
}

export interface WatchStreamsOptions {
  readonly hub: Hub;
  readonly authenticate: Authenticate;
  readonly now: () => number;
  /** Milliseconds since 1970. */
  readonly date: () => number;
  readonly onEvent: (event: ServerEvent) => void;
  readonly streams?: Partial<StreamsOptions>;
}

const TICK = 1000;
/** Milliseconds; 15,000 agents then reconnect at 125 a second. */
const SPREAD = 120_000;
/**
 * Watches that end a second when the server closes: thousands of agents that connect elsewhere all
 * at once would wait for each other's TLS handshakes. After `longest` milliseconds all have ended.
 */
const DRAIN = { perSecond: 300, longest: 6000, tick: 20 } as const;

/**
 * Without its Node object, no rule selects a node any more. This must not open the node: it is sent
 * nothing, and keeps its rules until a Node of its name exists again.
 */
const NODE_DELETED = 'the Node was deleted';

/**
 * Manages all watches: checks each once a second for keep-alives, slow watchers and expired
 * credentials.
 */
export class Streams {
  readonly #options: WatchStreamsOptions;
  readonly #settings: StreamsOptions;
  readonly #open = new Set<OpenStream>();
  readonly #byNode = new Map<string, OpenStream[]>();
  #sentBefore = 0;
  #cutOff = 0;
  readonly #stop: () => void;

  constructor(options: WatchStreamsOptions) {
    this.#options = options;
    this.#settings = { ...DEFAULTS, ...options.streams };
    this.#stop = this.#settings.every(TICK, () => {
      const time = this.#options.now();
      for (const one of this.#open) this.#check(one, time);
    });
  }

  /**
   * Ends each watch at a random time within `SPREAD`: where the agents connect next is drawn again.
   */
  spread(): void {
    const time = this.#options.now();
    for (const one of this.#open) one.ends = Math.min(one.ends, time + SPREAD * this.#settings.random());
  }

  /** Whether the limit of concurrent watches is reached. */
  get full(): boolean {
    return this.#open.size >= this.#settings.most;
  }

  open(request: IncomingMessage, response: ServerResponse, wanted: WatchRequest): void {
    const { node, resourceVersion, held, egress, lasts } = wanted;
    response.writeHead(200, {
      'content-type': 'application/json',
      'cache-control': 'no-store',
      connection: 'close',
    });
    const stream = new WatchStream(response, this.#options.now, this.#settings.limits);
    const send = (lines: readonly Line[]): void => {
      if (this.#options.hub.has(node)) stream.send(lines);
      else for (const open of this.#byNode.get(node) ?? []) this.#end(open, NODE_DELETED);
    };
    const watch = this.#options.hub.watch(node, resourceVersion, send, { held, egress });
    const time = this.#options.now();
    const one: OpenStream = {
      ...wanted,
      // Only needed at the start, and as large as a view.
      held: null,
      request,
      response,
      stream,
      watch,
      ends: lasts === null ? Number.POSITIVE_INFINITY : time + lasts,
      pace: 0.6 + 0.3 * this.#settings.random(),
      recheck: time + this.#settings.recheck * (0.75 + this.#settings.random() / 2),
    };
    this.#open.add(one);
    const others = this.#byNode.get(node) ?? [];
    this.#byNode.set(node, [...others, one]);
    // Only watches of the same user are ended, so that another user who may watch the node can't
    // end those of its agent.
    const own = others.filter(({ identity }) => identity.username === wanted.identity.username);
    for (const old of own.slice(0, Math.max(0, own.length + 1 - this.#settings.mostOfNode)))
      this.#end(old, 'newer watches of the node took its place');
    response.once('close', () => this.#end(one, 'the watcher disconnected'));
    this.#options.onEvent({ kind: 'watching', node, resourceVersion });
  }

  /** The Nodes whose agents make probes for others. */
  probers(): string[] {
    return [...this.#byNode.keys()].filter((node) => this.#proberOf(node) !== undefined);
  }

  /** To one watch of the node; false: there is none. */
  sendProbe(node: string, update: ProbeUpdate): boolean {
    return this.#ask(this.#proberOf(node), update);
  }

  /** To one watch of the node; false: there is none. */
  sendQuestion(node: string, update: QuestionUpdate): boolean {
    return this.#ask(
      this.#byNode.get(node)?.findLast(({ questions }) => questions),
      update,
    );
  }

  stats(): { readonly sentBytes: number; readonly unsentBytes: number; readonly cutOff: number } {
    let sentBytes = this.#sentBefore;
    let unsentBytes = 0;
    for (const { stream } of this.#open) {
      sentBytes += stream.sent;
      unsentBytes += stream.unsent;
    }
    return { sentBytes, unsentBytes, cutOff: this.#cutOff };
  }

  /**
   * Ends all watches, one after the other; those still open are served. Resolves after the last.
   */
  async close(): Promise<void> {
    const { perSecond, longest, tick } = DRAIN;
    const each = Math.ceil(tick * Math.max(perSecond / 1000, this.#open.size / longest));
    while (this.#open.size > 0) {
      for (const one of Iterator.from(this.#open).take(each)) this.#end(one, 'the controller stops');
      if (this.#open.size > 0) await sleep(tick);
    }
    this.#stop();
  }

  /** The newest: of an older one the agent may be gone. */
  #proberOf(node: string): OpenStream | undefined {
    return this.#byNode.get(node)?.findLast(({ probes }) => probes);
  }

  #ask(one: OpenStream | undefined, update: ProbeUpdate | QuestionUpdate): boolean {
    one?.stream.send([{ revision: this.#options.hub.revision, body: toBody(update) }]);
    return one !== undefined;
  }

  #end(one: OpenStream, reason: string): void {
    if (!this.#open.delete(one)) return;
    one.watch.close();
    this.#sentBefore += one.stream.sent;
    const others = (this.#byNode.get(one.node) ?? []).filter((other) => other !== one);
    if (others.length === 0) this.#byNode.delete(one.node);
    else this.#byNode.set(one.node, others);
    // Ends the response cleanly if the watcher has received everything.
    if (one.stream.unsent === 0) one.response.end();
    else one.response.destroy();
    this.#options.onEvent({ kind: 'ended', node: one.node, reason });
  }

  #check(one: OpenStream, time: number): void {
    const slow = one.stream.tooSlow();
    if (slow !== null) {
      this.#cutOff++;
      this.#end(one, `cut off: ${slow}`);
    } else if (this.#options.date() >= (one.identity.expires ?? Number.POSITIVE_INFINITY))
      this.#end(one, 'its token has expired');
    else if (time >= one.ends) this.#end(one, 'its time limit is reached');
    else if (time - one.stream.lastSent >= one.pace * this.#settings.heartbeat) one.watch.bookmark();
    if (time >= one.recheck) this.#checkAgain(one, time);
  }

  #checkAgain(one: OpenStream, time: number): void {
    one.recheck = time + this.#settings.recheck * (0.75 + this.#settings.random() / 2);
    this.#options.authenticate(one.request).then(
      (identity) => {
        const { username, extra } = one.identity;
        const same =
          identity?.username === username && JSON.stringify(identity.extra) === JSON.stringify(extra);
        if (!same) this.#end(one, 'its credentials are no longer valid');
      },
      // If the API server doesn't answer, the stream stays; the next check is soon enough.
      (error: unknown) => this.#options.onEvent({ kind: 'failed', path: one.request.url ?? '', error }),
    );
  }
}
