import type { Range } from '../../lib/net/interval.ts';
import type { CompiledRule, NodeState, PortMatch } from '../compiled.ts';
import type { Config } from '../config.ts';
import { isSkippable, sparesLocalPods } from '../exemptions.ts';
import { ipProtocolNumber, type Verdict } from '../flow.ts';
import { BASELINE_PRIORITY } from '../order.ts';
import { resolvedPeers } from '../resolved-peers.ts';
import type { DecidingRule } from './row.ts';
import { type Box, boxOf } from './service-space.ts';
import type { SetTable } from './set-table.ts';

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
  /** As SetTable.numbers: the same for all states that are compared. */
  readonly numbers: readonly number[];
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

function leafOf({ action, source }: CompiledRule): Leaf {
  if (action === 'Pass') return DEFAULT;
  const { policy, rule, ruleIndex } = source;
  return { verdict: action, rule: { policy, rule, ruleIndex } };
}

type Boxes = ReadonlyMap<number, readonly Box[]>;

/** A part of a rule that only peers in a set match. */
interface SetPart {
  readonly set: number;
  readonly boxes: Boxes;
}

/** A rule with its sets and outcome as numbers. */
export interface PreparedRule {
  readonly id: string;
  /** Rules with the same meaning have the same. */
  readonly meaning: string;
  readonly outcome: Omit<RuleListEntry, 'order' | 'boxes'>;
  readonly boxes: Boxes | null;
  readonly matchesAny: boolean;
  readonly groups: readonly number[];
  readonly sets: readonly number[];
  /** Services: addresses with their ports. */
  readonly parts: readonly SetPart[];
  /** Destinations of outgoing packets: addresses that the peer must have besides. */
  readonly destinations: readonly SetPart[];
}

/** Throws as `resolvedPeers` does. */
export function preparedRule(
  rule: CompiledRule,
  state: Pick<NodeState, 'addressSets' | 'serviceSets'>,
  config: Pick<Config, 'interfaceGroups'>,
  { table, leaves }: { readonly table: SetTable; readonly leaves: Leaves },
): PreparedRule {
  const { services, source, action, tierPriority } = rule;
  const peers = resolvedPeers(rule, state, config);
  const { direction } = source;
  for (const { protocol } of services) if (typeof protocol === 'number') table.addProtocol(protocol);
  const groupOf = (service: PortMatch): string | undefined =>
    direction === 'egress' && 'group' in service ? service.group : undefined;
  const boxesIn = (some: readonly PortMatch[]): Map<number, Box[]> => {
    const grouped = Map.groupBy(some, ({ protocol }) => ipProtocolNumber(protocol));
    const numberOf = (destination: string): number => table.destinationNumber(destination);
    return new Map(
      [...grouped].map(([protocol, own]) => [protocol, own.map((one) => boxOf(one, direction, numberOf))]),
    );
  };
  const boxes = services.length === 0 ? null : boxesIn(services.filter((one) => groupOf(one) === undefined));
  const destinations = services.flatMap((service): SetPart[] => {
    const group = groupOf(service);
    return group === undefined ? [] : [{ set: table.numberOfAddress(group), boxes: boxesIn([service]) }];
  });
  const named = peers.flatMap((peer) => (peer.kind === 'services' ? table.addressesOf(peer.set) : []));
  const outcome = {
    leaf: leaves.numberOf(leafOf(rule)),
    isPass: action === 'Pass',
    isBaseline: tierPriority === BASELINE_PRIORITY,
    isSkippable: isSkippable(rule),
    sparesPods: sparesLocalPods(rule),
  };
  const prepared = {
    outcome,
    boxes,
    matchesAny: peers.some(({ kind }) => kind === 'any'),
    groups: peers.flatMap((peer) => (peer.kind === 'interfaces' ? peer.groups : [])),
    sets: peers.flatMap((peer) => (peer.kind === 'addresses' ? [table.numberOf(peer.set)] : [])),
    parts: named,
    destinations,
  };
  const { leaf: _, ...kind } = outcome;
  const meaning = JSON.stringify({
    ...prepared,
    outcome: { ...kind, action },
    boxes: boxes === null ? null : [...boxes],
    parts: named.map(({ set }) => set),
    destinations: destinations.map((part) => [part.set, ...part.boxes]),
  });
  return { id: rule.id, meaning, ...prepared };
}
