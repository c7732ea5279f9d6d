import type { Range } from '../../lib/net/ranges.ts';
import type { CompiledRule } from '../compiled.ts';
import type { Verdict } from '../flow.ts';
import type { DecidingRule } from './row.ts';
import type { Box } from './service-space.ts';

/** A rule, or a part of one, in a list that is evaluated in order. */
export interface RuleListEntry {
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
  readonly entries: readonly RuleListEntry[];
  readonly failsafe: readonly Protected[];
}

/** The outcome where no rule decides. */
export const DEFAULT_LEAF = 0;

/** An outcome of an evaluation. */
export interface Leaf {
  readonly verdict: Verdict;
  readonly rule: DecidingRule | null;
}

const DEFAULT: Leaf = { verdict: 'Allow', rule: null };

/** Numbers for outcomes; equal ones have the same. */
export class Leaves {
  readonly #leaves: Leaf[] = [];
  readonly #numbers = new Map<string, number>();

  constructor() {
    if (this.numberOf(DEFAULT) !== DEFAULT_LEAF) throw new Error('the default is not the first leaf');
  }

  numberOf(leaf: Leaf): number {
    const key = JSON.stringify([leaf.verdict, leaf.rule]);
    const known = this.#numbers.get(key);
    if (known !== undefined) return known;
    this.#numbers.set(key, this.#leaves.length);
    return this.#leaves.push(leaf) - 1;
  }

  leaf(number: number): Leaf {
    return this.#leaves[number] ?? DEFAULT;
  }

  isChange(before: number, after: number): boolean {
    return before !== after && this.leaf(before).verdict !== this.leaf(after).verdict;
  }
}

export function leafOf({ action, source }: CompiledRule): Leaf {
  if (action === 'Pass') return DEFAULT;
  const { policy, rule, ruleIndex } = source;
  return { verdict: action, rule: { policy, rule, ruleIndex } };
}
