import type { Range } from '../../lib/net/ranges.ts';
import type { Box } from './service-space.ts';

/** A rule, or a part of one, in a list that is evaluated in order. */
export interface Entry {
  /** Ascending along the list; the parts of a rule have the same. */
  readonly order: number;
  /** The outcome, as a number that the caller gives it; of a Pass it has no meaning. */
  readonly leaf: number;
  readonly isPass: boolean;
  readonly isBaseline: boolean;
  /** Failsafe traffic skips it. */
  readonly isSkippable: boolean;
  /** Packets to local pods skip it. */
  readonly sparesPods: boolean;
  /** The flows it matches, by protocol; null: all. */
  readonly boxes: ReadonlyMap<number, readonly Box[]> | null;
}

/** Failsafe traffic. */
export interface Protected {
  readonly protocol: number;
  readonly ports: Range;
}

/** One of the two states, as it evaluates the flows of one peer. */
export interface Evaluated {
  readonly entries: readonly Entry[];
  readonly failsafe: readonly Protected[];
}

/** The outcome where no rule decides. */
export const DEFAULT_LEAF = 0;
