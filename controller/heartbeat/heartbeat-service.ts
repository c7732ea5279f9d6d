import type { LeaseRequest } from '../../apis/heartbeat.ts';
import type { WallClock } from '../../lib/process/clock.ts';
import type { LeaseGrants, LeasePasser, LeaseRelayOptions, Taken } from '../extension/extension.ts';
import { LEASE_EXTENSION } from '../extension/leases.ts';
import { messageOf } from '../kubeapi/connection.ts';
import { Election } from '../kubeapi/lease/election.ts';
import type { LeaseStore } from '../kubeapi/lease/lease.ts';
import type { LeaseService } from '../publish/calls.ts';
import {
  type FromHeartbeats,
  type HeartbeatData,
  IDLE_TICK,
  LONGEST_SILENCE,
  TICK,
  type ToHeartbeats,
} from './messages.ts';

interface HeartbeatServiceOptions {
  readonly data: Pick<HeartbeatData, 'identity' | 'times'>;
  readonly store: LeaseStore;
  readonly relay: Pick<LeaseRelayOptions, 'send' | 'peers'>;
  /** monotonicClock, with the time of day. */
  readonly clock: WallClock;
  readonly random: () => number;
  readonly send: (message: FromHeartbeats) => void;
}

/**
 * Holds the Lease, and answers heartbeats of egress gateways, by what the controller decides. While
 * the controller's thread computes, both go on as they were decided last.
 */
export class HeartbeatService implements LeaseService {
  readonly #options: HeartbeatServiceOptions;
  readonly #election: Election;
  readonly #granter: LeaseGrants;
  readonly #relay: LeasePasser;
  /** The number of times that this process began to lead. */
  #term = 0;
  /** Whether the controller has begun to decide in this term. */
  #isServing = false;
  /** When the controller's thread turned last. */
  #aliveAt: number;

  constructor(options: HeartbeatServiceOptions) {
    const { data, store, relay, clock, random, send } = options;
    this.#options = options;
    this.#aliveAt = clock.now();
    this.#relay = LEASE_EXTENSION.relay({ ...relay, clock });
    this.#election = new Election({
      identity: data.identity,
      times: data.times,
      clock,
      random,
      store: this.#whileAlive(store),
      events: {
        leading: (until) => send({ kind: 'leading', term: ++this.#term, until }),
        renewed: (until) => send({ kind: 'renewed', until }),
        lost: (reason) => this.#lost(reason),
        leader: (holder) => send({ kind: 'leader', holder }),
        failed: (error) => send({ kind: 'failed', message: messageOf(error) }),
      },
    });
    this.#granter = LEASE_EXTENSION.granter({
      clock,
      isLeader: () => this.#election.isLeader(),
      answered: (taken) => this.#answered(taken),
    });
    this.#tick();
  }

  /** Messages that concern neither connections nor credentials; others are ignored. */
  receive(message: ToHeartbeats): void {
    switch (message.kind) {
      case 'alive':
        this.#aliveAt = this.#options.clock.now();
        break;
      case 'elect':
        this.#election.start();
        break;
      case 'look':
        this.#election.tryNow();
        break;
      case 'release':
        this.#end();
        void this.#election.release().then(() => this.#options.send({ kind: 'released' }));
        break;
      case 'begin':
        if (message.term !== this.#term || !this.#election.isLeader()) break;
        this.#granter.begin(message.slots, message.leases);
        this.#isServing = true;
        break;
      case 'slots':
        if (message.term === this.#term) this.#granter.setSlots(message.slots);
        break;
      case 'keepNodes':
        if (message.term === this.#term) this.#granter.keepNodes(message.names);
        break;
      case 'end':
        this.#end();
        break;
      case 'take':
        void this.#answer(message);
    }
  }

  answerAsLeader(request: LeaseRequest): ReturnType<LeaseGrants['grant']> {
    return this.#granter.grant(request);
  }

  async answer(request: LeaseRequest): ReturnType<LeaseService['answer']> {
    return this.#granter.grant(request) ?? (await this.#relay.pass(request));
  }

  /**
   * A controller whose thread does not turn decides nothing any more: the Lease is left to end, and
   * another controller takes it.
   */
  #whileAlive(store: LeaseStore): LeaseStore {
    const check = (): void => {
      const silence = this.#options.clock.now() - this.#aliveAt;
      if (silence <= LONGEST_SILENCE) return;
      throw new Error(`the controller has not turned for ${Math.round(silence / 1000)} s; left to another`);
    };
    return {
      read: (timeout) => store.read(timeout),
      async create(spec, timeout) {
        check();
        return await store.create(spec, timeout);
      },
      async replace(held, spec, timeout) {
        // Giving it up is always right.
        if (spec.holderIdentity !== '') check();
        return await store.replace(held, spec, timeout);
      },
    };
  }

  #lost(reason: string): void {
    // Decisions of another leader are not known here: only a new term goes on.
    this.#end();
    this.#options.send({ kind: 'lost', reason });
  }

  #end(): void {
    this.#isServing = false;
    this.#granter.end();
  }

  #answered(taken: Taken): void {
    this.#options.send({ kind: 'taken', term: this.#term, taken });
  }

  async #answer({ id, request, isPassedOn }: Extract<ToHeartbeats, { kind: 'take' }>): Promise<void> {
    const answer = isPassedOn ? await this.answer(request) : this.answerAsLeader(request);
    this.#options.send({ kind: 'answer', id, answer });
  }

  /** All heartbeats that were answered before it have been sent. */
  #tick(): void {
    const { clock, send } = this.#options;
    send({ kind: 'tick', at: clock.now() });
    clock.after(this.#isServing ? TICK : IDLE_TICK, () => this.#tick());
  }
}
