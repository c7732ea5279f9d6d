import { FAMILIES, type Family, parseAddress } from '../../lib/net/address.ts';
import type { Range, Ranges } from '../../lib/net/ranges.ts';
import { complement } from '../../lib/net/ranges.ts';
import type { CompiledRule, NodeState } from '../compiled.ts';
import type { Config } from '../config.ts';
import { DHCP, dropsSpoofed, MULTICAST_LISTENER, NEIGHBOR_DISCOVERY } from '../exemptions.ts';
import { failsafeList, failsafePeers } from '../failsafe.ts';
import type { Direction, PolicyTraffic } from '../objects.ts';
import { PROTOCOL_NUMBERS } from '../protocols.ts';
import { LAST_LINK_GROUP } from '../rule-peer.ts';
import { DEFAULT_LEAF, type Entry, type Evaluated, type Protected } from './first-match.ts';
import { Leaves } from './leaves.ts';
import type { Part } from './partition.ts';
import { type PreparedRule, preparedRule } from './prepared-rule.ts';
import { type NumberedRow, RowCollector } from './rows.ts';
import { ownRules, RuleList, relevantRules } from './rule-list.ts';
import { type Box, wholeBox } from './service-space.ts';
import { SetTable } from './set-table.ts';
import { type Unit, unitsOf } from './units.ts';

const LISTS = [
  { direction: 'ingress', traffic: 'Host' },
  { direction: 'ingress', traffic: 'NodePort' },
  { direction: 'egress', traffic: 'Host' },
] as const satisfies readonly { direction: Direction; traffic: PolicyTraffic }[];
type List = (typeof LISTS)[number];

/** Failsafe traffic, and the set of its peers; null: any. */
interface FailsafeFlows extends Protected {
  readonly set: number | null;
}

/** One state of a node, with sets as numbers. */
interface Side {
  readonly rules: ReadonlyMap<List, readonly PreparedRule[]>;
  readonly failsafe: Readonly<Record<Direction, readonly FailsafeFlows[]>>;
  /** The set of the Nodes' addresses that pods may not use; null: they may. */
  readonly spoofed: number | null;
  readonly families: readonly Family[];
}

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
  readonly #table = new SetTable();
  readonly #leaves = new Leaves();
  readonly #prepared = {
    before: new Map<CompiledRule, PreparedRule>(),
    after: new Map<CompiledRule, PreparedRule>(),
  };
  readonly #spoofedLeaf: number;

  constructor(config: Config) {
    this.#config = config;
    this.#spoofedLeaf = this.#leaves.numberOf({ verdict: 'Drop', rule: null });
  }

  /** Throws if a rule names a set or a link group that is not there. */
  register(before: NodeState, after: NodeState): StatePair {
    return { before: this.#side(before, 'before'), after: this.#side(after, 'after') };
  }

  /** The flows whose verdict differs; after all pairs are registered. */
  rows({ before, after }: StatePair): NumberedRow[] {
    const families = commonFamilies({ before, after });
    return LISTS.flatMap((list) => this.#rowsOf(list, before, after, families));
  }

  #side(state: NodeState, which: 'before' | 'after'): Side {
    const config = this.#config;
    const known = this.#prepared[which];
    const parts = { table: this.#table, leaves: this.#leaves };
    const prepared = (rule: CompiledRule): PreparedRule => {
      const one = known.get(rule) ?? preparedRule(rule, state, config, parts);
      known.set(rule, one);
      return one;
    };
    const enforced = state.rules.filter(({ mode }) => mode === 'Enforce');
    const nodes = failsafePeers('nodes', state);
    return {
      rules: new Map(
        LISTS.map((list) => {
          const own = enforced.filter(
            ({ source, traffic }) => source.direction === list.direction && traffic === list.traffic,
          );
          return [list, own.map(prepared)];
        }),
      ),
      failsafe: {
        ingress: this.#failsafe(state, 'ingress'),
        egress: this.#failsafe(state, 'egress'),
      },
      spoofed: dropsSpoofed(state, config) && nodes !== null ? this.#table.numberOf(nodes) : null,
      families: FAMILIES.filter((family) =>
        state.nodeAddresses.some((text) => parseAddress(text)?.family === family),
      ),
    };
  }

  #failsafe(state: NodeState, direction: Direction): FailsafeFlows[] {
    return failsafeList(this.#config, direction, state).map(({ protocol, ports, peers }) => {
      const set = failsafePeers(peers, state);
      return {
        protocol: PROTOCOL_NUMBERS[protocol],
        ports,
        set: set === null ? null : this.#table.numberOf(set),
      };
    });
  }

  #rowsOf(list: List, before: Side, after: Side, families: readonly Family[]): NumberedRow[] {
    const { direction, traffic } = list;
    const comparison = new Comparison(list, before, after, {
      config: this.#config,
      spoofedLeaf: this.#spoofedLeaf,
      isChange: (from, to) => this.#leaves.isChange(from, to),
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

interface ComparisonParts {
  readonly config: Config;
  readonly spoofedLeaf: number;
  readonly isChange: (before: number, after: number) => boolean;
}

/** Link groups that the rules do not tell apart. */
interface GroupClass {
  readonly number: number;
  readonly ranges: Ranges;
}

/** The rules of one direction and kind of traffic of both states. */
class Comparison {
  readonly #list: List;
  readonly #parts: ComparisonParts;
  readonly #sides: readonly [Side, Side];
  readonly #rules: readonly RuleList[];
  readonly #isOtherwise: boolean;
  readonly #units = new Map<string, readonly Unit[]>();
  readonly #usedSets: ReadonlySet<number>;
  /** Nothing can differ. */
  readonly isSame: boolean;
  readonly groups: readonly GroupClass[];

  constructor(list: List, before: Side, after: Side, parts: ComparisonParts) {
    this.#list = list;
    this.#parts = parts;
    this.#sides = [before, after];
    const all = [before.rules.get(list) ?? [], after.rules.get(list) ?? []] as const;
    const own = ownRules(...all);
    this.#isOtherwise =
      JSON.stringify(this.#failsafeOf(before)) !== JSON.stringify(this.#failsafeOf(after)) ||
      (list.direction === 'ingress' && before.spoofed !== after.spoofed);
    this.isSame = !this.#isOtherwise && own.every((side) => !side.includes(true));
    const changed = ([0, 1] as const).flatMap((i) => all[i].filter((_, at) => own[i][at]));
    const relevant = ([0, 1] as const).map((i) =>
      this.#isOtherwise ? { rules: all[i], isOwn: own[i] } : relevantRules(all[i], own[i], changed),
    );
    this.#rules = relevant.map(({ rules, isOwn }) => new RuleList(rules, isOwn));
    const rules = relevant.map((side) => side.rules);
    this.#usedSets = new Set(
      [
        ...rules
          .flat()
          .flatMap(({ sets, parts: named, igmpGroups }) => [
            ...sets,
            ...[...named, ...igmpGroups].map(({ set }) => set),
          ]),
        ...[before, after].flatMap((side) => [
          ...this.#failsafeOf(side).map(({ set }) => set),
          list.direction === 'ingress' ? side.spoofed : null,
        ]),
      ].filter((set) => set !== null),
    );
    this.groups = this.#groupClasses();
  }

  /** The classes of addresses, in groups that the rules do not tell apart. */
  projected(classes: readonly Part[]): Iterable<readonly Part[]> {
    return Map.groupBy(classes, ({ sets }) => sets.filter((set) => this.#usedSets.has(set)).join()).values();
  }

  /** The flows of a peer that differ. */
  units(family: Family, peers: Part, group: number): readonly Unit[] {
    const { direction } = this.#list;
    const { config, isChange } = this.#parts;
    const isPods = group === config.interfaceGroups.pods;
    const isExempt = isPods && this.#areExempt();
    if (isExempt && !this.#isOtherwise) return [];
    const entries = this.#rules.map((rules) => rules.entriesFor(peers, group));
    if (!this.#isOtherwise && !entries.some((list) => list.some(({ isOwn }) => isOwn))) return [];
    const failsafe = this.#sides.map((side) =>
      this.#failsafeOf(side).filter(({ set }) => set === null || peers.sets.includes(set)),
    );
    const isSpoofed = this.#sides.map(
      ({ spoofed }) => isPods && direction === 'ingress' && spoofed !== null && peers.sets.includes(spoofed),
    );
    const ids = entries.map((list) => list.map(({ id }) => id));
    const key = JSON.stringify([family, isExempt, ids, failsafe, isSpoofed]);
    const known = this.#units.get(key);
    if (known !== undefined) return known;
    const side = (i: 0 | 1): Evaluated => ({
      entries: [...this.#first(family, isSpoofed[i] ?? false, isExempt), ...(entries[i] ?? [])],
      failsafe: failsafe[i] ?? [],
    });
    const units = unitsOf(family, direction, [side(0), side(1)], isChange);
    this.#units.set(key, units);
    return units;
  }

  /** Whether flows from (NodePort) or to local pods are exempt; from, whatever the configuration says. */
  #areExempt(): boolean {
    if (this.#list.traffic === 'NodePort') return true;
    return this.#list.direction === 'egress' && this.#parts.config.exemptions.localPods;
  }

  #failsafeOf({ failsafe }: Side): readonly FailsafeFlows[] {
    return this.#list.traffic === 'Host' ? failsafe[this.#list.direction] : [];
  }

  /** What comes before the rules. */
  #first(family: Family, isSpoofed: boolean, isExempt: boolean): Entry[] {
    const { direction } = this.#list;
    const entry = (order: number, leaf: number, boxes: Entry['boxes']): Entry => ({
      order,
      leaf,
      boxes,
      isPass: false,
      isBaseline: false,
      isSkippable: false,
    });
    const exempt = isExempt ? null : exemptBoxes(family, direction, this.#parts.config);
    return [
      ...(isSpoofed ? [entry(-2, this.#parts.spoofedLeaf, null)] : []),
      ...(exempt?.size === 0 ? [] : [entry(-1, DEFAULT_LEAF, exempt)]),
    ];
  }

  #groupClasses(): GroupClass[] {
    const { pods } = this.#parts.config.interfaceGroups;
    const named = [...new Set([pods, ...this.#rules.flatMap((rules) => [...rules.groups()])])].sort(
      (a, b) => a - b,
    );
    const others = complement(
      named.map((group): Range => [group, group]),
      LAST_LINK_GROUP,
    );
    const single = named.map((number): GroupClass => ({ number, ranges: [[number, number]] }));
    const [first] = others;
    return first === undefined ? single : [...single, { number: first[0], ranges: others }];
  }
}

/** The flows that are accepted before any rule, whatever the peer is. */
function exemptBoxes(family: Family, direction: Direction, { exemptions }: Config): Map<number, Box[]> {
  const { udp, icmpv6 } = PROTOCOL_NUMBERS;
  const boxes = new Map<number, Box[]>();
  if (exemptions.dhcpClient) {
    const { client, server } = DHCP[family];
    const [x, y] = direction === 'egress' ? [server, client] : [client, server];
    boxes.set(udp, [{ x: [x, x], y: [y, y] }]);
  }
  if (family === 6) {
    const types = [
      ...(exemptions.neighborDiscovery ? NEIGHBOR_DISCOVERY : []),
      ...(exemptions.multicastListener ? MULTICAST_LISTENER : []),
    ];
    const { y } = wholeBox(icmpv6, direction);
    if (types.length > 0)
      boxes.set(
        icmpv6,
        types.map((type): Box => ({ x: [type, type], y })),
      );
  }
  return boxes;
}
