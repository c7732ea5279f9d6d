import { type Family, parseAddress } from '../../lib/net/address.ts';
import type { CompiledRule, NodeState } from '../compiled.ts';
import type { Config } from '../config.ts';
import type { Part } from '../difference/address-space.ts';
import { Leaves, type PreparedRule } from '../difference/entry.ts';
import { mayMatchFlowsOf } from '../difference/same-flows.ts';
import { SetTable } from '../difference/set-table.ts';
import { RULE_LISTS, type Side, sideOf } from '../difference/side.ts';
import type { Finding } from './finding.ts';
import { findingsOf } from './list-findings.ts';
import { type LintedRule, ListLint, type PeerSpace } from './list-lint.ts';

/** A node's state, registered. */
interface LintedState {
  readonly state: NodeState;
  /** Those that may match flows of the wanted ones. */
  readonly rules: readonly CompiledRule[];
  readonly side: Side;
}

export interface StateLintOptions {
  readonly config: Config;
  /** Called often; may throw, which ends the analysis. */
  readonly checkpoint?: () => void;
  /** Rules about which findings are wanted; absent: all. */
  readonly isWanted?: (rule: CompiledRule) => boolean;
  /** Whether findings need no flow, which takes as long again; absent: they do. */
  readonly isWithoutFlows?: boolean;
}

/**
 * Finds rules that decide nothing, less than they say, or nothing that another would not decide
 * alike, by arithmetic on the ranges in the rules. First all states are registered, because the
 * classes of addresses are made once for all.
 *
 * The flows of a state are divided into cells: those that the same rules match. A cell says which
 * of them decides, and which would without it. Cost: as that of a comparison (StateDifference) in
 * which every wanted rule changed, times the rules of a cell.
 */
export class StateLint {
  readonly #options: StateLintOptions;
  readonly #table: SetTable;
  readonly #leaves = new Leaves();
  readonly #prepared = new Map<CompiledRule, PreparedRule>();
  readonly #shares = new Map<Part, number>();

  constructor(options: StateLintOptions) {
    this.#options = options;
    this.#table = new SetTable(options.checkpoint);
  }

  /** Throws if a rule names a set or a link group that is not there. */
  register(state: NodeState): LintedState {
    const parts = { config: this.#options.config, table: this.#table, leaves: this.#leaves };
    const { isWanted = () => true } = this.#options;
    const isRelevant = mayMatchFlowsOf(state.rules.filter(isWanted));
    const rules = state.rules.filter(isRelevant);
    return { state, rules, side: sideOf(state, parts, this.#prepared, isRelevant) };
  }

  /**
   * After all states are registered.
   *
   * @param own addresses that are the node's own, and no peer's
   */
  findings({ state, rules: relevant, side }: LintedState, own: readonly string[]): Finding[] {
    const { config, checkpoint = () => {}, isWanted = () => true, isWithoutFlows } = this.#options;
    const space = this.#space(own);
    const isChange = (leaf: number, other: number): boolean => this.#leaves.isChange(leaf, other);
    return RULE_LISTS.flatMap((list) => {
      const rules = relevant
        .filter((rule) => rule.source.direction === list.direction && rule.traffic === list.traffic)
        .map((rule): LintedRule => ({ rule, isWanted: isWanted(rule) }));
      if (!rules.some((one) => one.isWanted)) return [];
      const lint = new ListLint(rules, { list, side, config, space, isChange, checkpoint });
      return findingsOf({
        rules,
        lint,
        list,
        state,
        isSpoofingDropped: side.spoofed !== null,
        isWithoutFlows: isWithoutFlows === true,
        table: this.#table,
      });
    });
  }

  #space(own: readonly string[]): PeerSpace {
    const addresses = own.flatMap((text) => parseAddress(text) ?? []);
    return {
      classes: (family) => this.#table.classes(family),
      shareOf: (family, part) => this.#shareOf(family, part),
      isOwn: (family, classes) => {
        if (classes.some(({ pieces }) => pieces.length > addresses.length)) return false;
        const isOne = (piece: number): boolean => {
          const { first, last } = this.#table.space(family).rangeOf(piece);
          return first === last && addresses.some((one) => one.family === family && one.value === first);
        };
        return classes.every(({ pieces }) => pieces.every(isOne));
      },
    };
  }

  #shareOf(family: Family, part: Part): number {
    const known = this.#shares.get(part) ?? this.#table.space(family).shareOf(part);
    this.#shares.set(part, known);
    return known;
  }
}
