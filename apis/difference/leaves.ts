import type { CompiledRule } from '../compiled.ts';
import type { Verdict } from '../flow.ts';
import { DEFAULT_LEAF } from './entry.ts';
import type { DecidingRule } from './row.ts';

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
