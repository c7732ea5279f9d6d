import type { LeaseAnswer, LeaseGrant, LeaseRequest } from '../../apis/egress/lease.ts';
import type { Clock } from '../../lib/process/clock.ts';
import type { LeaseBatch, LeaseBatchAnswer } from '../publish/peer-calls.ts';

/** Leases of addresses, in the process of heartbeats. */
export interface LeaseExtension {
  granter(options: LeaseGranterOptions): LeaseGrants;
  /** Passes heartbeats on to the controller that leads. */
  relay(options: LeaseRelayOptions): LeasePasser;
}

export interface LeaseGrants extends LeaseOrders {
  /** Null: this controller does not lead. */
  grant(request: LeaseRequest): LeaseAnswer | null;
}

export interface LeasePasser {
  /** Null: no controller leads, as far as is known. */
  pass(request: LeaseRequest): Promise<LeaseAnswer | null>;
}

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

/** A slot as the API has it: nothing else is granted. */
export interface WrittenSlot {
  readonly gateway: string;
  readonly slot: string;
  /** The owner. */
  readonly node: string;
  readonly epoch: number;
  readonly addresses: readonly string[];
  /** The gateway's lease time in milliseconds. */
  readonly lease: number;
  /**
   * The longest lease that may be granted, or may have been, as the status says; at least `lease`.
   */
  readonly longest: number;
}

export interface LeaseRelayOptions {
  /** Resolves with the answers of the controller at `peer` (HOST:PORT); throws if it has none. */
  readonly send: (peer: string, batch: LeaseBatch) => Promise<LeaseBatchAnswer>;
  /** The other controllers, HOST:PORT each. */
  readonly peers: () => readonly string[];
  readonly clock: Clock;
}
