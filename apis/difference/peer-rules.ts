import type { Family } from '../../lib/net/address.ts';
import type { Config } from '../config.ts';
import type { Part } from './address-space.ts';
import { DEFAULT_LEAF, type Evaluated } from './entry.ts';
import type { ListEntry, RuleList } from './rule-list.ts';
import {
  entriesBeforeRules,
  entryAfterRules,
  type FailsafeFlows,
  failsafeOf,
  type List,
  type Side,
  spareLocalPods,
} from './side.ts';

/** The rules of a list at one state of a node. */
export interface StateRules {
  readonly list: List;
  readonly side: Side;
  readonly rules: RuleList;
  readonly config: Config;
}

/** Addresses that the rules do not tell apart, by one link group. */
interface Peer {
  readonly family: Family;
  readonly addresses: Part;
  readonly group: number;
}

/** The rules that are evaluated for the flows of one peer. */
export class PeerRules {
  readonly #of: StateRules;
  readonly #family: Family;
  readonly #failsafe: readonly FailsafeFlows[];
  readonly #isSpoofed: boolean;
  /** Flows to local pods, which skip some rules. */
  readonly #isSpared: boolean;
  /** All flows are accepted before any rule. */
  readonly isExempt: boolean;
  /** In order. */
  readonly entries: readonly ListEntry[];
  /** Rules that the flows skip. */
  readonly spared: readonly ListEntry[];
  /** Both, in order. */
  readonly #all: readonly ListEntry[];

  constructor(of: StateRules, { family, addresses, group }: Peer) {
    const { list, side, rules, config } = of;
    const isPods = group === config.interfaceGroups.pods;
    const isOf = (set: number): boolean => addresses.sets.includes(set);
    this.#of = of;
    this.#family = family;
    this.#isSpared = isPods && spareLocalPods(list, config);
    this.isExempt = (isPods && list.traffic === 'NodePort') || (this.#isSpared && !side.judgesLocalPods);
    this.#all = rules.entriesFor(addresses, group);
    const isSkipped = ({ sparesPods }: ListEntry): boolean => this.#isSpared && !this.isExempt && sparesPods;
    this.entries = this.#all.filter((entry) => !isSkipped(entry));
    this.spared = this.#all.filter(isSkipped);
    this.#failsafe = failsafeOf(side, list).filter(({ set }) => set === null || isOf(set));
    this.#isSpoofed = isPods && list.direction === 'ingress' && side.spoofed !== null && isOf(side.spoofed);
  }

  /** Two peers with the same key have the same outcome for all flows. */
  key(): string {
    const ids = this.#all.map(({ id }) => id);
    const before = [this.isExempt, this.#isSpoofed, this.#isSpared];
    return JSON.stringify([this.#family, before, ids, this.#failsafe]);
  }

  /** @param leaves the outcomes of spoofed and of exempt flows; null: there are none */
  evaluated(leaves: { readonly spoofed: number; readonly exempt: number } | null): Evaluated {
    const { list, config } = this.#of;
    const { numbers } = this.#of.side;
    if (leaves === null) return { entries: this.#all, failsafe: this.#failsafe, numbers };
    const first = entriesBeforeRules(this.#family, list.direction, config, {
      spoofed: this.#isSpoofed ? leaves.spoofed : null,
      exempt: leaves.exempt,
      isExempt: this.isExempt,
    });
    const isLast = this.#isSpared && !this.isExempt && leaves.exempt !== DEFAULT_LEAF;
    const last = isLast ? [entryAfterRules(leaves.exempt)] : [];
    return { entries: [...first, ...this.entries, ...last], failsafe: this.#failsafe, numbers };
  }
}
