import type { LeaseAnswer, LeaseRequest } from '../../../apis/egress/lease.ts';
import type { Clock } from '../../../lib/process/clock.ts';
import type { FloatingKernel } from '../floating-kernel.ts';
import {
  INITIAL_LEASES,
  isAnyAlive,
  type LeaseEffect,
  type LeaseEvent,
  type LeaseState,
  type LeaseView,
} from './lease-state.ts';
import { leaseStep } from './lease-step.ts';

type Call = Extract<LeaseEffect, { kind: 'send' | 'take' | 'drop' | 'renew' }>;

/** A request's part about the process that sends it. */
export type Sender = Pick<LeaseRequest, 'node' | 'boot' | 'sent'>;

export interface LeaseKeeperParts {
  /** Called at the moment of sending. */
  readonly sender: () => Sender;
  /** Rejects if there is no answer in time. */
  readonly ask: (request: LeaseRequest) => Promise<LeaseAnswer>;
  readonly kernel: FloatingKernel;
  /** That of `kernel`. */
  readonly clock: Clock;
  readonly log: (level: 'info' | 'warn' | 'error', message: string, fields: object) => void;
  /** Called after each step. */
  readonly changed: (state: LeaseState) => void;
}

/** Until the kernel is read again after a failure (milliseconds). */
const READ_RETRY = 500;
/** Before it ends or removes its rules, a process waits no longer than this (milliseconds). */
const LONGEST_END = 3_000;

/** Keeps this node's leases: carries out the effects of leaseStep, and tells it the results. */
export class LeaseKeeper {
  readonly #parts: LeaseKeeperParts;
  #state: LeaseState = INITIAL_LEASES;
  #cancelTimer: () => void = () => {};
  #cancelRead: () => void = () => {};
  /** Called once the state is as they wait for. */
  readonly #waiting = new Set<{
    readonly until: (state: LeaseState) => boolean;
    readonly done: () => void;
  }>();

  constructor(parts: LeaseKeeperParts) {
    this.#parts = parts;
    void this.#read();
  }

  /** The controller's view, from its stream: an older one would name slots of others. */
  viewed(view: LeaseView): void {
    this.#happened({ kind: 'viewed', view });
  }

  /**
   * @param guarded the addresses for which the rules in force keep this node silent without a lease
   */
  enforced(guarded: ReadonlySet<string>): void {
    this.#happened({ kind: 'enforced', guarded });
  }

  /**
   * @param unready why this node is not ready, by gateway
   * @param unreachable gateway nodes that it cannot reach
   */
  health(unready: ReadonlyMap<string, string>, unreachable: readonly string[]): void {
    this.#happened({ kind: 'health', unready, unreachable });
  }

  /** Drops everything, for good. Resolves once nothing is alive. */
  async release(): Promise<void> {
    this.#happened({ kind: 'release' });
    await this.#until((state) => state.phase === 'starting' || !isAnyAlive(state));
  }

  /** Asks for the time that the next process needs. What is alive stays. */
  async close(): Promise<void> {
    this.#happened({ kind: 'stop' });
    await this.#until(({ phase }) => phase === 'ended');
    this.#cancelTimer();
    this.#cancelRead();
  }

  async #read(): Promise<void> {
    const { kernel, clock, log } = this.#parts;
    try {
      const live = await kernel.read();
      const now = clock.now();
      const alive = new Map(live.map(({ address, milliseconds }) => [address, now + milliseconds] as const));
      this.#happened({ kind: 'read', alive });
    } catch (error) {
      log('error', 'cannot read floating addresses from the kernel; trying again', fieldsOf(error));
      if (this.#state.phase !== 'ended') this.#cancelRead = clock.after(READ_RETRY, () => void this.#read());
    }
  }

  #happened(event: LeaseEvent): void {
    if (this.#state.phase === 'ended') return;
    const { state, effects } = leaseStep(this.#state, event, this.#parts.clock.now());
    this.#state = state;
    for (const effect of effects) this.#do(effect);
    this.#parts.changed(state);
    for (const one of this.#waiting) if (one.until(this.#state)) one.done();
  }

  #do(effect: LeaseEffect): void {
    if (effect.kind === 'arm') this.#arm(effect.at);
    else if (effect.kind === 'log') this.#parts.log(effect.level, effect.message, effect.fields);
    else void this.#result(effect).then((event) => this.#happened(event));
  }

  async #result(effect: Call): Promise<LeaseEvent> {
    try {
      return await this.#call(effect);
    } catch (thrown) {
      const { error } = fieldsOf(thrown);
      if (effect.kind === 'send') return { kind: 'unanswered', error };
      if (effect.kind === 'renew') return { kind: 'notRenewed', error };
      return { kind: 'failed', key: effect.key, error };
    }
  }

  async #call(effect: Call): Promise<LeaseEvent> {
    const { kernel, sender, ask } = this.#parts;
    switch (effect.kind) {
      case 'send': {
        const { grants } = await ask({ ...sender(), ...effect.request });
        return { kind: 'answered', grants };
      }
      case 'take': {
        const { key, addresses, until } = effect;
        return { kind: 'taken', key, conflicts: await kernel.take(addresses, until) };
      }
      case 'drop':
        await kernel.drop(effect.addresses);
        return { kind: 'dropped', key: effect.key };
      case 'renew':
        return { kind: 'renewed', ended: await kernel.renew(effect.renewals) };
    }
  }

  #arm(at: number): void {
    const { clock } = this.#parts;
    this.#cancelTimer();
    if (at === Number.POSITIVE_INFINITY) return;
    // A timer of Node.js has whole milliseconds, and may be early by a part of one.
    this.#cancelTimer = clock.after(Math.ceil(at - clock.now()), () => this.#happened({ kind: 'timer' }));
  }

  #until(until: (state: LeaseState) => boolean): Promise<void> {
    if (until(this.#state)) return Promise.resolve();
    return new Promise((resolve) => {
      const one = { until, done };
      const cancel = this.#parts.clock.after(LONGEST_END, done);
      const waiting = this.#waiting;
      function done(): void {
        cancel();
        waiting.delete(one);
        resolve();
      }
      waiting.add(one);
    });
  }
}

function fieldsOf(error: unknown): { readonly error: string } {
  return { error: error instanceof Error ? error.message : String(error) };
}
