import {
  type Candidacy,
  type OwnedAddress,
  type OwnedSlot,
  slotKey,
} from '../../../apis/egress/node-egress.ts';
import type { LeaseGrant, LeaseRequest } from '../../../apis/heartbeat.ts';
import type { Destination } from '../../receive/destinations.ts';
import type { AddressConflict, Renewal } from '../floating-kernel.ts';

/** The part of the controller's view that leases need. */
export interface LeaseView {
  readonly candidacies: readonly Pick<Candidacy, 'gateway' | 'heartbeatMilliseconds'>[];
  readonly owned: readonly OwnedSlot[];
}

/** A slot that is wanted here, or may be alive in this node's kernel. */
export interface SlotLease {
  readonly gateway: string;
  readonly slot: string;
  /** Null: it is not this node's by the stream. */
  readonly wanted: OwnedSlot | null;
  /** The epoch of the newest grant. */
  readonly epoch: number;
  /** The addresses of the newest grant. */
  readonly granted: ReadonlySet<string>;
  /** When the newest grant ends; -Infinity: none. */
  readonly until: number;
  /** The addresses that may be alive in the kernel, or on an interface. */
  readonly live: ReadonlySet<string>;
  /** No element of them is alive in the kernel after this. */
  readonly aliveUntil: number;
  /** The end that the elements were given last, where all have the same; else NaN. */
  readonly renewedUntil: number;
  /** The call of FloatingKernel that runs for this slot; there is one at a time. */
  readonly call: {
    readonly kind: 'take' | 'drop';
    readonly addresses: ReadonlySet<string>;
  } | null;
  /**
   * Some of `live` that must be dropped before they are taken again: a call failed, or they ended.
   */
  readonly unsure: ReadonlySet<string>;
  /** Nothing is taken before this: the last time it failed, or there was a conflict. */
  readonly retryAt: number;
  /** Nothing is dropped before this: the last time it failed. */
  readonly redropAt: number;
  /** The calls that failed since the last one that did not. */
  readonly failures: number;
  readonly lastError: string | null;
  /** Why it can't be taken here, as the reason of a condition; null: it can, as far as is known. */
  readonly hindrance: 'AddressConflict' | 'AddressNotTaken' | null;
  /** Since when it waits for a grant; null: it has one, or is not wanted. */
  readonly waitsSince: number | null;
}

/** The whole state of this node's leases. Only a step makes a new one. */
export interface LeaseState {
  /**
   * starting: until the kernel was read and the controller has said which slots are this node's. No
   * request is sent before, because it would not name all that is alive.
   */
  readonly phase: 'starting' | 'running' | 'stopping' | 'ended';
  /** Alive when this process began, with their ends; null: the kernel was not read yet. */
  readonly found: ReadonlyMap<string, number> | null;
  readonly view: LeaseView | null;
  /** By slotKey. */
  readonly slots: ReadonlyMap<string, SlotLease>;
  /**
   * The addresses for which the rules in force keep this node silent without a lease; null: no
   * rules of this process are in force.
   */
  readonly guarded: ReadonlySet<string> | null;
  /** The rules are to be removed: nothing may stay alive. */
  readonly isReleased: boolean;
  /** Why this node is not ready, by gateway. */
  readonly unready: ReadonlyMap<string, string>;
  /** Gateway nodes that this node does not reach. */
  readonly unreachable: readonly string[];
  /** The last request named some: one more follows when there are none. */
  readonly isUnreachableKnown: boolean;
  readonly request: { readonly sentAt: number; readonly isExtension: boolean } | null;
  readonly lastSentAt: number;
  /** Something changed that the leader waits for. */
  readonly isUrgent: boolean;
  /** After a failure, the next request comes no later. */
  readonly resendAt: number;
  /** The renewal that runs, with the end that each slot gets by it; null: none runs. */
  readonly renewing: { readonly startedAt: number; readonly ends: ReadonlyMap<string, number> } | null;
  readonly renewRetryAt: number;
  /** Since when no request was answered; null: the last one was. */
  readonly awaySince: number | null;
  readonly isAwayLogged: boolean;
  /** When `stop` came; null: it did not. */
  readonly stoppedAt: number | null;
  /** No extension is asked for any more: it was granted, or refused. */
  readonly isExtended: boolean;
}

export type LeaseEvent =
  /** The kernel was read: what is alive, with its end. */
  | { readonly kind: 'read'; readonly alive: ReadonlyMap<string, number> }
  | { readonly kind: 'viewed'; readonly view: LeaseView }
  /** Rules are in force. */
  | { readonly kind: 'enforced'; readonly guarded: ReadonlySet<string> }
  | {
      readonly kind: 'health';
      readonly unready: ReadonlyMap<string, string>;
      readonly unreachable: readonly string[];
    }
  | { readonly kind: 'answered'; readonly grants: readonly LeaseGrant[] }
  | { readonly kind: 'unanswered'; readonly error: string }
  | { readonly kind: 'taken'; readonly key: string; readonly conflicts: readonly AddressConflict[] }
  | { readonly kind: 'dropped'; readonly key: string }
  /** The call for this slot failed. */
  | { readonly kind: 'failed'; readonly key: string; readonly error: string }
  | { readonly kind: 'renewed'; readonly ended: readonly string[] }
  | { readonly kind: 'notRenewed'; readonly error: string }
  | { readonly kind: 'timer' }
  /** The rules are to be removed. */
  | { readonly kind: 'release' }
  /** The process ends, and another one follows. */
  | { readonly kind: 'stop' };

export type LeaseEffect =
  | { readonly kind: 'send'; readonly request: Omit<LeaseRequest, 'node' | 'boot' | 'sent'> }
  | {
      readonly kind: 'take';
      readonly key: string;
      readonly addresses: readonly OwnedAddress[];
      readonly until: number;
    }
  | { readonly kind: 'drop'; readonly key: string; readonly addresses: readonly string[] }
  | { readonly kind: 'renew'; readonly renewals: readonly Renewal[] }
  /** The only timer; Infinity: none. */
  | { readonly kind: 'arm'; readonly at: number }
  | {
      readonly kind: 'log';
      readonly level: 'info' | 'warn' | 'error';
      readonly message: string;
      readonly fields: object;
    };

export const INITIAL_LEASES: LeaseState = {
  phase: 'starting',
  found: null,
  view: null,
  slots: new Map(),
  guarded: null,
  isReleased: false,
  unready: new Map(),
  unreachable: [],
  isUnreachableKnown: false,
  request: null,
  lastSentAt: Number.NEGATIVE_INFINITY,
  isUrgent: false,
  resendAt: Number.POSITIVE_INFINITY,
  renewing: null,
  renewRetryAt: Number.NEGATIVE_INFINITY,
  awaySince: null,
  isAwayLogged: false,
  stoppedAt: null,
  isExtended: false,
};

/** The key of what is alive and belongs to no slot of this node. */
export const NO_SLOT = slotKey({ gateway: '', slot: '' });

const NONE: ReadonlySet<string> = new Set();

export function emptySlot(gateway: string, slot: string): SlotLease {
  return {
    gateway,
    slot,
    wanted: null,
    epoch: 0,
    granted: NONE,
    until: Number.NEGATIVE_INFINITY,
    live: NONE,
    aliveUntil: Number.NEGATIVE_INFINITY,
    renewedUntil: Number.NaN,
    call: null,
    unsure: NONE,
    retryAt: Number.NEGATIVE_INFINITY,
    redropAt: Number.NEGATIVE_INFINITY,
    failures: 0,
    lastError: null,
    hindrance: null,
    waitsSince: null,
  };
}

/** Whether anything of this node's may be alive. */
export function isAnyAlive({ slots }: LeaseState): boolean {
  return slots.values().some(({ live }) => live.size > 0);
}

/**
 * Messages between the agent's main thread and the thread of its leases, which begins with this
 * workerData. All times are those of monotonicClock.
 */
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
