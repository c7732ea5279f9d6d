/**
 * Messages between the agent's main thread and the thread of its leases. All times are those of
 * monotonicClock.
 */
import type { OwnedAddress } from '../../../apis/egress/node-egress.ts';
import type { Destination } from '../../receive/destinations.ts';
import type { AddressConflict, LiveAddress, Renewal } from '../floating-kernel.ts';
import type { LeaseView } from './lease-state.ts';

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

export type ToLeaseThread =
  | {
      readonly kind: 'access';
      /** CA certificates (PEM) for the controller's. */
      readonly authorities: string;
      /** At which the controller was reached. */
      readonly addresses: readonly string[];
      /** The controllers themselves. */
      readonly replicas: readonly Destination[];
    }
  | { readonly kind: 'viewed'; readonly view: LeaseView }
  /** Rules are in force: of the addresses of the view, those that they guard. */
  | { readonly kind: 'guarded'; readonly addresses: ReadonlySet<string> }
  | {
      readonly kind: 'health';
      readonly unready: ReadonlyMap<string, string>;
      readonly unreachable: readonly string[];
    }
  | { readonly kind: 'release' | 'close' }
  | { readonly kind: 'result'; readonly id: number; readonly value?: unknown; readonly error?: string };

/** The calls of FloatingKernel that the main thread makes. */
export interface KernelCalls {
  read(): Promise<readonly LiveAddress[]>;
  take(addresses: readonly OwnedAddress[], until: number): Promise<readonly AddressConflict[]>;
  drop(addresses: readonly string[]): Promise<void>;
}

export interface KernelCall {
  readonly kind: 'call';
  readonly id: number;
  readonly method: keyof KernelCalls;
  readonly addresses: readonly (OwnedAddress | string)[];
  readonly until: number;
}

export type FromLeaseThread =
  | KernelCall
  | { readonly kind: 'renewed'; readonly renewals: readonly Renewal[] }
  /** The controller's certificate is signed by none of the authorities. */
  | { readonly kind: 'refused' }
  | {
      readonly kind: 'log';
      readonly level: 'info' | 'warn' | 'error';
      readonly message: string;
      readonly fields: object;
    }
  | { readonly kind: 'counts'; readonly counts: LeaseCounts }
  /** `release` or `close` is done. */
  | { readonly kind: 'released' | 'closed' };

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
