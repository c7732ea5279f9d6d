import type { Family } from '../../lib/net/address.ts';
import type { CompiledRule, NodeState } from '../compiled.ts';
import type { Config } from '../config.ts';
import type { Part } from './address-space.ts';
import { DEFAULT_LEAF, type Leaf, Leaves, type PreparedRule } from './entry.ts';
import type { Comparing } from './first-match.ts';
import { PeerRules, type StateRules } from './peer-rules.ts';
import type { Row } from './row.ts';
import { type NumberedRow, RowCollector } from './rows.ts';
import { ownRules, RuleList, relevantRules } from './rule-list.ts';
import { mayDecideDifference } from './same-flows.ts';
import { SetTable } from './set-table.ts';
import {
  failsafeOf,
  type GroupClass,
  groupClasses,
  isEnforced,
  type List,
  projected,
  RULE_LISTS,
  type Side,
  sideOf,
  usedSets,
} from './side.ts';
import { type Unit, unitsOf } from './units.ts';

/** The two states of a node, registered. */
export interface StatePair {
  readonly before: Side;
  readonly after: Side;
}

/**
 * The exact difference of states of nodes: all flows whose verdict differs, by arithmetic on the
 * ranges in the rules. First all pairs are registered, because the classes of addresses are made
 * once for all; then each is compared.
 *
 * A verdict depends on the class of the peer's address (the sets that contain it), on the link
 * group, and on protocol and ports. For each class and group that a changed rule concerns, both
 * lists of rules are evaluated over all protocols and ports (first-match.ts). Cost: n log n for n
 * members of all sets; for a pair, classes × the rules of a class.
 */
export class StateDifference {
  readonly #config: Config;
  readonly #checkpoint: () => void;
  readonly #table: SetTable;
  readonly #leaves = new Leaves();
  readonly #prepared = {
    before: new Map<CompiledRule, PreparedRule>(),
    after: new Map<CompiledRule, PreparedRule>(),
  };
  readonly #spoofedLeaf: number;

  /** @param checkpoint called often; may throw, which ends the comparison */
  constructor(config: Config, checkpoint = (): void => {}) {
    this.#config = config;
    this.#checkpoint = checkpoint;
    this.#table = new SetTable(checkpoint);
    this.#spoofedLeaf = this.#leaves.numberOf({ verdict: 'Drop', rule: null });
  }

  /** Throws if a rule names a set or a link group that is not there. */
  register(before: NodeState, after: NodeState): StatePair {
    const mayDecide = mayDecideDifference(before, after);
    const isWanted = (rule: CompiledRule): boolean => isEnforced(rule) && mayDecide(rule);
    const side = (state: NodeState, which: 'before' | 'after'): Side => {
      const parts = { config: this.#config, table: this.#table, leaves: this.#leaves };
      return sideOf(state, parts, this.#prepared[which], isWanted);
    };
    return { before: side(before, 'before'), after: side(after, 'after') };
  }

  /** The flows whose verdict differs; after all pairs are registered. */
  rows(pair: StatePair): NumberedRow[] {
    const comparing = {
      isChange: (from: number, to: number) => this.#leaves.isChange(from, to),
      checkpoint: this.#checkpoint,
    };
    return RULE_LISTS.flatMap((list) => this.#rowsOf(list, pair, { areRulesAlone: false, comparing }));
  }

  /**
   * The flows of a list for which the rules do not have one outcome before and another after. It
   * looks at rules and failsafe list alone: of exempt and spoofed flows it may have any.
   */
  exceptions(
    pair: StatePair,
    { direction, traffic }: Pick<Row, 'direction' | 'traffic'>,
    change: { readonly before: Leaf; readonly after: Leaf },
  ): NumberedRow[] {
    const [before, after] = [this.#leaves.numberOf(change.before), this.#leaves.numberOf(change.after)];
    const comparing = {
      isChange: (from: number, to: number) => from !== before || to !== after,
      checkpoint: this.#checkpoint,
    };
    const lists = RULE_LISTS.filter((list) => list.direction === direction && list.traffic === traffic);
    return lists.flatMap((list) => this.#rowsOf(list, pair, { areRulesAlone: true, comparing }));
  }

  #rowsOf(
    list: List,
    { before, after }: StatePair,
    parts: Pick<ComparisonOptions, 'areRulesAlone' | 'comparing'>,
  ): NumberedRow[] {
    const families = commonFamilies({ before, after });
    const { direction, traffic } = list;
    const comparison = new Comparison(list, before, after, {
      config: this.#config,
      spoofedLeaf: this.#spoofedLeaf,
      ...parts,
    });
    if (comparison.isSame) return [];
    const { groups } = comparison;
    const collector = new RowCollector(
      direction,
      traffic,
      groups.map(({ ranges }) => ranges),
    );
    for (const family of families) {
      for (const peers of comparison.projected(this.#table.classes(family))) {
        const [one] = peers;
        if (one === undefined) continue;
        this.#checkpoint();
        collector.add(
          family,
          peers,
          groups.map(({ number }) => comparison.units(family, one, number)),
        );
      }
    }
    return collector.rows(families, this.#table, this.#leaves);
  }
}

/** The families in which the node has an address in both states. */
export function commonFamilies({ before, after }: StatePair): readonly Family[] {
  return before.families.filter((family) => after.families.includes(family));
}

interface ComparisonOptions {
  readonly config: Config;
  readonly spoofedLeaf: number;
  /** Whether nothing comes before the rules, and peers count whose verdicts do not differ. */
  readonly areRulesAlone: boolean;
  readonly comparing: Comparing;
}

/** The rules of one direction and kind of traffic of both states. */
class Comparison {
  readonly #list: List;
  readonly #options: ComparisonOptions;
  readonly #states: readonly StateRules[];
  readonly #isOtherwise: boolean;
  readonly #units = new Map<string, readonly Unit[]>();
  readonly #usedSets: ReadonlySet<number>;
  /** Nothing can differ. */
  readonly isSame: boolean;
  readonly groups: readonly GroupClass[];

  constructor(list: List, before: Side, after: Side, options: ComparisonOptions) {
    this.#list = list;
    this.#options = options;
    const all = [before.rules.get(list) ?? [], after.rules.get(list) ?? []] as const;
    const own = ownRules(...all);
    this.#isOtherwise =
      JSON.stringify(failsafeOf(before, list)) !== JSON.stringify(failsafeOf(after, list)) ||
      (list.direction === 'ingress' && before.spoofed !== after.spoofed);
    this.isSame = !this.#isOtherwise && own.every((side) => !side.includes(true));
    const changed = ([0, 1] as const).flatMap((i) => all[i].filter((_, at) => own[i][at]));
    const relevant = ([0, 1] as const).map((i) =>
      this.#isOtherwise ? { rules: all[i], isOwn: own[i] } : relevantRules(all[i], own[i], changed),
    );
    const lists = relevant.map(({ rules, isOwn }) => new RuleList(rules, isOwn));
    this.#states = [before, after].map((side, i) => {
      return { list, side, rules: lists[i] ?? new RuleList([], []), config: options.config };
    });
    const rules = relevant.flatMap((side) => side.rules);
    this.#usedSets = usedSets(list, rules, [before, after]);
    this.groups = groupClasses(lists, options.config);
  }

  /** The classes of addresses, in groups that the rules do not tell apart. */
  projected(classes: readonly Part[]): Iterable<readonly Part[]> {
    return projected(classes, this.#usedSets);
  }

  /** The flows of a peer that differ. */
  units(family: Family, addresses: Part, group: number): readonly Unit[] {
    const { spoofedLeaf, areRulesAlone, comparing } = this.#options;
    const [before, after] = this.#states.map((state) => new PeerRules(state, { family, addresses, group }));
    if (before === undefined || after === undefined) return [];
    if (!this.#isOtherwise && !areRulesAlone) {
      if (before.isExempt && after.isExempt) return [];
      if (![before, after].some(({ entries }) => entries.some(({ isOwn }) => isOwn))) return [];
    }
    const key = `${before.key()} ${after.key()}`;
    const known = this.#units.get(key);
    if (known !== undefined) return known;
    const leaves = areRulesAlone ? null : { spoofed: spoofedLeaf, exempt: DEFAULT_LEAF };
    const sides = [before.evaluated(leaves), after.evaluated(leaves)] as const;
    const units = unitsOf(family, this.#list.direction, sides, comparing);
    this.#units.set(key, units);
    return units;
  }
}
