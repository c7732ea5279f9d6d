import { parseAddress } from '../../lib/net/address.ts';
import type { Range } from '../../lib/net/interval.ts';
import { type Flow, ipProtocolNumber, type Verdict } from '../flow.ts';
import type { Direction, PolicyTraffic } from '../objects.ts';

/** The rule that decides. */
export interface DecidingRule {
  readonly policy: string;
  readonly rule: string;
  readonly ruleIndex: number;
}

/**
 * A set of flows whose verdict differs: all combinations of the values of each field. Lists are
 * sorted and disjoint; null is every value. In the form of docs/semantics.md section 6.
 */
export interface Row {
  readonly direction: Direction;
  readonly traffic: PolicyTraffic;
  /** Addresses of the other end: FIRST-LAST. */
  readonly peers: readonly string[] | null;
  /** Link groups. */
  readonly interfaceGroups: readonly Range[] | null;
  readonly protocols: readonly Range[] | null;
  /** Only of TCP, UDP and SCTP. */
  readonly ports: readonly Range[] | null;
  readonly sourcePorts: readonly Range[] | null;
  /** Only of ICMP and ICMPv6. */
  readonly icmp: { readonly types: readonly Range[]; readonly codes: readonly Range[] | null } | null;
  /** Only of IGMP; `groups`: destinations, FIRST-LAST. */
  readonly igmp: {
    readonly types: readonly Range[] | null;
    readonly groups: readonly string[] | null;
  } | null;
  /**
   * Incoming packets of protocols without ports and types: their destinations, FIRST-LAST. Absent:
   * every one.
   */
  readonly destinations?: readonly string[] | null;
  readonly before: Verdict;
  readonly after: Verdict;
  /** Null: no rule decides. */
  readonly ruleBefore: DecidingRule | null;
  readonly ruleAfter: DecidingRule | null;
}

/** Nodes with the same rows: an item of `groups` of `nodewall diff -o json`. */
export interface NodeGroup<Change = Row> {
  /** Sorted. */
  readonly nodes: readonly string[];
  /** How many there are, where `nodes` has the first ones; absent: those are all. */
  readonly nodeCount?: number;
  readonly changes: readonly Change[];
}

/**
 * Whether a flow may be one of a row. What the flow does not say is taken for any value; a link
 * group must be a number.
 */
export function mayBeInRow(row: Row, flow: Flow): boolean {
  const { direction, traffic = 'Host', src, dst, protocol, interfaceGroup } = flow;
  if (row.direction !== direction || row.traffic !== traffic) return false;
  const number = protocol === undefined ? undefined : ipProtocolNumber(protocol);
  if (!isWithin(row.protocols, number)) return false;
  if (!isWithin(row.ports, flow.dstPort) || !isWithin(row.sourcePorts, flow.srcPort)) return false;
  if (row.icmp !== null && !isIn(row.icmp.types, flow.icmpType)) return false;
  if (row.icmp !== null && !isWithin(row.icmp.codes, flow.icmpCode)) return false;
  if (!isWithin(row.igmp?.types ?? null, flow.igmpType)) return false;
  if (direction === 'ingress' && !isAmong(row.destinations ?? null, dst)) return false;
  if (typeof interfaceGroup === 'number' && !isWithin(row.interfaceGroups, interfaceGroup)) return false;
  return isAmong(row.peers, direction === 'ingress' ? src : dst);
}

function isWithin(ranges: readonly Range[] | null, value: number | undefined): boolean {
  return ranges === null || isIn(ranges, value);
}

function isIn(ranges: readonly Range[], value: number | undefined): boolean {
  return value === undefined || ranges.some(([first, last]) => first <= value && value <= last);
}

function isAmong(ranges: readonly string[] | null, text: string | undefined): boolean {
  const address = text === undefined ? null : parseAddress(text);
  if (ranges === null || address === null) return true;
  return ranges.some((range) => {
    const [first, last] = range.split('-').map(parseAddress);
    if (first == null || last == null || first.family !== address.family) return false;
    return first.value <= address.value && address.value <= last.value;
  });
}
