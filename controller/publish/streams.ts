import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { type HeldView, toBody } from '../../apis/held-view.ts';
import type { ProbeUpdate, QuestionUpdate } from '../../apis/stream.ts';
import type { Authenticate, Identity } from './auth.ts';
import type { Hub, Watch } from './hub.ts';
import { type Line, linePrefix } from './messages.ts';

/** Events for logs and metrics. */
export type ServerEvent =
  | { readonly kind: 'failed'; readonly path: string; readonly error: unknown }
  | { readonly kind: 'watching'; readonly node: string; readonly resourceVersion: string | null }
  | { readonly kind: 'ended'; readonly node: string; readonly reason: string };

/** Milliseconds and bytes. */
interface StreamLimits {
  /**
   * A watcher with more unsent bytes than this is too slow after the time `slow`. If a whole view
   * plus 64 KiB is more, that is the limit.
   */
  readonly unsent: number;
  readonly slow: number;
  /**
   * A watcher that receives no byte for this time is considered gone, whatever the state of its TCP
   * connection.
   */
  readonly stalled: number;
}

const STREAM_LIMITS: StreamLimits = { unsent: 4 << 20, slow: 10_000, stalled: 60_000 };

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

interface WatchStreamsOptions {
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

/**
 * The amount passed to the connection at a time (bytes): TLS encrypts into memory of each watcher,
 * and thousands of watchers may be blocked at the same time, in the middle of an address set of
 * megabytes.
 */
const SLICE = 32 << 10;

/**
 * The response to one watcher. Its queue only has references, because lines are shared. The head of
 * `response` must have been written; it is sent with the first lines. Nothing else may write to it.
 * Throws if the connection is closed.
 */
class WatchStream {
  readonly #response: ServerResponse;
  readonly #now: () => number;
  readonly #limits: StreamLimits;
  readonly #socket: Socket;
  #queue: Line[] = [];
  #next = 0;
  /** The number of bytes of the next line's body that have been passed on. */
  #offset = 0;
  #queued = 0;
  #sequence = 0;
  #sent = 0;
  #lastSent: number;
  #progress: number;
  #above: number | null = null;
  #most: number | null = null;

  constructor(response: ServerResponse, now: () => number, limits: StreamLimits) {
    this.#response = response;
    this.#now = now;
    this.#limits = limits;
    const { socket } = response;
    if (socket === null) throw new Error('the connection is closed');
    this.#socket = socket;
    this.#lastSent = now();
    this.#progress = this.#lastSent;
    const drained = (): void => this.#drained();
    socket.on('drain', drained);
    response.once('close', () => {
      socket.off('drain', drained);
      this.#queue = [];
      this.#next = 0;
      this.#queued = 0;
    });
  }

  send(lines: readonly Line[]): void {
    if (this.#response.writableEnded || this.#socket.destroyed) return;
    if (this.#unsent() === 0) this.#progress = this.#now();
    for (const line of lines) {
      this.#queue.push(line);
      this.#queued += line.body.length;
    }
    this.#most ??= Math.max(this.#limits.unsent, (64 << 10) + this.#queued);
    this.#lastSent = this.#now();
    this.#flush();
  }

  /** Bytes that the kernel has not accepted yet. */
  get unsent(): number {
    return this.#unsent();
  }

  /**
   * Bytes passed to the connection so far: lines with their prefixes, without the overhead of HTTP
   * and TLS.
   */
  get sent(): number {
    return this.#sent;
  }

  /** The time when lines were last queued, by the caller's clock (milliseconds). */
  get lastSent(): number {
    return this.#lastSent;
  }

  /**
   * The reason if the watcher is too slow to be kept, else null; must be called about once a
   * second.
   */
  tooSlow(): string | null {
    const waiting = this.#unsent();
    const time = this.#now();
    this.#above = waiting > (this.#most ?? this.#limits.unsent) ? (this.#above ?? time) : null;
    if (this.#above !== null && time - this.#above > this.#limits.slow)
      return `${waiting} bytes are unsent since ${Math.round((time - this.#above) / 1000)} s`;
    if (waiting > 0 && time - this.#progress > this.#limits.stalled)
      return `it has received nothing for ${Math.round((time - this.#progress) / 1000)} s`;
    return null;
  }

  /** Writes one HTTP chunk, in one write to the connection, for any number of lines. */
  #handOver(): void {
    let size = 0;
    // The response's own cork combines a chunk, but uncorks the socket before it writes; so the
    // socket is corked here.
    this.#socket.cork();
    this.#response.cork();
    while (size < SLICE) {
      const line = this.#queue[this.#next];
      if (line === undefined) break;
      if (this.#offset === 0) {
        const prefix = linePrefix(++this.#sequence, line);
        this.#response.write(prefix, 'latin1');
        size += prefix.length;
        this.#sent += prefix.length;
      }
      const part = line.body.subarray(this.#offset, this.#offset + SLICE);
      this.#response.write(part);
      size += part.length;
      this.#sent += part.length;
      this.#queued -= part.length;
      this.#offset += part.length;
      if (this.#offset < line.body.length) continue;
      this.#offset = 0;
      this.#next++;
    }
    this.#response.uncork();
    this.#socket.uncork();
  }

  #flush(): void {
    while (
      this.#next < this.#queue.length &&
      !this.#socket.writableNeedDrain &&
      !this.#socket.destroyed &&
      !this.#response.writableEnded
    )
      this.#handOver();
    if (this.#next === this.#queue.length) this.#queue = [];
    else this.#queue = this.#queue.slice(this.#next);
    this.#next = 0;
  }

  #drained(): void {
    this.#progress = this.#now();
    this.#flush();
  }

  #unsent(): number {
    return this.#queued + this.#socket.writableLength;
  }
}
