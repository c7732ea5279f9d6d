/**
 * What the processes of the benchmark of publish say to each other. Times are microseconds of
 * CLOCK_MONOTONIC.
 */
export interface PublishServerInput {
  readonly nodes: number;
  /** Multiples of ten. Every node has those of all and of its pool. */
  readonly rulesOfAll: number;
  readonly rulesOfPool: number;
  /** 0 is any. */
  readonly port: number;
  /** PEM. */
  readonly key: string;
  readonly cert: string;
}

export const POOLS = 100;

export type ServerOrder = 'change' | 'stats';

export type ServerAnswer =
  | { readonly is: 'ready'; readonly at: number; readonly port: number }
  | {
      readonly is: 'changed';
      readonly at: number;
      readonly compiled: number;
      readonly published: number;
      /** Processor time of the main thread for both, microseconds. */
      readonly cpu: number;
      readonly revision: string;
    }
  | {
      readonly is: 'stats';
      readonly watchers: number;
      readonly sentBytes: number;
      readonly unsentBytes: number;
      readonly revision: string;
    };

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
  /** Say when all have had a bookmark of one of these revisions. */
  | { readonly to: 'await'; readonly revisions: readonly string[] };

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
}
