/**
 * Messages between the agent's main thread and the thread of its leases. All times are those of
 * monotonicClock.
 */
import type { Destination } from '../../receive/destinations.ts';
import type { Renewal } from '../floating-kernel.ts';
import type { LeaseEffect, LeaseEvent } from './lease-state.ts';

/** workerData. */
export interface LeaseThreadData {
  readonly node: string;
  readonly boot: string;
  /** https://HOST:PORT of the controller. */
  readonly url: string;
  readonly tokenFile: string;
  readonly userAgent: string;
  /** Where the CA certificates are from, for messages. */
  readonly origin: string;
}

/** How the thread reaches the controllers. */
export interface LeaseAccess {
  readonly kind: 'access';
  /** CA certificates (PEM) for the controller's. */
  readonly authorities: string;
  /** At which the controller was reached. */
  readonly addresses: readonly string[];
  /** The controllers themselves. */
  readonly replicas: readonly Destination[];
}

/** The events that the main thread sees. The others happen in the thread itself. */
export type ToLeaseThread =
  | LeaseAccess
  | Extract<
      LeaseEvent,
      {
        kind: 'read' | 'viewed' | 'enforced' | 'health' | 'taken' | 'dropped' | 'failed' | 'release' | 'stop';
      }
    >;

/** Calls of the kernel that the main thread makes; it answers `taken`, `dropped` or `failed`. */
export type KernelCall = Extract<LeaseEffect, { kind: 'take' | 'drop' }>;

export type FromLeaseThread =
  | KernelCall
  | Extract<LeaseEffect, { kind: 'log' }>
  | { readonly kind: 'renewed'; readonly renewals: readonly Renewal[] }
  /** The controller's certificate is signed by none of the authorities. */
  | { readonly kind: 'refused' }
  | { readonly kind: 'counts'; readonly counts: LeaseCounts }
  /** After `release`: nothing is alive. After `stop`: the thread ends. */
  | { readonly kind: 'released' | 'stopped' };

/** For metrics. */
export interface LeaseCounts {
  /** Floating addresses that are alive on this node. */
  readonly alive: number;
  /** Slots that are this node's and wait for a grant. */
  readonly waiting: number;
  /** Slots that can't be taken: another host has an address, or calls of the kernel fail. */
  readonly hindered: number;
  /** The last request was answered. */
  readonly isAnswered: boolean;
}
