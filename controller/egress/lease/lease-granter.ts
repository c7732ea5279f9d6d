import type { LeaseAnswer, LeaseGrant, LeaseRequest } from '../../../apis/egress/lease.ts';
import type { Clock } from '../../../lib/process/clock.ts';
import { LeaseTable, type WrittenSlot } from './lease-table.ts';

/** The leader's statuses as orders for leases. */
export interface LeaseOrders {
  /**
   * Leadership begins.
   *
   * @param leases of all gateways, in milliseconds
   */
  begin(slots: readonly WrittenSlot[], leases: readonly number[]): void;
  setSlots(slots: readonly WrittenSlot[]): void;
  /** The nodes that there are. */
  keepNodes(nodes: ReadonlySet<string>): void;
  /** Nothing is granted until `begin`. */
  end(): void;
}

/** A heartbeat that was answered. */
export interface Taken {
  /** By the clock of the granter. */
  readonly at: number;
  readonly request: LeaseRequest;
  readonly grants: readonly LeaseGrant[];
}

export interface LeaseGranterOptions {
  readonly clock: Pick<Clock, 'now'>;
  /** Whether it is certain, at the time of the call, that no other process leads. */
  readonly isLeader: () => boolean;
  readonly answered: (answered: Taken) => void;
}

/** Answers heartbeats, by the slots as the API has them. Decides nothing about owners. */
export class LeaseGranter implements LeaseOrders {
  readonly #options: LeaseGranterOptions;
  readonly #table = new LeaseTable();
  #isServing = false;
  #nodes: ReadonlySet<string> | null = null;

  constructor(options: LeaseGranterOptions) {
    this.#options = options;
  }

  begin(slots: readonly WrittenSlot[], leases: readonly number[]): void {
    this.#table.begin(this.#options.clock.now(), slots, leases);
    this.#nodes = null;
    this.#isServing = true;
  }

  setSlots(slots: readonly WrittenSlot[]): void {
    if (!this.#isServing) return;
    this.#table.setSlots(slots);
    this.#forget();
  }

  keepNodes(nodes: ReadonlySet<string>): void {
    if (!this.#isServing) return;
    this.#nodes = nodes;
    this.#forget();
  }

  end(): void {
    this.#isServing = false;
    this.#table.end();
  }

  /** Null: this process does not lead, or not with certainty. */
  grant(request: LeaseRequest): LeaseAnswer | null {
    const { clock, isLeader, answered: taken } = this.#options;
    if (!this.#isServing || !isLeader()) return null;
    const at = clock.now();
    const grants = this.#table.grant(at, request);
    if (grants !== null) taken({ at, request, grants });
    // The work above takes time, and the process may have been stopped.
    return isLeader() ? { grants: grants ?? [] } : null;
  }

  #forget(): void {
    if (this.#nodes !== null) this.#table.forget(this.#options.clock.now(), this.#nodes);
  }
}
