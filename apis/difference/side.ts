import { FAMILIES, type Family, parseAddress } from '../../lib/net/address.ts';
import { complement, type Range, type Ranges } from '../../lib/net/interval.ts';
import { type CompiledRule, LAST_LINK_GROUP, type NodeState } from '../compiled.ts';
import type { Config } from '../config.ts';
import {
  DHCP,
  dropsSpoofed,
  failsafeList,
  failsafePeers,
  judgesLocalPods,
  MULTICAST_LISTENER,
  NEIGHBOR_DISCOVERY,
} from '../exemptions.ts';
import { ipProtocolNumber, PROTOCOL_NUMBERS } from '../flow.ts';
import type { Direction, PolicyTraffic } from '../objects.ts';
import type { Part } from './address-space.ts';
import { type Leaves, type PreparedRule, type Protected, preparedRule, type RuleListEntry } from './entry.ts';
import type { RuleList } from './rule-list.ts';
import { type Box, wholeBox } from './service-space.ts';
import type { SetTable } from './set-table.ts';

/** The lists of rules that are evaluated each for itself. */
export const RULE_LISTS = [
  { direction: 'ingress', traffic: 'Host' },
  { direction: 'ingress', traffic: 'NodePort' },
  { direction: 'egress', traffic: 'Host' },
] as const satisfies readonly { direction: Direction; traffic: PolicyTraffic }[];
export type List = (typeof RULE_LISTS)[number];

/** Failsafe traffic, and the set of its peers; null: any. */
export interface FailsafeFlows extends Protected {
  readonly set: number | null;
}

/** One state of a node, with sets as numbers. */
export interface Side {
  readonly rules: ReadonlyMap<List, readonly PreparedRule[]>;
  readonly failsafe: Readonly<Record<Direction, readonly FailsafeFlows[]>>;
  /** The set of the Nodes' addresses that pods may not use; null: they may. */
  readonly spoofed: number | null;
  /** Whether rules are asked about packets to local pods, although these are exempt. */
  readonly judgesLocalPods: boolean;
  readonly families: readonly Family[];
  /** As SetTable.numbers. */
  readonly numbers: readonly number[];
}

/**
 * @param known rules that were prepared before; new ones are added
 * @param isWanted rules for which it is false are left out; absent: those of Audit policies
 */
export function sideOf(
  state: NodeState,
  parts: { readonly config: Config; readonly table: SetTable; readonly leaves: Leaves },
  known: Map<CompiledRule, PreparedRule>,
  isWanted: (rule: CompiledRule) => boolean = isEnforced,
): Side {
  const { config, table } = parts;
  const prepared = (rule: CompiledRule): PreparedRule => {
    const one = known.get(rule) ?? preparedRule(rule, state, config, parts);
    known.set(rule, one);
    return one;
  };
  const wanted = state.rules.filter(isWanted);
  const nodes = failsafePeers('nodes', state);
  const failsafe = (direction: Direction): FailsafeFlows[] =>
    failsafeList(config, direction, state).map(({ protocol, ports, peers }) => {
      const set = failsafePeers(peers, state);
      const number = set === null ? null : table.numberOf(set);
      return { protocol: ipProtocolNumber(protocol), ports, set: number };
    });
  return {
    rules: new Map(
      RULE_LISTS.map((list) => {
        const own = wanted.filter(
          ({ source, traffic }) => source.direction === list.direction && traffic === list.traffic,
        );
        return [list, own.map(prepared)];
      }),
    ),
    failsafe: { ingress: failsafe('ingress'), egress: failsafe('egress') },
    spoofed: dropsSpoofed(state, config) && nodes !== null ? table.numberOf(nodes) : null,
    judgesLocalPods: judgesLocalPods(state),
    families: FAMILIES.filter((family) =>
      state.nodeAddresses.some((text) => parseAddress(text)?.family === family),
    ),
    numbers: table.numbers,
  };
}

export function isEnforced({ mode }: CompiledRule): boolean {
  return mode === 'Enforce';
}

/** The failsafe traffic of a list. */
export function failsafeOf({ failsafe }: Side, { direction, traffic }: List): readonly FailsafeFlows[] {
  return traffic === 'Host' ? failsafe[direction] : [];
}

/** Whether flows to local pods are exempt, but for rules that name pods. */
export function spareLocalPods({ direction }: List, { exemptions }: Config): boolean {
  return direction === 'egress' && exemptions.localPods;
}

/** The sets that decide which entries a peer has. */
export function usedSets(
  list: List,
  rules: readonly PreparedRule[],
  sides: readonly Side[],
): ReadonlySet<number> {
  const ofRules = rules.flatMap(({ sets, parts, destinations }) => [
    ...sets,
    ...[...parts, ...destinations].map(({ set }) => set),
  ]);
  const ofSides = sides.flatMap((side) => [
    ...failsafeOf(side, list).map(({ set }) => set),
    list.direction === 'ingress' ? side.spoofed : null,
  ]);
  return new Set([...ofRules, ...ofSides].filter((set) => set !== null));
}

/** The classes of addresses, in groups that these sets do not tell apart. */
export function projected(classes: Iterable<Part>, sets: ReadonlySet<number>): Iterable<readonly Part[]> {
  return Map.groupBy(classes, (one) => one.sets.filter((set) => sets.has(set)).join()).values();
}

/** Link groups that the rules do not tell apart. */
export interface GroupClass {
  readonly number: number;
  readonly ranges: Ranges;
}

/** Each link group that is named, then all others. */
export function groupClasses(rules: readonly RuleList[], { interfaceGroups }: Config): GroupClass[] {
  const { pods } = interfaceGroups;
  const named = [...new Set([pods, ...rules.flatMap((list) => [...list.groups()])])].sort((a, b) => a - b);
  const others = complement(
    named.map((group): Range => [group, group]),
    LAST_LINK_GROUP,
  );
  const single = named.map((number): GroupClass => ({ number, ranges: [[number, number]] }));
  const [first] = others;
  return first === undefined ? single : [...single, { number: first[0], ranges: others }];
}

interface BeforeRules {
  /** The outcome of a spoofed flow; null: the flow is not spoofed. */
  readonly spoofed: number | null;
  /** The outcome of an exempt flow. */
  readonly exempt: number;
  /** Whether all flows of the peer are exempt. */
  readonly isExempt: boolean;
}

/** The outcome before or after all rules, of all flows or of those in the boxes. */
function plainEntry(order: number, leaf: number, boxes: RuleListEntry['boxes']): RuleListEntry {
  return { order, leaf, boxes, isPass: false, isBaseline: true, isSkippable: false, sparesPods: false };
}

/** The outcome of flows that no rule decides, where it is not the default; also after a Pass. */
export function entryAfterRules(leaf: number): RuleListEntry {
  return plainEntry(Number.POSITIVE_INFINITY, leaf, null);
}

/** The decisions that come before the rules. */
export function entriesBeforeRules(
  family: Family,
  direction: Direction,
  config: Config,
  { spoofed, exempt, isExempt }: BeforeRules,
): RuleListEntry[] {
  const boxes = isExempt ? null : exemptBoxes(family, direction, config);
  return [
    ...(spoofed === null ? [] : [plainEntry(-2, spoofed, null)]),
    ...(boxes?.size === 0 ? [] : [plainEntry(-1, exempt, boxes)]),
  ];
}

/** The flows that are accepted before any rule, whatever the peer is. */
function exemptBoxes(family: Family, direction: Direction, { exemptions }: Config): Map<number, Box[]> {
  const { udp, icmpv6 } = PROTOCOL_NUMBERS;
  const boxes = new Map<number, Box[]>();
  // Answers at an address of the Node are not exempt.
  if (exemptions.dhcpClient && direction === 'egress') {
    const { client, server } = DHCP[family];
    boxes.set(udp, [{ x: [server, server], y: [client, client] }]);
  }
  if (family === 6) {
    const types = [
      ...(exemptions.neighborDiscovery ? NEIGHBOR_DISCOVERY : []),
      ...(exemptions.multicastListener ? MULTICAST_LISTENER : []),
    ];
    const { y } = wholeBox(icmpv6, direction, family);
    if (types.length > 0)
      boxes.set(
        icmpv6,
        types.map((type): Box => ({ x: [type, type], y })),
      );
  }
  return boxes;
}
