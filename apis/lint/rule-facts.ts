import { DEFAULT_LEAF, type RuleListEntry } from '../difference/entry.ts';
import { type CellOutcome, cellOutcome, decidedBy, type FlowCell, isSkipped } from './cells.ts';

/** Stands for "no rule" among the orders of rules. */
export const NO_RULE = -1;

/** Facts about a rule after all cells. */
export interface RuleFacts {
  /** Whether there are flows that it matches; flows accepted before all rules do not count. */
  isMatched: boolean;
  isReached: boolean;
  /** Some of its flows are decided before all rules. */
  isExempt: boolean;
  /** The failsafe list skips it, which changes the verdict. */
  isFailsafe: boolean;
  /** Without it, some verdict would be another. */
  hasEffect: boolean;
  /** The share of all flows that it matches, and that it decides. */
  matched: number;
  decided: number;
  /** The rules that decide its flows before it; by order. */
  readonly hiders: Set<number>;
  /** The rules that decide flows of its without it; by order, or NO_RULE. */
  readonly substitutes: Set<number>;
  /** The rules that name all its flows, failsafe traffic too; by order. Null: it has none. */
  covering: Set<number> | null;
}

/** Shares of the flows of one peer, by order of the rule. */
export type Shares = ReadonlyMap<number, { readonly matched: number; readonly decided: number }>;

interface FactsOptions {
  readonly isAudit: (order: number) => boolean;
  /** Rules of which facts are wanted, by order. */
  readonly isWanted: (order: number) => boolean;
  /** Whether two outcomes are different verdicts; by leaf. */
  readonly isChange: (leaf: number, other: number) => boolean;
}

/** Collects the facts about the rules of one list. */
export class FactsCollector {
  readonly #options: FactsOptions;
  readonly #facts = new Map<number, RuleFacts>();

  constructor(options: FactsOptions) {
    this.#options = options;
  }

  of(order: number): RuleFacts {
    const known = this.#facts.get(order);
    if (known !== undefined) return known;
    const facts: RuleFacts = {
      isMatched: false,
      isReached: false,
      isExempt: false,
      isFailsafe: false,
      hasEffect: false,
      matched: 0,
      decided: 0,
      hiders: new Set(),
      substitutes: new Set(),
      covering: null,
    };
    this.#facts.set(order, facts);
    return facts;
  }

  /** Takes the cells of a peer; returns the shares, which are not yet counted. */
  claim(cells: Iterable<FlowCell>): Shares {
    const shares = new Map<number, { matched: number; decided: number }>();
    const shareOf = ({ order }: RuleListEntry) => {
      const known = shares.get(order) ?? { matched: 0, decided: 0 };
      shares.set(order, known);
      return known;
    };
    for (const cell of cells) {
      const outcome = cellOutcome(cell, this.#options.isAudit);
      const entries = cell.entries.filter(({ order }) => order >= 0);
      const wanted = entries.filter(({ order }) => this.#options.isWanted(order));
      if (wanted.length === 0) continue;
      if (outcome.isBeforeRules) {
        for (const { order } of wanted) this.of(order).isExempt = true;
        continue;
      }
      const matching = entries.filter((entry) => !isSkipped(entry, cell));
      const orders = new Set(entries.map(({ order }) => order));
      for (const entry of wanted) {
        this.#cover(entry, orders);
        if (isSkipped(entry, cell)) continue;
        shareOf(entry).matched += cell.size;
        this.of(entry.order).isMatched = true;
      }
      for (const { entry, by } of outcome.hidden) this.of(entry.order).hiders.add(by.order);
      for (const entry of outcome.reached) this.of(entry.order).isReached = true;
      for (const entry of [outcome.passed, outcome.decider])
        if (entry !== null) shareOf(entry).decided += cell.size;
      this.#judgeEffects(matching, outcome);
      if (this.failsafeChanges(cell, outcome)) this.of(outcome.skipped?.order ?? NO_RULE).isFailsafe = true;
    }
    return shares;
  }

  /** @param weight the share of all peers that these are */
  count(shares: Shares, weight: number): void {
    for (const [order, { matched, decided }] of shares) {
      const facts = this.of(order);
      facts.matched += matched * weight;
      facts.decided += decided * weight;
    }
  }

  /** Whether the verdict of a cell would be another without the failsafe list. */
  failsafeChanges({ entries }: FlowCell, { skipped, decider }: CellOutcome): boolean {
    if (skipped === null) return false;
    const otherwise = decidedBy(entries, ({ order }) => this.#options.isAudit(order));
    return this.#isChange(otherwise, decider);
  }

  #cover({ order }: RuleListEntry, orders: ReadonlySet<number>): void {
    const facts = this.of(order);
    if (facts.covering === null) facts.covering = new Set(orders);
    else if (facts.covering.size > 1)
      for (const one of facts.covering) if (!orders.has(one)) facts.covering.delete(one);
  }

  #judgeEffects(matching: readonly RuleListEntry[], { passed, decider }: CellOutcome): void {
    for (const entry of [passed, decider]) {
      if (entry === null || !this.#options.isWanted(entry.order)) continue;
      const isLeftOut = (one: RuleListEntry): boolean =>
        one.order === entry.order || this.#options.isAudit(one.order);
      const otherwise = decidedBy(matching, isLeftOut);
      const facts = this.of(entry.order);
      facts.substitutes.add(otherwise?.order ?? NO_RULE);
      facts.hasEffect ||= this.#isChange(otherwise, decider);
    }
  }

  #isChange(a: RuleListEntry | null, b: RuleListEntry | null): boolean {
    return this.#options.isChange(a?.leaf ?? DEFAULT_LEAF, b?.leaf ?? DEFAULT_LEAF);
  }
}
