import type { Family } from '../../lib/net/address.ts';
import type { Interval } from '../../lib/net/interval.ts';
import { addToList } from '../../lib/sharing/lists.ts';
import type { CompiledRule, NodeState } from '../compiled.ts';
import type { Config } from '../config.ts';
import type { Part } from './address-space.ts';
import { DEFAULT_LEAF, type Evaluated, Leaves, type PreparedRule } from './entry.ts';
import { PeerRules, type StateRules } from './peer-rules.ts';
import type { DecidingRule } from './row.ts';
import { RuleList, relevantRules } from './rule-list.ts';
import { mayMatchFlowsOf } from './same-flows.ts';
import { type NumberTable, SetTable } from './set-table.ts';
import {
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

/** A node's state, and the flows that must have a verdict there, registered. */
interface RequiredOfNode {
  readonly state: Side;
  readonly required: Side;
}

/** Flows of one required item with a verdict that it must not have. */
export interface BrokenFlows {
  readonly list: List;
  readonly family: Family;
  /** Addresses of the other end, in ascending order, without loopback addresses. */
  readonly peers: readonly Interval[];
  /** A link group; null: any that no rule names. */
  readonly group: number | null;
  /** Protocols and ports. */
  readonly unit: Unit;
  /** The rule that decides; null: none. */
  readonly rule: DecidingRule | null;
  /** The meaning of the unit's numbers. */
  readonly table: NumberTable;
}

/** Outcomes that break nothing, beside the numbers of Leaves. */
const EXEMPT = -1;
const SPOOFED = -2;

/**
 * Finds required flows with another verdict, by arithmetic on the ranges in the rules. A required
 * item is a compiled rule: it stands for the flows that the rule matches, all of which must be
 * allowed (action Allow), or denied (Drop). First all states are registered, because the classes of
 * addresses are made once for all. Cost: as that of a comparison with one changed rule for each
 * item (StateDifference).
 *
 * Exempt flows break nothing; nor do those that are dropped because a pod sends them with a Node's
 * address: no policy could allow them. The other end is another host.
 */
export class RequiredFlows {
  readonly #config: Config;
  readonly #checkpoint: () => void;
  readonly #table: SetTable;
  readonly #leaves = new Leaves();
  readonly #prepared = new Map<CompiledRule, PreparedRule>();
  /** The classes of addresses in each set. */
  readonly #bySet: Partial<Record<Family, ReadonlyMap<number, readonly Part[]>>> = {};

  /** @param checkpoint called often; may throw, which ends the search */
  constructor(config: Config, checkpoint = (): void => {}) {
    this.#config = config;
    this.#checkpoint = checkpoint;
    this.#table = new SetTable(checkpoint);
  }

  /**
   * Throws if a rule names a set or a link group that is not there.
   *
   * @param items each rule is an item; all sets are in `state`
   */
  register(state: NodeState, items: readonly CompiledRule[]): RequiredOfNode {
    const parts = { config: this.#config, table: this.#table, leaves: this.#leaves };
    const isRelevant = mayMatchFlowsOf(items);
    return {
      state: sideOf(state, parts, this.#prepared, (rule) => isEnforced(rule) && isRelevant(rule)),
      required: sideOf({ ...state, rules: items }, parts, this.#prepared),
    };
  }

  /**
   * By id of the item; items without such flows are left out. After all states are registered.
   *
   * @param isWanted by id; other items are left out
   */
  broken(
    { state, required }: RequiredOfNode,
    isWanted: (id: string) => boolean = () => true,
  ): ReadonlyMap<string, readonly BrokenFlows[]> {
    const found = new Map<string, BrokenFlows[]>();
    for (const list of RULE_LISTS) {
      for (const item of required.rules.get(list) ?? []) {
        if (!isWanted(item.id)) continue;
        const flows = [...this.#brokenOf(item, list, state)];
        if (flows.length > 0) found.set(item.id, flows);
      }
    }
    return found;
  }

  *#brokenOf(item: PreparedRule, list: List, state: Side): Iterable<BrokenFlows> {
    const check = new ItemCheck(item, list, state, {
      config: this.#config,
      isBroken: (leaf) => {
        if (leaf === EXEMPT || leaf === SPOOFED) return false;
        return (this.#leaves.leaf(leaf).verdict === 'Allow') !== this.#mustAllow(item);
      },
      checkpoint: this.#checkpoint,
    });
    for (const family of state.families) {
      const candidates =
        check.itemSets === null ? this.#table.classes(family) : this.#within(family, check.itemSets);
      for (const classes of projected(candidates, check.usedSets)) {
        const [one] = classes;
        if (one === undefined) continue;
        this.#checkpoint();
        let peers: readonly Interval[] | null = null;
        for (const { number, isNamed } of check.groups) {
          for (const unit of check.units(family, one, number)) {
            peers ??= this.#peersOf(family, classes);
            const { rule } = this.#leaves.leaf(unit.after);
            const table = this.#table;
            yield { list, family, peers, group: isNamed ? number : null, unit, rule, table };
          }
        }
      }
    }
  }

  /** The classes of addresses that are in one of the sets. */
  #within(family: Family, sets: readonly number[]): Iterable<Part> {
    const index = this.#bySet[family] ?? bySet(this.#table.classes(family));
    this.#bySet[family] = index;
    return new Set(sets.flatMap((set) => index.get(set) ?? []));
  }

  #mustAllow({ outcome }: PreparedRule): boolean {
    return this.#leaves.leaf(outcome.leaf).verdict === 'Allow';
  }

  #peersOf(family: Family, classes: readonly Part[]): readonly Interval[] {
    const space = this.#table.space(family);
    return classes
      .flatMap(({ pieces }) => pieces)
      .sort((a, b) => a - b)
      .map((piece) => space.rangeOf(piece));
  }
}

interface ItemCheckOptions {
  readonly config: Config;
  readonly isBroken: (leaf: number) => boolean;
  readonly checkpoint: () => void;
}

/** One item at one state of a node. */
class ItemCheck {
  readonly #state: StateRules;
  readonly #options: ItemCheckOptions;
  readonly #item: RuleList;
  readonly #units = new Map<string, readonly Unit[]>();
  readonly usedSets: ReadonlySet<number>;
  /** The sets of which the item's peers are; null: it may have any peer. */
  readonly itemSets: readonly number[] | null;
  /** The one that stands for all others is not named. */
  readonly groups: readonly { readonly number: number; readonly isNamed: boolean }[];

  constructor(item: PreparedRule, list: List, side: Side, options: ItemCheckOptions) {
    this.#options = options;
    // Failsafe traffic skips rules, not items.
    this.#item = new RuleList([{ ...item, outcome: { ...item.outcome, isSkippable: false } }], [true]);
    const all = side.rules.get(list) ?? [];
    const isOwn = all.map(() => false);
    const { rules } = relevantRules(all, isOwn, [item]);
    const lists = [this.#item, new RuleList(rules, isOwn)] as const;
    this.#state = { list, side, rules: lists[1], config: options.config };
    this.usedSets = usedSets(list, [item, ...rules], [side]);
    const named = [...item.parts, ...item.destinations].map(({ set }) => set);
    this.itemSets = item.matchesAny || item.groups.length > 0 ? null : [...item.sets, ...named];
    const { pods } = options.config.interfaceGroups;
    const namedGroups = new Set([pods, ...lists.flatMap((one) => [...one.groups()])]);
    // The flows of no named group are the plainest: they come first.
    this.groups = groupClasses(lists, options.config)
      .map(({ number }) => ({ number, isNamed: namedGroups.has(number) }))
      .sort((a, b) => Number(a.isNamed) - Number(b.isNamed));
  }

  /** The flows of the item with one of these peers that break it. */
  units(family: Family, addresses: Part, group: number): readonly Unit[] {
    const { isBroken, checkpoint } = this.#options;
    const items = this.#item.entriesFor(addresses, group);
    if (items.length === 0) return NONE;
    const rules = new PeerRules(this.#state, { family, addresses, group });
    if (rules.isExempt) return NONE;
    const key = `${items.map(({ id }) => id).join()} ${rules.key()}`;
    const known = this.#units.get(key);
    if (known !== undefined) return known;
    const sides: readonly [Evaluated, Evaluated] = [
      { entries: items, failsafe: [], numbers: this.#state.side.numbers },
      rules.evaluated({ spoofed: SPOOFED, exempt: EXEMPT }),
    ];
    const units = unitsOf(family, this.#state.list.direction, sides, {
      isChange: (item, verdict) => item !== DEFAULT_LEAF && isBroken(verdict),
      never: DEFAULT_LEAF,
      checkpoint,
    });
    this.#units.set(key, units);
    return units;
  }
}

const NONE: readonly Unit[] = [];

function bySet(classes: readonly Part[]): ReadonlyMap<number, readonly Part[]> {
  const index = new Map<number, Part[]>();
  for (const one of classes) for (const set of one.sets) addToList(index, set, one);
  return index;
}
