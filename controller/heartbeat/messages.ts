/** The messages between the controller and its process of heartbeats. Times: monotonicClock. */

import type { Cluster, User } from '@kubernetes/client-node';
import type { LeaseAnswer, LeaseRequest } from '../../apis/heartbeat.ts';
import type { NamespacedName } from '../../apis/objects.ts';
import type { ListenAddress } from '../../lib/process/option-value.ts';
import type { Taken, WrittenSlot } from '../extension/extension.ts';
import type { LeaseTimes } from '../kubeapi/lease/election.ts';
import type { Annotations } from '../kubeapi/lease/lease.ts';

/** The first message. */
export interface HeartbeatData {
  /** Times of the leader election. */
  readonly identity: string;
  readonly times: LeaseTimes;
  /** The Lease, and the controllers' ServiceAccount and Service. */
  readonly service: NamespacedName;
  /** The API server, and the credentials for it. */
  readonly cluster: Cluster;
  readonly user: User;
  /** The audiences of agents' tokens; empty: the API server's own. */
  readonly audiences: readonly string[];
}

/** The other controllers. */
export interface PeerPlaces {
  /** HOST:PORT each. */
  readonly known: readonly string[];
  /** See Credentials. */
  readonly caBundle: string | null | undefined;
}

export type ToHeartbeats =
  | { readonly kind: 'start'; readonly data: HeartbeatData; readonly annotations: Annotations }
  /** The controller's thread turns. */
  | { readonly kind: 'alive' }
  | { readonly kind: 'annotations'; readonly annotations: Annotations }
  | { readonly kind: 'elect' | 'look' | 'release' | 'stopListening' }
  | { readonly kind: 'peers'; readonly peers: PeerPlaces }
  /** The Nodes that there are. */
  | { readonly kind: 'nodes'; readonly names: readonly string[] }
  | { readonly kind: 'tls'; readonly key: string; readonly cert: string }
  | { readonly kind: 'listen'; readonly listen: ListenAddress }
  /** LeaseOrders; they count in the term of leadership in which they were given. */
  | {
      readonly kind: 'begin';
      readonly term: number;
      readonly slots: readonly WrittenSlot[];
      readonly leases: readonly number[];
    }
  | { readonly kind: 'slots'; readonly term: number; readonly slots: readonly WrittenSlot[] }
  | { readonly kind: 'keepNodes'; readonly term: number; readonly names: ReadonlySet<string> }
  | { readonly kind: 'end' }
  /** A heartbeat that came to the controller. */
  | {
      readonly kind: 'take';
      readonly id: number;
      readonly request: LeaseRequest;
      /** Whether it may be passed on to another controller. */
      readonly isPassedOn: boolean;
    };

export type FromHeartbeats =
  | { readonly kind: 'tick'; readonly at: number }
  /** Nobody else leads until then. */
  | { readonly kind: 'leading'; readonly term: number; readonly until: number }
  | { readonly kind: 'renewed'; readonly until: number }
  | { readonly kind: 'lost'; readonly reason: string }
  | { readonly kind: 'leader'; readonly holder: string }
  | { readonly kind: 'failed'; readonly message: string }
  /** The status of an answer of the API server. */
  | { readonly kind: 'answered'; readonly status: number }
  | { readonly kind: 'released' }
  | { readonly kind: 'taken'; readonly term: number; readonly taken: Taken }
  | { readonly kind: 'answer'; readonly id: number; readonly answer: LeaseAnswer | null }
  | { readonly kind: 'listening'; readonly address: string; readonly port: number; readonly family: string }
  | { readonly kind: 'cannotListen'; readonly message: string }
  /** With a connection that is not of heartbeats, and what was read of it. */
  | { readonly kind: 'connection'; readonly bytes: Uint8Array };

/** Milliseconds between two `tick`s while heartbeats are answered, and else. */
export const TICK = 100;
export const IDLE_TICK = 1_000;
/** Milliseconds between two `alive`s. */
export const ALIVE = 1_000;
/**
 * Milliseconds: a controller whose thread does not turn for so long does not renew the Lease, and
 * one whose process of heartbeats says nothing for so long ends.
 */
export const LONGEST_SILENCE = 30_000;
