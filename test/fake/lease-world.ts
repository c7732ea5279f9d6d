import {
  INITIAL_LEASES,
  type LeaseEffect,
  type LeaseEvent,
  type LeaseState,
} from '../../agent/egress/lease/lease-state.ts';
import { leaseStep } from '../../agent/egress/lease/lease-step.ts';
import type { OwnedSlot } from '../../apis/egress/node-egress.ts';
import type { LeaseGrant, LeaseRequest } from '../../apis/heartbeat.ts';
import type { WrittenSlot } from '../../controller/extension/extension.ts';

type Call = Extract<LeaseEffect, { kind: 'send' | 'take' | 'drop' | 'renew' }>;
type Request = Extract<LeaseEffect, { kind: 'send' }>['request'];

const GATEWAY = 'pool';
export const LEASE = 2_000;
const ANSWER_WITHIN = 500;

/** The random numbers of a seed, from 0 to 1 (mulberry32). */
function randomOf(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}

interface WorldOptions {
  readonly nodes: number;
  readonly slots: number;
  readonly leader: SimulatedLeader;
}

/**
 * Nodes with the real leaseStep, kernels whose elements end by themselves, and a leader, in
 * simulated time. Processes stop and go on anywhere, also between
 * the moment when a timeout is computed and the one when the kernel gets it; messages are delayed
 * and lost. After each event, no address may be answered for by two nodes.
 */
export class LeaseWorld {
  readonly random: () => number;
  readonly nodes: readonly SimulatedNode[];
  readonly slots = new Map<string, SimulatedSlot>();
  readonly leader: SimulatedLeader;
  now = 0;
  /** No message is lost or late. */
  isCalm = false;
  /** The most nodes that answered for one address at one moment. */
  mostOwners = 0;
  #sequence = 0;
  readonly #queue: { at: number; sequence: number; run: () => void }[] = [];

  constructor(seed: number, { nodes, slots, leader }: WorldOptions) {
    this.leader = leader;
    this.random = randomOf(seed);
    for (let i = 0; i < slots; i++) {
      this.slots.set(`${i}`, {
        owner: `node-${i % nodes}`,
        epoch: 1,
        address: `192.0.2.${i + 1}`,
      });
    }
    this.nodes = Array.from({ length: nodes }, (_, i) => new SimulatedNode(this, `node-${i}`));
    this.publish();
  }

  at(milliseconds: number, run: () => void): void {
    this.#queue.push({ at: this.now + milliseconds, sequence: this.#sequence++, run });
  }

  run(milliseconds: number): void {
    const end = this.now + milliseconds;
    for (;;) {
      let first = -1;
      for (const [i, one] of this.#queue.entries()) {
        const best = this.#queue[first];
        if (best === undefined || one.at < best.at || (one.at === best.at && one.sequence < best.sequence))
          first = i;
      }
      const next = this.#queue[first];
      if (next === undefined || next.at > end) break;
      this.#queue.splice(first, 1);
      // The kernel's elements end between events too.
      this.#look();
      this.now = next.at;
      next.run();
      this.#look();
    }
    this.now = end;
  }

  owners(slot: string): string[] {
    const { address } = this.#slot(slot);
    return this.nodes.filter((node) => node.answersFor(address)).map(({ name }) => name);
  }

  move(slot: string, owner: string): void {
    const one = this.#slot(slot);
    if (one.owner === owner) return;
    Object.assign(one, { owner, epoch: one.epoch + 1 });
    this.publish();
  }

  /** Sends each node its view, with a delay of its own; later views overtake no earlier ones. */
  publish(): void {
    this.leader.setSlots(
      [...this.slots].map(([slot, { owner, epoch, address }]) => ({
        gateway: GATEWAY,
        slot,
        node: owner,
        epoch,
        addresses: [address],
        lease: LEASE,
        longest: 30_000,
      })),
    );
    for (const node of this.nodes) {
      const owned = [...this.slots]
        .filter(([, { owner }]) => owner === node.name)
        .map(([slot, { epoch, address }]): OwnedSlot => {
          const fixed = { gateway: GATEWAY, announce: 'L2', leaseMilliseconds: LEASE } as const;
          return { ...fixed, slot, epoch, addresses: [address] };
        });
      const candidacies = [{ gateway: GATEWAY, heartbeatMilliseconds: 500 }];
      node.stream({ kind: 'viewed', view: { candidacies, owned } });
    }
  }

  #slot(slot: string): SimulatedSlot {
    const one = this.slots.get(slot);
    if (one === undefined) throw new Error(`no slot ${slot}`);
    return one;
  }

  #look(): void {
    for (const slot of this.slots.keys())
      this.mostOwners = Math.max(this.mostOwners, this.owners(slot).length);
  }
}

interface SimulatedSlot {
  owner: string;
  epoch: number;
  readonly address: string;
}

/** The side of the controller, as apis/heartbeat.ts has it. */
export interface SimulatedLeader {
  setSlots(slots: readonly WrittenSlot[]): void;
  /** Null: the request is older than the last one. */
  grant(now: number, request: LeaseRequest): readonly LeaseGrant[] | null;
}

/**
 * With hardly a margin, so that faults of a few milliseconds are seen. Leases are extended at once.
 */
export class StrictLeader implements SimulatedLeader {
  readonly #holders = new Map<string, { readonly node: string; until: number }>();
  readonly #sent = new Map<string, number>();
  #slots: readonly WrittenSlot[] = [];

  setSlots(slots: readonly WrittenSlot[]): void {
    this.#slots = slots;
  }

  grant(now: number, { node, sent, held, extendSeconds }: LeaseRequest): LeaseGrant[] | null {
    if (sent <= (this.#sent.get(node) ?? Number.NEGATIVE_INFINITY)) return null;
    this.#sent.set(node, sent);
    return this.#slots.flatMap(({ gateway, slot, epoch, addresses, node: owner, lease }) => {
      const claim = held.find((candidate) => candidate.slot === slot);
      const before = this.#holders.get(slot);
      if (before?.node === node) {
        if (claim !== undefined) before.until = Math.max(before.until, now + claim.milliseconds);
        else this.#holders.delete(slot);
      }
      const holder = this.#holders.get(slot);
      if (owner !== node || (holder !== undefined && holder.node !== node && now < holder.until + 2))
        return [];
      const milliseconds = extendSeconds === undefined ? lease : extendSeconds * 1000;
      this.#holders.set(slot, {
        node,
        until: Math.max(holder?.node === node ? holder.until : 0, now + milliseconds),
      });
      return [{ gateway, slot, epoch, addresses, milliseconds }];
    });
  }
}

class SimulatedNode {
  readonly name: string;
  readonly #world: LeaseWorld;
  /** Element → its end, and the addresses of the interface: what a killed process leaves. */
  readonly #elements = new Map<string, number>();
  readonly #addresses = new Set<string>();
  state: LeaseState = INITIAL_LEASES;
  isCutOff = false;
  #stoppedUntil = 0;
  #streamed = 0;
  #streamSequence = 0;
  #view: LeaseEvent | null = null;
  /** Of the process: what an earlier one had begun counts no more. */
  #process = 0;
  #timer = 0;

  constructor(world: LeaseWorld, name: string) {
    this.#world = world;
    this.name = name;
    this.start();
  }

  answersFor(address: string): boolean {
    return this.#addresses.has(address) && (this.#elements.get(address) ?? 0) > this.#world.now;
  }

  /** SIGSTOP, and SIGCONT after this time. */
  freeze(milliseconds: number): void {
    this.#stoppedUntil = Math.max(this.#stoppedUntil, this.#world.now + milliseconds);
  }

  /** kill -9. */
  kill(): void {
    this.#process++;
    this.state = { ...INITIAL_LEASES, phase: 'ended' };
  }

  start(): void {
    this.#process++;
    this.state = INITIAL_LEASES;
    this.#happened({
      kind: 'enforced',
      guarded: new Set([...this.#world.slots.values()].map(({ address }) => address)),
    });
    const now = this.#world.now;
    this.#then(5, () => ({
      kind: 'read',
      alive: new Map([...this.#elements].filter(([, end]) => end > now)),
    }));
    if (this.#view !== null) this.#then(20, () => this.#view ?? { kind: 'timer' });
  }

  stop(): void {
    this.#happened({ kind: 'stop' });
  }

  stream(event: LeaseEvent): void {
    const sequence = ++this.#streamSequence;
    this.#world.at(this.#world.random() * 60, () => {
      if (this.isCutOff || sequence < this.#streamed) return;
      this.#streamed = sequence;
      this.#view = event;
      this.#then(0, () => this.#view);
    });
  }

  /** Something of this process goes on after this time, or later if it is stopped. */
  #then(milliseconds: number, toEvent: () => LeaseEvent | null): void {
    const process = this.#process;
    this.#world.at(milliseconds, () => {
      if (process !== this.#process) return;
      const wait = this.#stoppedUntil - this.#world.now;
      if (wait > 0) return this.#then(wait, toEvent);
      const event = toEvent();
      if (event !== null) this.#happened(event);
    });
  }

  #happened(event: LeaseEvent): void {
    if (this.state.phase === 'ended') return;
    const { state, effects } = leaseStep(this.state, event, this.#world.now);
    this.state = state;
    for (const effect of effects) {
      if (effect.kind === 'arm') {
        const timer = ++this.#timer;
        if (effect.at < Number.POSITIVE_INFINITY)
          this.#then(effect.at - this.#world.now, () => (timer === this.#timer ? { kind: 'timer' } : null));
      } else if (effect.kind !== 'log') this.#call(effect);
    }
  }

  #call(effect: Call): void {
    const soon = 1 + this.#world.random() * 100;
    switch (effect.kind) {
      case 'send':
        this.#send(effect.request);
        break;
      case 'take':
        this.#take(effect);
        break;
      case 'drop':
        this.#then(soon, () => {
          for (const address of effect.addresses) {
            this.#elements.delete(address);
            this.#addresses.delete(address);
          }
          return { kind: 'dropped', key: effect.key };
        });
        break;
      case 'renew':
        this.#then(soon, () => this.#renew(effect));
    }
  }

  #renew({ renewals }: Extract<Call, { kind: 'renew' }>): null {
    const computed = renewals.map(({ address, until }) => ({ address, left: until - this.#world.now }));
    this.#then(0.1, () => {
      const ended: string[] = [];
      for (const { address, left } of computed) {
        const end = this.#elements.get(address) ?? 0;
        if (end <= this.#world.now || left <= 0) ended.push(address);
        else this.#elements.set(address, this.#world.now + left);
      }
      return { kind: 'renewed', ended };
    });
    return null;
  }

  /** As FloatingKernel.take has it, with moments in between at which the process may be stopped. */
  #take({ key, addresses: owned, until }: Extract<Call, { kind: 'take' }>): void {
    const addresses = owned.map(({ address }) => address);
    const late: LeaseEvent = { kind: 'failed', key, error: 'late' };
    this.#then(30, () => {
      for (const address of addresses) this.#addresses.delete(address);
      const left = until - this.#world.now;
      if (left <= 0) return late;
      this.#then(0.1, () => {
        for (const address of addresses) this.#elements.set(address, this.#world.now + left);
        this.#then(0.1, () => {
          if (until <= this.#world.now) {
            for (const address of addresses) this.#elements.delete(address);
            return late;
          }
          this.#then(0.1, () => {
            for (const address of addresses) this.#addresses.add(address);
            return { kind: 'taken', key, conflicts: [] };
          });
          return null;
        });
        return null;
      });
      return null;
    });
  }

  #send(request: Request): void {
    const world = this.#world;
    const delay = (): number => 1 + world.random() * (world.random() < 0.05 && !world.isCalm ? 900 : 15);
    let isOver = false;
    const over = (event: LeaseEvent): void => {
      this.#then(0, () => {
        if (isOver) return null;
        isOver = true;
        return event;
      });
    };
    this.#then(ANSWER_WITHIN, () => {
      if (!isOver) over({ kind: 'unanswered', error: 'timeout' });
      return null;
    });
    const isLost = (): boolean => this.isCutOff || (!world.isCalm && world.random() < 0.02);
    const full = { ...request, node: this.name, boot: 'boot', sent: world.now };
    world.at(delay(), () => {
      if (isLost()) return;
      const grants = world.leader.grant(world.now, full) ?? [];
      world.at(delay(), () => {
        if (!isLost()) over({ kind: 'answered', grants });
      });
    });
  }
}
