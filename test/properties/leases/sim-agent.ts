import type { OwnedSlot } from '../../../apis/egress/node-egress.ts';
import {
  ASK_FOR_GRANT,
  type HeldSlot,
  type LeaseAnswer,
  type LeaseRequest,
} from '../../../apis/heartbeat.ts';
import { Process, type World } from './world.ts';

interface SimAgentOptions {
  readonly world: World;
  readonly node: string;
  readonly rateError: number;
  readonly send: (request: LeaseRequest, answered: (answer: LeaseAnswer) => void) => void;
  /** Called when an address becomes alive, or its end changes. */
  readonly lives: (address: string) => void;
}

/** What is alive in the kernel. */
interface Element {
  readonly slot: OwnedSlot;
  /** Of the world. */
  until: number;
}

const HEARTBEAT = 500;
/** Milliseconds until an agent gives a request up. */
const GIVE_UP = 1000;

/** A gateway node: its kernel, and an agent that keeps to apis/heartbeat.ts. */
export class SimAgent {
  readonly node: string;
  readonly #options: SimAgentOptions;
  readonly #world: World;
  /** The machine's clock, which is also the kernel's. */
  readonly #clock: Process;
  readonly kernel = new Map<string, Element>();
  #process: Process;
  #boot = 0;
  #owned: readonly OwnedSlot[] = [];
  /** What a new process begins with. */
  #seen: readonly OwnedSlot[] = [];
  /** When the request was sent, by the machine's clock; null: none is under way. */
  #pending: number | null = null;
  #wait: () => void = () => {};
  #extendSeconds = 0;
  /** Why it is not ready; null: it is. */
  unready: string | null = null;
  unreachable: readonly string[] = [];
  isOn = true;

  constructor(options: SimAgentOptions) {
    this.#options = options;
    this.node = options.node;
    this.#world = options.world;
    this.#clock = new Process(options.world, options.rateError);
    this.#process = this.#newProcess();
    this.#beat();
  }

  isAlive(address: string): boolean {
    return this.isOn && (this.kernel.get(address)?.until ?? 0) > this.#world.now;
  }

  /** The slots that its stream says are its own. */
  see(owned: readonly OwnedSlot[]): void {
    this.#seen = owned;
    if (this.isOn) this.#process.run(() => this.#use(owned));
  }

  pause(milliseconds: number): void {
    this.#process.pause(milliseconds);
  }

  /** Asks for a longer lease, ends when it has one, and begins again after that time. */
  restart(after: number): void {
    this.#extendSeconds = 30;
    this.#ask();
    this.#world.after(200, () => {
      this.#end();
      this.#world.after(after, () => this.#begin());
    });
  }

  kill(after: number): void {
    this.#end();
    this.#world.after(after, () => this.#begin());
  }

  /** The kernel loses everything. */
  reboot(after: number): void {
    this.#end();
    this.isOn = false;
    this.kernel.clear();
    this.#boot++;
    this.#world.after(after, () => {
      this.isOn = true;
      this.#begin();
    });
  }

  #end(): void {
    this.#process.isOver = true;
    this.#pending = null;
    this.#extendSeconds = 0;
  }

  #begin(): void {
    if (!this.isOn || !this.#process.isOver) return;
    this.#process = this.#newProcess();
    // The kernel has addresses without their slots.
    for (const [address, element] of this.kernel) {
      const slot = this.#seen.find(({ addresses }) => addresses.includes(address));
      if (slot !== undefined) this.kernel.set(address, { ...element, slot });
    }
    this.#use(this.#seen);
    this.#beat();
  }

  #newProcess(): Process {
    return new Process(this.#world, 0);
  }

  #use(owned: readonly OwnedSlot[]): void {
    this.#owned = owned;
    const mine = new Set(owned.flatMap(({ addresses }) => addresses));
    let isFreed = false;
    for (const address of this.kernel.keys()) {
      if (mine.has(address)) continue;
      this.kernel.delete(address);
      isFreed = true;
    }
    // A request under way says that they are alive: it is given up.
    if (isFreed) this.#pending = null;
    if (isFreed || this.#isWaiting()) this.#beat();
  }

  #isWaiting(): boolean {
    return this.#owned.some(({ addresses }) => addresses.some((address) => !this.isAlive(address)));
  }

  #beat(): void {
    this.#ask();
    const wait = this.#isWaiting() ? ASK_FOR_GRANT : HEARTBEAT;
    const process = this.#process;
    this.#wait();
    this.#wait = this.#world.after(this.#clock.toWorld(wait), () => process.run(() => this.#beat()));
  }

  #ask(): void {
    const sent = this.#clock.now();
    if (this.#process.isOver || (this.#pending !== null && sent - this.#pending < GIVE_UP)) return;
    this.#pending = sent;
    const process = this.#process;
    const request: LeaseRequest = {
      node: this.node,
      boot: `${this.node}-${this.#boot}`,
      sent,
      held: this.#held(),
      ready: ['g1', 'g2'].map((gateway) => {
        return this.unready === null
          ? { gateway, ready: true }
          : { gateway, ready: false, reason: this.unready };
      }),
      ...(this.unreachable.length === 0 ? {} : { unreachable: this.unreachable }),
      ...(this.#extendSeconds === 0 ? {} : { extendSeconds: this.#extendSeconds }),
    };
    this.#options.send(request, (answer) =>
      process.run(() => {
        if (this.#pending !== sent) return;
        this.#pending = null;
        this.#take(answer, sent);
      }),
    );
  }

  #held(): HeldSlot[] {
    const now = this.#world.now;
    const alive = [...this.kernel].filter(([, { until }]) => until > now);
    const bySlot = Map.groupBy(alive, ([, { slot }]) => `${slot.gateway}/${slot.slot}/${slot.epoch}`);
    return [...bySlot.values()].flatMap((elements) => {
      const slot = elements[0]?.[1].slot;
      if (slot === undefined) return [];
      const longest = Math.max(...elements.map(([, { until }]) => until - now));
      const addresses = elements.map(([address]) => address);
      const { gateway, slot: name, epoch } = slot;
      return [{ gateway, slot: name, epoch, addresses, milliseconds: this.#fromWorld(longest) }];
    });
  }

  #fromWorld(milliseconds: number): number {
    return milliseconds / this.#clock.toWorld(1);
  }

  #take({ grants }: LeaseAnswer, sent: number): void {
    for (const { gateway, slot, epoch, addresses, milliseconds } of grants) {
      const own = this.#owned.find((one) => one.gateway === gateway && one.slot === slot);
      const left = sent + milliseconds - this.#clock.now();
      if (own === undefined || left <= 0) continue;
      for (const address of addresses) {
        if (!own.addresses.includes(address)) continue;
        this.kernel.set(address, {
          slot: { ...own, epoch },
          until: this.#world.now + this.#clock.toWorld(left),
        });
        this.#options.lives(address);
      }
    }
  }
}
