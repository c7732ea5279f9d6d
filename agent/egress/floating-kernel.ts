import type { OwnedAddress } from '../../apis/egress/node-egress.ts';

/**
 * The kernel's part of floating addresses: called by lease/, implemented by floating/. An address
 * is alive while it is an element of the live sets; the kernel ends the element by itself.
 *
 * `until` is when the grant ends, by the monotonic clock of the process. The implementation turns
 * it into a timeout directly before it sends to the kernel, because the calls before that take time
 * (the conflict probe), and so may the process (SIGSTOP). Never is an address made alive after
 * `until`: where the time is over, the call throws FloatingLate and leaves nothing alive.
 *
 * Calls for different addresses may overlap; for one address they don't. A call that throws is made
 * again with the next heartbeat.
 */
export interface FloatingKernel {
  /** The addresses that are alive in the kernel now: a new process begins with them. */
  read(): Promise<readonly LiveAddress[]>;
  /**
   * In this order, so that a process that is stopped anywhere in between leaves nothing that
   * answers: conflict probe; an address left on an interface is deleted; live elements; `until` is
   * compared again; address on the interface; announcement, repeated while it is alive.
   *
   * @returns addresses for which another host answers; if there are any, none of the call is taken.
   */
  assign(addresses: readonly OwnedAddress[], until: number): Promise<readonly AddressConflict[]>;
  /**
   * Sets the timeouts of live elements, all in one batch on a socket of its own, as `delete` and
   * `add`: the deletion fails for an element that has ended, which so is never made alive again by
   * a grant that is old by the time the kernel sees it.
   *
   * @returns addresses that have ended; the others are renewed.
   */
  renew(renewals: readonly Renewal[]): Promise<readonly string[]>;
  /**
   * Called after renewals that another thread has made, with what they gave
   * (lease/lease-worker.ts).
   */
  renewed(renewals: readonly Renewal[]): void;
  /** Live element first, then the address. What isn't there is no error. */
  drop(addresses: readonly string[]): Promise<void>;
}

export interface LiveAddress {
  readonly address: string;
  /** The time left. */
  readonly milliseconds: number;
}

export interface Renewal {
  readonly address: string;
  readonly until: number;
}

export interface AddressConflict {
  readonly address: string;
  /** The MAC of the host that answered. */
  readonly mac: string;
}

/** The grant ended before the kernel had the address. */
export class FloatingLate extends Error {
  override readonly name = 'FloatingLate';
}
