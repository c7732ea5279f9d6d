/** The agent's leases in simulated time, with the controller's table and with a stricter one. */
import assert from 'node:assert/strict';
import {
  INITIAL_LEASES,
  type LeaseEffect,
  type LeaseEvent,
  type LeaseState,
} from '../../agent/egress/lease/lease-state.ts';
import { leaseStep } from '../../agent/egress/lease/lease-step.ts';
import type { OwnedSlot } from '../../apis/egress/node-egress.ts';
import type { LeaseGrant, LeaseRequest } from '../../apis/heartbeat.ts';
import { LeaseTable } from '../../controller/egress/lease/lease-table.ts';
import type { WrittenSlot } from '../../controller/extension/extension.ts';
import { Process, World } from './leases/world.ts';

type Call = Extract<LeaseEffect, { kind: 'send' | 'take' | 'drop' | 'renew' }>;
type Request = Extract<LeaseEffect, { kind: 'send' }>['request'];

const GATEWAY = 'pool';
const LEASE = 2_000;
const ANSWER_WITHIN = 500;

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
class LeaseWorld extends World {
  readonly nodes: readonly SimulatedNode[];
  readonly slots = new Map<string, SimulatedSlot>();
  readonly leader: SimulatedLeader;
  /** No message is lost or late. */
  isCalm = false;
  /** The most nodes that answered for one address at one moment. */
  mostOwners = 0;

  constructor(seed: number, { nodes, slots, leader }: WorldOptions) {
    super(seed);
    this.leader = leader;
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

  /** Who answers for an address begins to in an event, and may end between two. */
  override at(time: number, run: () => void): () => void {
    return super.at(time, () => {
      run();
      for (const slot of this.slots.keys())
        this.mostOwners = Math.max(this.mostOwners, this.owners(slot).length);
    });
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
}

interface SimulatedSlot {
  owner: string;
  epoch: number;
  readonly address: string;
}

/** The side of the controller, as apis/heartbeat.ts has it. */
interface SimulatedLeader {
  setSlots(slots: readonly WrittenSlot[]): void;
  /** Null: the request is older than the last one. */
  grant(now: number, request: LeaseRequest): readonly LeaseGrant[] | null;
}

/**
 * With hardly a margin, so that faults of a few milliseconds are seen. Leases are extended at once.
 */
class StrictLeader implements SimulatedLeader {
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
  #streamed = 0;
  #streamSequence = 0;
  #view: LeaseEvent | null = null;
  #process: Process;
  #timer = 0;

  constructor(world: LeaseWorld, name: string) {
    this.#world = world;
    this.name = name;
    this.#process = new Process(world, 0);
    this.#begin();
  }

  answersFor(address: string): boolean {
    return this.#addresses.has(address) && (this.#elements.get(address) ?? 0) > this.#world.now;
  }

  /** SIGSTOP, and SIGCONT after this time. */
  freeze(milliseconds: number): void {
    this.#process.pause(milliseconds);
  }

  /** kill -9. */
  kill(): void {
    this.#process.isOver = true;
    this.state = { ...INITIAL_LEASES, phase: 'ended' };
  }

  start(): void {
    this.#process.isOver = true;
    this.#process = new Process(this.#world, 0);
    this.#begin();
  }

  #begin(): void {
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
    this.#world.after(this.#world.random() * 60, () => {
      if (this.isCutOff || sequence < this.#streamed) return;
      this.#streamed = sequence;
      this.#view = event;
      this.#then(0, () => this.#view);
    });
  }

  /** Something of this process goes on after this time, or later if it is stopped. */
  #then(milliseconds: number, toEvent: () => LeaseEvent | null): void {
    this.#process.after(milliseconds, () => {
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
    world.after(delay(), () => {
      if (isLost()) return;
      const grants = world.leader.grant(world.now, full) ?? [];
      world.after(delay(), () => {
        if (!isLost()) over({ kind: 'answered', grants });
      });
    });
  }
}

const LEADERS: Readonly<Record<string, () => SimulatedLeader>> = {
  'hardly a margin': () => new StrictLeader(),
  "the controller's": () => {
    const table = new LeaseTable();
    table.begin(0, [], []);
    return table;
  },
};

describe('leases of an agent', () => {
  for (const [name, newLeader] of Object.entries(LEADERS)) {
    it(`never has an address on two nodes, whatever stops, is cut off, moves or ends (${name})`, () => {
      for (let seed = 1; seed <= 30; seed++) {
        const world = disturbed(seed, newLeader());
        assert.equal(world.mostOwners, 1, `seed ${seed}`);
        for (const one of world.nodes) one.isCutOff = false;
        world.isCalm = true;
        world.publish();
        world.pass(45_000);
        for (const [slot, { owner }] of world.slots)
          assert.deepEqual(world.owners(slot), [owner], `seed ${seed}, slot ${slot}`);
      }
    });
  }
});

/** A minute with three nodes and four slots. */
function disturbed(seed: number, leader: SimulatedLeader): LeaseWorld {
  const world = new LeaseWorld(seed, { nodes: 3, slots: 4, leader });
  const { random, nodes } = world;
  const node = () => nodes[Math.floor(random() * nodes.length)] ?? assert.fail();
  for (let i = 0; i < 60; i++) {
    world.pass(random() * 2_000);
    const one = node();
    const chance = random();
    if (chance < 0.3) world.move(`${Math.floor(random() * 4)}`, node().name);
    else if (chance < 0.5) one.freeze(random() * 5_000);
    else if (chance < 0.65) one.isCutOff = !one.isCutOff;
    else if (chance < 0.8) {
      one.kill();
      world.after(random() * 3_000, () => one.start());
    } else if (chance < 0.9) {
      one.stop();
      world.after(1_000 + random() * 3_000, () => one.start());
    }
  }
  return world;
}
