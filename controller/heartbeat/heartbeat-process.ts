import { type ChildProcess, fork, type SendHandle } from 'node:child_process';
import { once } from 'node:events';
import { type AddressInfo, Socket } from 'node:net';
import { isDeepStrictEqual } from 'node:util';
import type { LeaseAnswer, LeaseRequest } from '../../apis/heartbeat.ts';
import { monotonicClock } from '../../lib/process/clock.ts';
import { siblingModule } from '../../lib/process/exit.ts';
import type { ListenAddress } from '../../lib/process/option-value.ts';
import type { LeaseOrders, Taken, WrittenSlot } from '../extension/extension.ts';
import type { CertificateAndKey } from '../kubeapi/certificates/issue.ts';
import type { Annotations } from '../kubeapi/lease/lease.ts';
import type { LeaseService } from '../publish/calls.ts';
import type { Acceptor } from '../publish/server.ts';
import {
  ALIVE,
  type FromHeartbeats,
  type HeartbeatData,
  LONGEST_SILENCE,
  type PeerPlaces,
  TICK,
  type ToHeartbeats,
} from './messages.ts';

interface HeartbeatEvents {
  /** This controller begins to lead. */
  leading(): void;
  /** It leads no more; not called after `release`. */
  lost(reason: string): void;
  /** The leader changed; '' if there is none. */
  leader(holder: string): void;
  /** The Lease could not be read or written; it is tried again. */
  failed(message: string): void;
  /** The status of an answer of the API server. */
  answered(status: number): void;
  /** A heartbeat was answered. */
  heartbeatAnswered(heartbeatAnswered: Taken): void;
  /** The process has ended: nothing goes on without it. */
  ended(error: Error): void;
}

interface HeartbeatProcessOptions {
  readonly data: HeartbeatData;
  /** Written with the Lease. */
  readonly annotations: () => Annotations;
  readonly peers: () => PeerPlaces;
  readonly events: HeartbeatEvents;
}

/** Megabytes of its heap: requests of 256 KiB, and the leases of all slots. */
const HEAP = 192;
/** Milliseconds: how late its word may be while this thread turns. */
const SLACK = 2 * TICK;

/**
 * The process that holds the Lease and answers heartbeats (heartbeat-child.ts). What this thread
 * computes delays neither; what it decides is passed on.
 */
export class HeartbeatProcess implements LeaseOrders, LeaseService {
  readonly #options: HeartbeatProcessOptions;
  readonly acceptor: Acceptor;
  #child: ChildProcess | null = null;
  #annotations: Annotations = {};
  #peers: PeerPlaces | null = null;
  #nodes: ReadonlySet<string> | null = null;
  /** The number of terms of leadership, and until when nobody else leads. */
  #term = 0;
  #until = Number.NEGATIVE_INFINITY;
  /** Whether heartbeats are answered by what this process decides. */
  #isServing = false;
  #tickedAt = 0;
  /** Intervals without a word of it. */
  #silent = 0;
  #alive: NodeJS.Timeout | null = null;
  #isClosed = false;
  #isElecting = false;
  #lastId = 0;
  readonly #asked = new Map<number, (answer: LeaseAnswer | null) => void>();
  #released: (() => void) | null = null;
  #listening: PromiseWithResolvers<AddressInfo> | null = null;
  #connected: (socket: Socket) => void = (socket) => void socket.destroy();

  constructor(options: HeartbeatProcessOptions) {
    this.#options = options;
    this.acceptor = {
      listen: (listen, connected) => this.#listen(listen, connected),
      stop: () => {
        this.#connected = (socket) => void socket.destroy();
        this.#send({ kind: 'stopListening' });
      },
    };
  }

  /** Undefined: it does not run. */
  get pid(): number | undefined {
    return this.#child?.pid;
  }

  start(): void {
    const child = fork(siblingModule(import.meta, 'heartbeat-child'), {
      execArgv: [`--max-old-space-size=${HEAP}`],
      serialization: 'advanced',
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    });
    this.#child = child;
    child.on('message', (message, socket) => this.#receive(message as FromHeartbeats, socket));
    child.on('error', () => {});
    child.once('exit', (code, signal) => this.#exited(signal ?? `status ${code}`));
    const { data, annotations } = this.#options;
    this.#annotations = annotations();
    this.#send({ kind: 'start', data, annotations: this.#annotations });
    this.#beat();
    this.#alive = setInterval(() => this.#beat(), ALIVE);
  }

  /** Takes part in the election. */
  elect(): void {
    this.#isElecting = true;
    this.update();
    this.#send({ kind: 'elect' });
  }

  /** Tries at once to get the Lease: it was released. */
  tryNow(): void {
    this.#send({ kind: 'look' });
  }

  /** Takes part no more, and gives the Lease up, so that another replica needn't wait. */
  async release(): Promise<void> {
    this.#until = Number.NEGATIVE_INFINITY;
    if (this.#child?.connected !== true || !this.#isElecting) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#released = resolve;
    this.#send({ kind: 'release' });
    await promise;
    this.#until = Number.NEGATIVE_INFINITY;
  }

  /** Evaluated at the current time: true only while no other replica can have become leader. */
  isLeader(): boolean {
    return this.#released === null && monotonicClock.now() < this.#until;
  }

  /**
   * The time up to which all heartbeats are known here that were answered: where this thread has
   * computed for long, no node counts as silent whose heartbeats it has not read yet.
   */
  now(): number {
    const now = monotonicClock.now();
    return this.#isServing ? Math.min(now, this.#tickedAt + SLACK) : now;
  }

  /** Must be called when annotations or other controllers may have changed. */
  update(): void {
    const [annotations, peers] = [this.#options.annotations(), this.#options.peers()];
    if (!isDeepStrictEqual(annotations, this.#annotations)) {
      this.#annotations = annotations;
      this.#send({ kind: 'annotations', annotations });
    }
    if (isDeepStrictEqual(peers, this.#peers)) return;
    this.#peers = peers;
    this.#send({ kind: 'peers', peers });
  }

  /** The Nodes that there are. */
  setNodes(nodes: Pick<ReadonlySet<string>, 'has' | 'size' | 'keys'>): void {
    if (nodes.size === this.#nodes?.size && [...this.#nodes].every((name) => nodes.has(name))) return;
    this.#nodes = new Set(nodes.keys());
    this.#send({ kind: 'nodes', names: [...this.#nodes] });
  }

  useTls({ key, certificate: cert }: CertificateAndKey): void {
    this.#send({ kind: 'tls', key, cert });
  }

  begin(slots: readonly WrittenSlot[], leases: readonly number[]): void {
    this.#isServing = true;
    this.#tickedAt = monotonicClock.now();
    this.#send({ kind: 'begin', term: this.#term, slots, leases });
  }

  setSlots(slots: readonly WrittenSlot[]): void {
    this.#send({ kind: 'slots', term: this.#term, slots });
  }

  keepNodes(names: ReadonlySet<string>): void {
    this.#send({ kind: 'keepNodes', term: this.#term, names });
  }

  end(): void {
    this.#isServing = false;
    this.#send({ kind: 'end' });
  }

  answer(request: LeaseRequest): Promise<LeaseAnswer | null> {
    return this.#ask(request, true);
  }

  answerAsLeader(request: LeaseRequest): Promise<LeaseAnswer | null> {
    return this.#ask(request, false);
  }

  async close(): Promise<void> {
    const child = this.#child;
    this.#isClosed = true;
    this.#until = Number.NEGATIVE_INFINITY;
    if (this.#alive !== null) clearInterval(this.#alive);
    if (child === null || child.exitCode !== null || child.signalCode !== null) return;
    const exited = once(child, 'exit');
    // It has given up all that it had to give up.
    child.kill('SIGKILL');
    await exited;
  }

  #ask(request: LeaseRequest, isPassedOn: boolean): Promise<LeaseAnswer | null> {
    if (this.#child?.connected !== true) return Promise.resolve(null);
    const id = ++this.#lastId;
    return new Promise((resolve) => {
      this.#asked.set(id, resolve);
      this.#send({ kind: 'take', id, request, isPassedOn });
    });
  }

  #listen(listen: ListenAddress, connected: (socket: Socket) => void): Promise<AddressInfo> {
    this.#connected = connected;
    this.#listening = Promise.withResolvers();
    this.#send({ kind: 'listen', listen });
    return this.#listening.promise;
  }

  #beat(): void {
    this.#send({ kind: 'alive' });
    this.update();
    // Counted, not measured: this process may have been stopped together with the other one.
    if (this.#silent++ * ALIVE > LONGEST_SILENCE) this.#child?.kill('SIGKILL');
  }

  #receive(message: FromHeartbeats, handle: SendHandle | undefined): void {
    const { events } = this.#options;
    this.#silent = 0;
    switch (message.kind) {
      case 'tick':
        this.#tickedAt = Math.max(this.#tickedAt, message.at);
        break;
      case 'leading':
        this.#term = message.term;
        this.#until = message.until;
        events.leading();
        break;
      case 'renewed':
        this.#until = message.until;
        break;
      case 'lost':
        this.#until = Number.NEGATIVE_INFINITY;
        events.lost(message.reason);
        break;
      case 'leader':
        events.leader(message.holder);
        break;
      case 'failed':
        events.failed(message.message);
        break;
      case 'answered':
        events.answered(message.status);
        break;
      case 'taken':
        // A message of an earlier term says nothing of this one's leases.
        if (message.term === this.#term && this.#isServing) events.heartbeatAnswered(message.taken);
        break;
      case 'answer':
        this.#asked.get(message.id)?.(message.answer);
        this.#asked.delete(message.id);
        break;
      case 'released':
        this.#released?.();
        break;
      case 'listening':
        this.#listening?.resolve(message);
        break;
      case 'cannotListen':
        this.#listening?.reject(new Error(message.message));
        break;
      case 'connection':
        if (!(handle instanceof Socket)) break;
        handle.unshift(message.bytes);
        this.#connected(handle);
    }
  }

  #exited(how: string): void {
    this.#until = Number.NEGATIVE_INFINITY;
    const error = new Error(`the process of the Lease and of heartbeats has ended (${how})`);
    this.#released?.();
    this.#listening?.reject(error);
    for (const answered of this.#asked.values()) answered(null);
    this.#asked.clear();
    if (!this.#isClosed) this.#options.events.ended(error);
  }

  #send(message: ToHeartbeats): void {
    if (this.#child?.connected === true) this.#child.send(message as object);
  }
}
