import type { CompiledRule, PortRange, Service } from '../../apis/compiled.ts';
import { shortHash } from '../../apis/hash.ts';
import { ALL_PORTS, boundaries, intersectPorts, portCount, unionPorts } from './ports.ts';
import type { Chain, ChainVerdict, L4Protocol, NftRule, PortMap, PortProtocol } from './ruleset.ts';

/**
 * The index in front of the rule chains. It only skips rules that can't match; it never decides. What comes in is the rules in
 * evaluation order with the chain each has; what goes out is an entry chain that tries, for every packet, every rule that could match
 * it, in order.
 *
 * linear: every rule is tried. indexed: by protocol, then for TCP, UDP and SCTP by destination port. Consecutive rules
 * that name ports form a segment with one verdict map; a rule that names none is tried where it stands. So a packet costs one hash
 * look-up a segment and one jump for each rule that may match: with n rules on distinct ports and k without ports among them,
 * at most k + 1 look-ups, k + 1 jumps.
 */
export interface Dispatched {
  readonly chains: readonly Chain[];
  readonly maps: readonly PortMap[];
}

export interface Entry {
  readonly rule: CompiledRule;
  readonly chain: string;
}

/** Traffic that a dispatch is for: only these ports of these protocols can come in. Null is any traffic. */
export type Scope = ReadonlyMap<PortProtocol, readonly PortRange[]> | null;

const PORT_PROTOCOLS = ['tcp', 'udp', 'sctp'] as const;
const OTHER_PROTOCOLS = ['icmp', 'icmpv6', 'igmp'] as const;
/** A range of at most so many ports is single elements of the hash map: hash look-ups are faster than interval ones. */
const EXPAND_PORTS = 16;
/** Jumps and map elements that a segment may have for each of its rules, before its widest rules are tried for every port. */
const MAX_REPLICATION = 8;

export function linearDispatch(name: string, entries: readonly Entry[]): Dispatched {
  return { chains: [indexChain(name, entries.map(jump))], maps: [] };
}

export interface DispatchOptions {
  readonly scope?: Scope;
  /** Ports are those that the client used, before destination NAT. */
  readonly original?: boolean;
}

export function indexedDispatch(
  name: string,
  entries: readonly Entry[],
  { scope = null, original = false }: DispatchOptions = {},
): Dispatched {
  const chains: Chain[] = [];
  const maps: PortMap[] = [];
  const rules: NftRule[] = [];
  // What names neither ports nor protocols is tried for every packet; a protocol that has nothing else needs no chain.
  const everywhere = entries.filter(({ rule }) => servicesOf(rule).length === 0);
  // A packet of the protocol goes there for good; plain rules, because a verdict map here would leak (ADR 2).
  const toProtocol = (protocol: L4Protocol): NftRule => ({
    ...plain({ kind: 'goto', chain: `${name}-${protocol}` }),
    matches: [{ match: 'l4proto', protocols: [protocol] }],
  });
  for (const protocol of PORT_PROTOCOLS) {
    const ports = scope === null ? [ALL_PORTS] : (scope.get(protocol) ?? []);
    const own = entries.flatMap((entry) => portEntry(entry, protocol, ports));
    if (own.length === (scope === null ? everywhere.length : 0)) continue;
    const part = portDispatch(`${name}-${protocol}`, { protocol, original }, own);
    chains.push(...part.chains);
    maps.push(...part.maps);
    rules.push(toProtocol(protocol));
  }
  const rest = scope === null ? OTHER_PROTOCOLS : [];
  for (const protocol of rest) {
    const own = entries.filter(
      ({ rule }) => servicesOf(rule).length === 0 || servicesOf(rule).some(names(protocol)),
    );
    if (own.length === everywhere.length) continue;
    chains.push(indexChain(`${name}-${protocol}`, own.map(jump)));
    rules.push(toProtocol(protocol));
  }
  if (scope === null) rules.push(...everywhere.map(jump));
  return { chains: [indexChain(name, rules), ...chains], maps };
}

/** A ServiceSet has members of these protocols and no others; which ports they have changes without the rule. */
function servicesOf({ services, serviceSets }: CompiledRule): readonly Service[] {
  return serviceSets.length > 0 ? EVERY_PORT : services;
}

const EVERY_PORT: readonly Service[] = PORT_PROTOCOLS.map((protocol) => ({ protocol }));

function names(protocol: L4Protocol): (service: Service) => boolean {
  return (service) => service.protocol === protocol;
}

interface PortEntry {
  readonly chain: string;
  /** Within the scope; null is every port. */
  readonly ranges: readonly PortRange[] | null;
}

function portEntry({ rule, chain }: Entry, protocol: PortProtocol, scope: readonly PortRange[]): PortEntry[] {
  if (scope.length === 0) return [];
  const services = servicesOf(rule);
  if (services.length === 0) return [{ chain, ranges: null }];
  const named: PortRange[] = [];
  for (const service of services) if (service.protocol === protocol) named.push(service.ports ?? ALL_PORTS);
  if (named.length === 0) return [];
  const ranges = intersectPorts(unionPorts(named), scope);
  if (ranges.length === 0) return [];
  return [{ chain, ranges: portCount(ranges) === portCount(scope) ? null : ranges }];
}

/** Chain `name`: the segments and the rules for every port, in order. */
function portDispatch(
  name: string,
  by: { readonly protocol: PortProtocol; readonly original: boolean },
  entries: readonly PortEntry[],
): Dispatched {
  const rules: NftRule[] = [];
  const chains: Chain[] = [];
  const maps: PortMap[] = [];
  for (const segment of segments(entries)) {
    if (segment.ranges === null) {
      rules.push(plain({ kind: 'jump', chain: segment.chain }));
      continue;
    }
    const { ports, ranges, lists } = segmentMaps(name, segment.members);
    chains.push(...lists);
    if (ports.size > 0) {
      const map = { name: `${name}-ports-${shortHash(10, [...ports])}`, entries: ports };
      maps.push(map);
      rules.push(plain({ kind: 'portMap', ...by, map: map.name }));
    }
    if (ranges.length > 0) {
      const statement = { kind: 'portRangeMap', ...by, entries: ranges } as const;
      const chain = fixedChain(`${name}-ranges-${shortHash(10, ranges)}`, [plain(statement)]);
      chains.push(chain);
      rules.push(plain({ kind: 'jump', chain: chain.name }));
    }
  }
  return { chains: [indexChain(name, rules), ...unique(chains)], maps };
}

interface RangeEntry {
  readonly chain: string;
  readonly ranges: readonly PortRange[];
}
type Segment =
  | { readonly ranges: null; readonly chain: string }
  | { readonly ranges: 'some'; readonly members: readonly RangeEntry[] };

/** Cuts the list at rules for every port, and at rules so wide that indexing them would cost more than trying them. */
function segments(entries: readonly PortEntry[]): Segment[] {
  const wide = wideRules(entries);
  const found: Segment[] = [];
  let members: RangeEntry[] = [];
  const close = (): void => {
    if (members.length > 0) found.push({ ranges: 'some', members });
    members = [];
  };
  for (const { chain, ranges } of entries) {
    if (ranges !== null && !wide.has(chain)) {
      members.push({ chain, ranges });
      continue;
    }
    close();
    found.push({ ranges: null, chain });
  }
  close();
  return found;
}

/**
 * Overlapping ranges can need a list of rules for each of 2 n intervals. The rules that lie in most intervals are taken out until what is
 * left needs at most MAX_REPLICATION list entries a rule.
 */
function wideRules(entries: readonly PortEntry[]): Set<string> {
  const wide = new Set<string>();
  const lists = entries.flatMap(({ ranges }) => (ranges === null ? [] : [ranges]));
  // A single port is one interval, whatever the others are.
  if (lists.every((ranges) => ranges.every(([first, last]) => first === last))) return wide;
  for (;;) {
    const left = entries.flatMap(({ chain, ranges }) =>
      ranges === null || wide.has(chain) ? [] : [{ chain, ranges }],
    );
    const points = boundaries(left.flatMap((entry) => entry.ranges));
    const place = new Map(points.map((point, i) => [point, i]));
    const spans = left.map(({ chain, ranges }) => {
      const intervals = ranges.map(([first, last]) => (place.get(last + 1) ?? 0) - (place.get(first) ?? 0));
      return { chain, span: intervals.reduce((sum, count) => sum + count, 0), own: ranges.length };
    });
    let excess = spans.reduce((sum, { span, own }) => sum + span - MAX_REPLICATION * own, 0);
    if (excess <= 0) return wide;
    spans.sort((a, b) => b.span - a.span || (a.chain < b.chain ? -1 : 1));
    for (const { chain, span, own } of spans) {
      if (excess <= 0) break;
      wide.add(chain);
      excess -= span - MAX_REPLICATION * own;
    }
  }
}

interface SegmentMaps {
  readonly ports: ReadonlyMap<number, ChainVerdict>;
  readonly ranges: readonly (readonly [PortRange, ChainVerdict])[];
  readonly lists: readonly Chain[];
}

/** Sweeps the ports once: every interval between two boundaries gets the rules that cover it, in order. */
function segmentMaps(name: string, members: readonly RangeEntry[]): SegmentMaps {
  const starts = new Map<number, number[]>();
  const ends = new Map<number, number[]>();
  for (const [i, { ranges }] of members.entries()) {
    for (const [first, last] of ranges) {
      push(starts, first, i);
      push(ends, last + 1, i);
    }
  }
  const points = [...new Set([...starts.keys(), ...ends.keys()])].sort((a, b) => a - b);
  const active = new Set<number>();
  const ports = new Map<number, ChainVerdict>();
  const ranges: [PortRange, ChainVerdict][] = [];
  const lists = new Map<string, Chain>();
  for (const [at, first] of points.entries()) {
    for (const i of ends.get(first) ?? []) active.delete(i);
    for (const i of starts.get(first) ?? []) active.add(i);
    if (active.size === 0) continue;
    const last = (points[at + 1] ?? first) - 1;
    const verdict = { kind: 'jump', chain: target(name, members, active, lists) } as const;
    if (last - first < EXPAND_PORTS) for (let port = first; port <= last; port++) ports.set(port, verdict);
    else ranges.push([[first, last], verdict]);
  }
  return { ports, ranges, lists: [...lists.values()] };
}

function push(lists: Map<number, number[]>, key: number, value: number): void {
  const list = lists.get(key);
  if (list === undefined) lists.set(key, [value]);
  else list.push(value);
}

/** One rule: its own chain. Several: a chain that tries them in order, shared by all ports with the same rules. */
function target(
  name: string,
  members: readonly RangeEntry[],
  active: ReadonlySet<number>,
  lists: Map<string, Chain>,
): string {
  const [first] = active;
  const only = active.size === 1 ? members[first ?? 0]?.chain : undefined;
  if (only !== undefined) return only;
  const chains = [...active].sort((a, b) => a - b).flatMap((i) => members[i]?.chain ?? []);
  const listName = `${name}-list-${shortHash(10, chains)}`;
  if (!lists.has(listName)) {
    const rules = chains.map((chain) => plain({ kind: 'jump', chain }));
    lists.set(listName, fixedChain(listName, rules));
  }
  return listName;
}

function unique(chains: readonly Chain[]): Chain[] {
  return [...new Map(chains.map((chain) => [chain.name, chain])).values()];
}

function jump({ chain }: Entry): NftRule {
  return plain({ kind: 'jump', chain });
}

function plain(statement: NftRule['statement']): NftRule {
  return { matches: [], counter: false, statement, comment: null };
}

function indexChain(name: string, rules: readonly NftRule[]): Chain {
  return { name, base: null, fixed: false, rules, source: null, ruleId: null };
}

function fixedChain(name: string, rules: readonly NftRule[]): Chain {
  return { name, base: null, fixed: true, rules, source: null, ruleId: null };
}
