import { FAMILIES, type Family } from '../../lib/net/address.ts';
import { type CompiledRule, LAST_LINK_GROUP } from '../compiled.ts';
import type { Config } from '../config.ts';
import type { Part } from '../difference/address-space.ts';
import { PeerRules, type StateRules } from '../difference/peer-rules.ts';
import { RuleList, relevantRules } from '../difference/rule-list.ts';
import { groupClasses, type List, projected, type Side, usedSets } from '../difference/side.ts';
import { cellsOf, type FlowCell } from './cells.ts';
import { FactsCollector, type Shares } from './rule-facts.ts';

/** A rule, and whether findings about it are wanted. */
export interface LintedRule {
  readonly rule: CompiledRule;
  readonly isWanted: boolean;
}

/** The addresses of a node's peers, divided into classes. */
export interface PeerSpace {
  classes(family: Family): readonly Part[];
  /** The share of all addresses of the family. */
  shareOf(family: Family, addresses: Part): number;
  /** Whether all of these are addresses of the node. */
  isOwn(family: Family, addresses: readonly Part[]): boolean;
}

/** Flows from or to some addresses, by one link group. */
export interface PeerCells {
  readonly family: Family;
  readonly addresses: readonly Part[];
  /** A link group; null: any that no rule names. */
  readonly group: number | null;
  /** The share of all addresses and link groups. */
  readonly weight: number;
  /** Two groups with the same key have the same cells. */
  readonly key: string;
  /** The rules that match flows, by order; repeated if several parts do. */
  readonly orders: readonly number[];
  /** The rules that would match flows, which skip them; by order. */
  readonly spared: readonly number[];
  cells(): Iterable<FlowCell>;
}

interface ListLintOptions {
  readonly list: List;
  readonly side: Side;
  readonly config: Config;
  readonly space: PeerSpace;
  readonly isChange: (leaf: number, other: number) => boolean;
  readonly checkpoint: () => void;
}

/** Leaves of flows that are decided before all rules; no verdict is read from them. */
const BEFORE_RULES = { spoofed: 0, exempt: 0 };

/** The rules of one direction and kind of traffic, at one state of a node. */
export class ListLint {
  readonly #options: ListLintOptions;
  readonly #rules: readonly LintedRule[];

  /** @param rules all of the list, in order */
  constructor(rules: readonly LintedRule[], options: ListLintOptions) {
    this.#rules = rules;
    this.#options = options;
  }

  isAudit(order: number): boolean {
    return this.#rules[order]?.rule.mode === 'Audit';
  }

  /** The facts of the wanted rules. */
  facts(): FactsCollector {
    const collector = this.collector();
    const known = new Map<string, Shares>();
    for (const { key, cells, weight, spared } of this.peers()) {
      for (const order of spared) collector.of(order).isExempt = true;
      const shares = known.get(key) ?? collector.claim(cells());
      known.set(key, shares);
      collector.count(shares, weight);
    }
    return collector;
  }

  collector(): FactsCollector {
    return new FactsCollector({
      isAudit: (order) => this.isAudit(order),
      isWanted: (order) => this.#rules[order]?.isWanted === true,
      isChange: this.#options.isChange,
    });
  }

  /** All flows of which a wanted rule matches some; IPv4 and plain link groups first. */
  *peers(): Iterable<PeerCells> {
    const { list, side, space, checkpoint } = this.#options;
    const { state, sets } = this.#stateRules();
    const groups = groupsOf(state);
    for (const family of FAMILIES.filter((one) => side.families.includes(one))) {
      for (const addresses of projected(space.classes(family), sets)) {
        const [one] = addresses;
        if (one === undefined || space.isOwn(family, addresses)) continue;
        checkpoint();
        const share = addresses.reduce((sum, part) => sum + space.shareOf(family, part), 0);
        for (const { number, isNamed, size } of groups) {
          const rules = new PeerRules(state, { family, addresses: one, group: number });
          if (![...rules.entries, ...rules.spared].some(({ isOwn }) => isOwn)) continue;
          yield {
            family,
            addresses,
            group: isNamed ? number : null,
            key: rules.key(),
            weight: (share * size) / side.families.length,
            orders: rules.entries.map(({ order }) => order),
            spared: rules.spared.map(({ order }) => order),
            cells: () => cellsOf(family, list.direction, rules.evaluated(BEFORE_RULES), checkpoint),
          };
        }
      }
    }
  }

  /** The rules that may match flows of the wanted ones; each keeps its order. */
  #stateRules(): { state: StateRules; sets: ReadonlySet<number> } {
    const { list, side, config } = this.#options;
    const all = side.rules.get(list) ?? [];
    const wanted = all.map((_, order) => this.#rules[order]?.isWanted === true);
    const own = all.filter((_, order) => wanted[order]);
    const relevant = new Set(relevantRules(all, wanted, own).rules);
    const kept = all.map((rule) => (relevant.has(rule) ? rule : null));
    const rules = new RuleList(kept, wanted);
    return {
      state: { list, side, rules, config },
      sets: usedSets(
        list,
        kept.filter((rule) => rule !== null),
        [side],
      ),
    };
  }
}

function groupsOf({ rules, config }: StateRules) {
  const named = new Set([config.interfaceGroups.pods, ...rules.groups()]);
  return groupClasses([rules], config)
    .map(({ number, ranges }) => ({
      number,
      isNamed: named.has(number),
      size: ranges.reduce((sum, [first, last]) => sum + last - first + 1, 0) / (LAST_LINK_GROUP + 1),
    }))
    .sort((a, b) => Number(a.isNamed) - Number(b.isNamed));
}
