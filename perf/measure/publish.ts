/**
 * What the processes of the benchmark of publish say to each other. Times are microseconds of
 * CLOCK_MONOTONIC.
 */

import { hash } from 'node:crypto';
import type { NodeState } from '../../apis/compiled.ts';
import { snapshot } from '../../apis/wire.ts';

export interface PublishServerInput {
  readonly nodes: number;
  /** Multiples of ten. Every node has those of all and of its pool. */
  readonly rulesOfAll: number;
  readonly rulesOfPool: number;
  /** 0 is any. */
  readonly port: number;
  /** Those that the cluster has had before, from other servers. */
  readonly changes: Changes;
  /** PEM. */
  readonly key: string;
  readonly cert: string;
}

export const POOLS = 100;

/** How many changes of each kind the cluster has had. */
export interface Changes {
  /** The crowd's first pod got another address. */
  readonly members: number;
  /** A rule of all nodes got another name and port. */
  readonly rules: number;
}

export const UNCHANGED: Changes = { members: 0, rules: 0 };

/** The IPv4 address of the crowd's first pod after so many changes. */
export function addressAfter({ members }: Changes): Uint8Array {
  return Uint8Array.of(10, 250, members >> 8, members);
}

/** The name of the rule that changes. */
export function ruleAfter({ rules }: Changes): string {
  return `changed-${rules}`;
}

/**
 * The same in all servers, so that revisions are comparable: see controller/publish/resume-log.ts.
 */
export function toPosition({ members, rules }: Changes): readonly number[] {
  return [1 + members, 1 + rules];
}

export function ofPosition([members = 1, rules = 1]: readonly number[]): Changes {
  return { members: members - 1, rules: rules - 1 };
}

/**
 * A change is told with the kind that gets one more; `views` asks for the digests of what nodes
 * must enforce. A server that gets SIGTERM closes as the controller does.
 */
export type ServerOrder =
  | { readonly to: 'change'; readonly kind: keyof Changes }
  | { readonly to: 'stats' }
  | { readonly to: 'views'; readonly nodes: readonly string[] };

export type ServerAnswer =
  | { readonly is: 'ready'; readonly at: number; readonly port: number }
  | {
      readonly is: 'changed';
      readonly at: number;
      readonly compiled: number;
      readonly published: number;
      /** Processor time of the main thread for both, microseconds. */
      readonly cpu: number;
    }
  | {
      readonly is: 'stats';
      readonly watchers: number;
      readonly sentBytes: number;
      readonly unsentBytes: number;
    }
  | { readonly is: 'views'; readonly digests: readonly string[] };

export interface PublishClientsInput {
  /** Of the servers; each connection goes to any of them, as a Service does it. */
  readonly ports: readonly number[];
  readonly ca: string;
  /** The nodes they are agents of. */
  readonly first: number;
  readonly count: number;
}

export type ClientsOrder =
  /**
   * Connect all at once; `resume` drops the connections that are there and goes on from their last
   * bookmarks.
   */
  | { readonly to: 'connect'; readonly resume: boolean }
  /** Only these servers get connections from now on. */
  | { readonly to: 'use'; readonly ports: readonly number[] }
  /** Say when all have had a bookmark after so many changes, in a connection that is open. */
  | { readonly to: 'await'; readonly changes: Changes }
  /** Say the digests of what is folded. */
  | { readonly to: 'views' };

export interface ClientsAnswer {
  readonly is: 'there';
  /** When the last of them was. */
  readonly at: number;
  /** When half of them were. */
  readonly median: number;
  /** Bytes of lines and HTTP received since the last answer. */
  readonly bytes: number;
  /** Connections that failed since then. */
  readonly failed: number;
  /** Whole views received since then. */
  readonly resets: number;
  /**
   * For each client that lost its connection since then: from its end to the first bookmark of
   * another one.
   */
  readonly gaps: readonly number[];
  /**
   * Bookmarks since then that do not follow the one before: of a change too late or too early, or
   * with other contents than after so many changes.
   */
  readonly missed: number;
}

export interface ViewsAnswer {
  readonly is: 'views';
  readonly nodes: readonly string[];
  readonly digests: readonly string[];
}

/** Of what a node must enforce. */
export function digestOfState(state: NodeState): string {
  return hash('sha256', [...snapshot(state)].map((message) => JSON.stringify(message)).join('\n'));
}
