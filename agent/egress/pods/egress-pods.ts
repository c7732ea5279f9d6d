import type { NodeState } from '../../../apis/compiled.ts';
import { BY_ADDRESS, type NodeEgress } from '../../../apis/egress/node-egress.ts';
import type { Clock } from '../../../lib/process/clock.ts';
import type { Log } from '../../../lib/process/log.ts';
import { BucketMap } from '../../../lib/sharing/bucket-map.ts';
import { changedIds } from '../../../lib/sharing/changed-map.ts';
import type { Enforced } from '../../apply/enforcer.ts';
import { type Envelope, withResolved } from '../../apply/envelope.ts';
import { linkLocal } from '../render/tunnel.ts';
import { AddressTable, movedArrivals, movedSources, type PodAttachment } from './attachment.ts';
import { type Claim, type ClaimMessage, type ClaimPort, peerAt, type ReceiveClaims } from './claim.ts';
import { AskedClaims, ClaimedArrivals } from './claimed-arrivals.ts';
import { CniCache } from './cni-cache.ts';
import { type ClaimedSources, PodClaims, withHeld } from './pod-claims.ts';

export interface EgressPodsOptions {
  readonly log: Log;
  readonly clock: Clock;
  /** The directory of libcni's results. */
  readonly results: string;
  /** Ends the connections that these addresses began. */
  readonly forget: (addresses: readonly string[]) => Promise<void>;
  /** Forgets only the connections of these that leave by this node as a gateway. */
  readonly forgetTaken: EgressPodsOptions['forget'];
  readonly openClaims: (log: Log, received: ReceiveClaims) => Promise<ClaimPort | null>;
  /** Names of nodes that do not answer through the tunnel. */
  readonly unreachable: () => readonly string[];
  /** Passes an envelope on, with the state as it is to be enforced. */
  readonly next: (envelope: Envelope) => void;
}

/** Milliseconds in which files, and datagrams of other nodes, are read together. */
const GATHER = 2;
/** Milliseconds that a plugin's result counts without a file of it. */
const WITHOUT_FILE = 120_000;
const NEVER = Number.POSITIVE_INFINITY;

type AllClaims = Pick<ClaimedSources, 'sources' | 'waiting'> & Pick<NodeEgress, 'arrivals'>;

/** A plugin's call that waits for its pod to be in force. */
interface Waiting {
  readonly attachment: PodAttachment;
  readonly resolve: () => void;
}

/**
 * Stands before the enforcer on a node with egress gateways: puts what CNI says of this node's
 * pods, and what other nodes claim for theirs, over what the controller says. Nothing is done for
 * states without egress gateways.
 */
export class EgressPods {
  readonly #options: EgressPodsOptions;
  readonly #table = new AddressTable();
  readonly #claims = new PodClaims();
  readonly #claimed = new ClaimedArrivals();
  readonly #cache: CniCache;
  #socket: ClaimPort | null = null;
  #isStarted = false;
  /** Plugins' results without a file, with when they came. */
  readonly #byPlugin = new Map<string, number>();
  /** The pods, by address, that a state was made for. */
  readonly #podsOf = new WeakMap<NodeEgress, ReadonlyMap<string, string>>();
  #base: Envelope | null = null;
  /** The state that was made last, and of which. */
  #made: { readonly from: Envelope; readonly state: NodeState } | null = null;
  #inForce: NodeEgress | null = null;
  readonly #asked = new AskedClaims();
  readonly #waiting = new Set<Waiting>();
  /** Addresses of pods that ended, until what the kernel has of them is what was made. */
  #ended: string[] = [];
  /** Those that came from another node before. */
  readonly #movedArrivals: string[] = [];
  #cancelGather: (() => void) | null = null;
  #cancelTimer: () => void = () => {};
  #isClosed = false;

  constructor(options: EgressPodsOptions) {
    this.#options = options;
    const { results: path, log, clock } = options;
    this.#cache = new CniCache({
      path,
      log,
      clock,
      changed: (name, attachment, at) => this.#fileChanged(name, attachment, at),
    });
  }

  /** Resolves once what CNI says now is known. */
  async start(): Promise<void> {
    await this.#cache.start();
    this.#isStarted = true;
    this.#tableChanged(true);
    this.#socket = await this.#options.openClaims(this.#options.log, (from, message) =>
      this.#received(from, message),
    );
  }

  submit(envelope: Envelope): void {
    const before = this.#baseEgress;
    this.#base = envelope;
    const now = this.#baseEgress;
    if (before !== undefined && now !== undefined) {
      const moved = movedSources(before, now);
      this.#ended.push(...moved.filter((address) => !this.#claims.has(address)));
      this.#movedArrivals.push(...movedArrivals(before, now));
    }
    this.#advance();
    void this.#clean();
  }

  /** A state as it is to be enforced now. */
  over(state: NodeState): NodeState {
    const { egress } = state;
    if (egress === undefined || egress.pods.size + egress.served.size === 0) return state;
    const now = this.#options.clock.now();
    const claimed = this.#claims.over(egress, now, this.#options.unreachable());
    const arrivals = this.#claimed.over(egress, now);
    this.#send(egress, 'claims', claimed.due);
    const ending = this.#claimed.next(now);
    this.#scheduleAdvance(Math.min(claimed.next ?? NEVER, ending ?? NEVER));
    const result = this.#withClaims(state, egress, { ...claimed, arrivals });
    if (result.egress !== undefined) this.#podsOf.set(result.egress, claimed.pods);
    return result;
  }

  /** The state itself, or the one that was made last, if that is what is made of it. */
  #withClaims(state: NodeState, egress: NodeEgress, { sources, waiting, arrivals }: AllClaims): NodeState {
    const before = this.#made?.state.egress;
    const made = withHeld(
      {
        ...egress,
        sources: same(sources, egress.sources, before?.sources),
        arrivals: same(arrivals, egress.arrivals, before?.arrivals),
      },
      waiting,
    );
    if (made.sources === egress.sources && made.arrivals === egress.arrivals) return state;
    if (this.#made?.from.resolved === state && isSame(made, before)) return this.#made.state;
    return { ...state, egress: made };
  }

  /** The part of an envelope that was passed on and is in force. */
  enforced({ resolved: { egress } }: Pick<Enforced, 'resolved'>): void {
    this.#inForce = egress ?? null;
    void this.#clean();
    const moved = this.#movedArrivals.splice(0);
    if (moved.length > 0) void this.#options.forgetTaken(moved);
    this.#answerAll();
    for (const one of this.#waiting) {
      if (!this.isReady(one.attachment)) continue;
      this.#waiting.delete(one);
      one.resolve();
    }
  }

  /**
   * A plugin says what CNI is about to make.
   * @returns resolves once the pod's connections go their way; `signal` ends the wait
   */
  add(attachment: PodAttachment, signal: AbortSignal): Promise<void> {
    const id = fileName(attachment);
    this.#byPlugin.set(id, this.#options.clock.now());
    this.#table.set(id, attachment, Number.POSITIVE_INFINITY);
    this.#tableChanged(false);
    if (this.isReady(attachment)) return Promise.resolve();
    return new Promise((resolve) => {
      const one = { attachment, resolve };
      this.#waiting.add(one);
      signal.addEventListener('abort', () => {
        this.#waiting.delete(one);
        resolve();
      });
    });
  }

  /** A plugin says that CNI removes it. */
  remove(attachment: PodAttachment): void {
    this.#byPlugin.delete(fileName(attachment));
    this.#table.delete(fileName(attachment));
    this.#tableChanged(false);
  }

  /** Whether the controller has named the pod. */
  isKnown({ pod }: Pick<PodAttachment, 'pod'>): boolean {
    return this.#baseEgress?.pods.has(pod) === true;
  }

  /** Whether the pod's addresses are in force with its class, or the cluster's gate is off. */
  isReady(attachment: PodAttachment): boolean {
    const { pod, addresses } = attachment;
    if (this.#base !== null && this.#baseEgress === undefined) return true;
    const id = this.#baseEgress?.pods.get(pod);
    if (id === undefined || !this.#table.has(fileName(attachment))) return false;
    if (id === BY_ADDRESS) return true;
    const sources = this.#inForce?.sources;
    // The address in force may still be of an earlier pod, and about to go. It is not known of a
    // state that was not made here: one from which policies were left out.
    const pods = this.#inForce === null ? undefined : this.#podsOf.get(this.#inForce);
    const isOwn = (address: string): boolean => pods === undefined || pods.get(address) === pod;
    return addresses.every((one) => sources?.has(one) === true && sources.get(one) === id && isOwn(one));
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#cancelTimer();
    this.#cancelGather?.();
    for (const { resolve } of this.#waiting) resolve();
    await this.#cache.close();
    await this.#socket?.close();
  }

  get #baseEgress(): NodeEgress | undefined {
    return this.#base?.resolved.egress;
  }

  #advance(): void {
    const from = this.#base;
    if (from === null || this.#isClosed) return;
    const state = this.over(from.resolved);
    if (from === this.#made?.from && state === this.#made.state) return;
    this.#made = { from, state };
    this.#options.next(withResolved(from, state));
  }

  #fileChanged(name: string, attachment: PodAttachment | null, at: number): void {
    const since = this.#byPlugin.get(name);
    if (attachment !== null) this.#byPlugin.delete(name);
    // The file of a plugin's result follows at the end of the whole chain.
    else if (since !== undefined && this.#options.clock.now() - since < WITHOUT_FILE) return;
    if (attachment === null) this.#table.delete(name);
    else this.#table.set(name, attachment, at);
    if (this.#isStarted) this.#soon();
  }

  #soon(): void {
    if (this.#isClosed) return;
    this.#cancelGather ??= this.#options.clock.after(GATHER, () => {
      this.#cancelGather = null;
      this.#tableChanged(false);
      this.#answerAll();
    });
  }

  #tableChanged(isFirst: boolean): void {
    const now = this.#options.clock.now();
    const egress = this.#baseEgress ?? null;
    this.#ended.push(...this.#claims.hasPods(this.#table.pods(), { egress, now, isFirst }));
    this.#advance();
    void this.#clean();
  }

  /**
   * Ends connections of pods that ended, once the kernel steers no new ones by what these pods were
   * given: such a connection would be the next pod's.
   */
  async #clean(): Promise<void> {
    const { ready = [], early = [] } = Object.groupBy(this.#ended, (address) =>
      this.#isInForceAsMade(address) ? 'ready' : 'early',
    );
    this.#ended = early;
    if (ready.length === 0) return;
    await this.#options.forget(ready);
    this.#claims.cleaned(ready);
    this.#advance();
  }

  #isInForceAsMade(address: string): boolean {
    if (this.#made === null) return false;
    const made = this.#made.state.egress?.sources;
    const inForce = this.#inForce?.sources;
    return inForce?.has(address) === made?.has(address) && inForce?.get(address) === made?.get(address);
  }

  /** In so many milliseconds again. */
  #scheduleAdvance(next: number): void {
    this.#cancelTimer();
    if (next !== NEVER && !this.#isClosed)
      this.#cancelTimer = this.#options.clock.after(Math.max(1, next), () => this.#advance());
  }

  #send(egress: NodeEgress, kind: ClaimMessage['kind'], due: ReadonlyMap<string, readonly Claim[]>): void {
    for (const [node, claims] of due) {
      const end = egress.peers.get(node);
      if (end !== undefined) this.#socket?.send(linkLocal(end.mac), kind, claims);
    }
  }

  #received(from: string, { kind, claims }: ClaimMessage): void {
    const egress = this.#baseEgress;
    const node = egress === undefined ? null : peerAt(egress, from);
    if (egress === undefined || node === null) return;
    const now = this.#options.clock.now();
    if (kind === 'inForce') for (const claim of claims) this.#claims.isInForce(node, claim, now);
    else void this.#acceptClaims(node, claims, egress);
    this.#soon();
  }

  /** As a gateway. */
  async #acceptClaims(node: string, claims: readonly Claim[], egress: NodeEgress): Promise<void> {
    const reused = this.#claimed.accept(node, claims, egress, this.#options.clock.now());
    if (reused.length > 0) await this.#options.forgetTaken(reused);
    this.#asked.ask(node, claims, this.#options.clock.now());
    this.#soon();
  }

  #answerAll(): void {
    const egress = this.#inForce;
    if (egress === null) return;
    this.#send(egress, 'inForce', this.#asked.answers(egress, this.#options.clock.now()));
  }
}

/** The name of libcni's file. */
function fileName({ network, container, interface: name }: PodAttachment): string {
  return `${network}-${container}-${name}`;
}

/** An equal one of the others, so that what is the same stays the same object. */
function same<T>(
  now: ReadonlyMap<string, T>,
  ...others: readonly (ReadonlyMap<string, T> | undefined)[]
): ReadonlyMap<string, T> {
  for (const other of others) {
    if (other === undefined || other.size !== now.size) continue;
    const comparable = now instanceof BucketMap ? BucketMap.of(other, now.buckets.length) : other;
    if (changedIds(comparable, now)[Symbol.iterator]().next().done === true) return other;
  }
  return now;
}

function isSame(a: NodeEgress, b: NodeEgress | undefined): boolean {
  return a.sources === b?.sources && a.arrivals === b.arrivals && a.classes === b.classes;
}
