import type { LeaseAnswer, LeaseRequest } from '../../../apis/heartbeat.ts';
import type { Clock } from '../../../lib/process/clock.ts';
import type { LiveSets } from '../floating/live-sets.ts';
import {
  type FromLeaseThread,
  INITIAL_LEASES,
  isAnyAlive,
  type LeaseEffect,
  type LeaseEvent,
  type LeaseState,
} from './lease-state.ts';
import { leaseStep } from './lease-step.ts';

export interface LeaseDriverOptions {
  /** Rejects if there is no answer in time. */
  readonly ask: (request: Pick<LeaseRequest, 'sent'> & SentRequest) => Promise<LeaseAnswer>;
  readonly live: Pick<LiveSets, 'renew'>;
  readonly clock: Clock;
  /** To the main thread. */
  readonly send: (message: FromLeaseThread) => void;
  /** Called after each step. */
  readonly changed: (state: LeaseState) => void;
}

type SentRequest = Extract<LeaseEffect, { kind: 'send' }>['request'];

/**
 * Carries out the effects of leaseStep, and gives it their results. Requests and renewals are made
 * here; `take` and `drop` go to the main thread, which answers with an event.
 */
export class LeaseDriver {
  readonly #options: LeaseDriverOptions;
  #state: LeaseState = INITIAL_LEASES;
  #cancelTimer: () => void = () => {};
  #isReleased = false;

  constructor(options: LeaseDriverOptions) {
    this.#options = options;
  }

  receive(event: LeaseEvent): void {
    if (this.#state.phase === 'ended') return;
    const { clock, changed, send } = this.#options;
    const { state, effects } = leaseStep(this.#state, event, clock.now());
    this.#state = state;
    for (const effect of effects) this.#carryOut(effect);
    changed(state);
    if (state.isReleased && !this.#isReleased && (state.phase === 'starting' || !isAnyAlive(state))) {
      this.#isReleased = true;
      send({ kind: 'released' });
    }
    if (state.phase !== 'ended') return;
    this.#cancelTimer();
    send({ kind: 'stopped' });
  }

  #carryOut(effect: LeaseEffect): void {
    switch (effect.kind) {
      case 'arm':
        this.#arm(effect.at);
        break;
      case 'send':
        void this.#ask(effect.request).then((event) => this.receive(event));
        break;
      case 'renew':
        void this.#renew(effect).then((event) => this.receive(event));
        break;
      default:
        this.#options.send(effect);
    }
  }

  async #ask(request: SentRequest): Promise<LeaseEvent> {
    const { ask, clock } = this.#options;
    try {
      const { grants } = await ask({ ...request, sent: clock.now() });
      return { kind: 'answered', grants };
    } catch (error) {
      return { kind: 'unanswered', error: (error as Error).message };
    }
  }

  async #renew({ renewals }: Extract<LeaseEffect, { kind: 'renew' }>): Promise<LeaseEvent> {
    const { live, send } = this.#options;
    try {
      const ended = await live.renew(renewals);
      send({ kind: 'renewed', renewals: renewals.filter(({ address }) => !ended.includes(address)) });
      return { kind: 'renewed', ended };
    } catch (error) {
      return { kind: 'notRenewed', error: (error as Error).message };
    }
  }

  #arm(at: number): void {
    const { clock } = this.#options;
    this.#cancelTimer();
    if (at === Number.POSITIVE_INFINITY) return;
    // A timer of Node.js has whole milliseconds, and may be early by a part of one.
    this.#cancelTimer = clock.after(Math.ceil(at - clock.now()), () => this.receive({ kind: 'timer' }));
  }
}
