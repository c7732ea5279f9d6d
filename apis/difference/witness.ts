import { type Family, formatAddress, parseAddress } from '../../lib/net/address.ts';
import type { Interval, Range, Ranges } from '../../lib/net/interval.ts';
import { type Flow, PROTOCOL_NUMBERS } from '../flow.ts';
import type { BrokenFlows } from './required-flows.ts';
import type { DecidingRule } from './row.ts';
import { NUMBERED, OTHER } from './service-space.ts';
import type { NumberTable } from './set-table.ts';

/** One of many flows, and the rule that decides it. */
interface Witness {
  readonly flow: Flow;
  readonly rule: DecidingRule | null;
}

/** Addresses from here on are preferred: those below are never another host's. */
const FIRST_USUAL: Readonly<Record<Family, bigint>> = { 4: 1n << 24n, 6: 0x2000n << 112n };
const PROTOCOL_NAMES: ReadonlyMap<number, string> = new Map(
  Object.entries(PROTOCOL_NUMBERS).map(([name, number]) => [number, name]),
);
const { tcp, udp } = PROTOCOL_NUMBERS;
/** Protocols that people know come first. */
const PREFERRED: readonly number[] = [tcp, udp];
/** The first that nothing names stands for such protocols: OSPF, GRE, ESP. */
const OTHERS = [89, 47, 50];
/** A port that clients choose. */
const A_CLIENT_PORT = 40_000;
const ALL_HOSTS = '224.0.0.1';

/**
 * One flow of all of these, of which everything is known but the link group where none is named: by
 * the lowest address of another host, then protocol and port. Null: they are all of the node
 * itself.
 *
 * @param own addresses of the node
 */
export function witnessOf(broken: readonly BrokenFlows[], own: readonly string[]): Witness | null {
  const local = new Map<Family, Set<bigint>>();
  for (const text of own) {
    const address = parseAddress(text);
    if (address === null) continue;
    const values = local.get(address.family) ?? new Set();
    local.set(address.family, values.add(address.value));
  }
  let best: { readonly flows: BrokenFlows; readonly key: bigint; readonly peer: bigint } | null = null;
  for (const flows of broken) {
    const { family, peers } = flows;
    const peer = lowest(family, peers, local.get(family) ?? new Set());
    if (peer === null) continue;
    const key = keyOf(family, peer);
    if (best === null || key < best.key || (key === best.key && isPlainer(flows, best.flows)))
      best = { flows, key, peer };
  }
  if (best === null) return null;
  const { flows, peer } = best;
  const address = own.find((text) => parseAddress(text)?.family === flows.family) ?? '';
  return {
    flow: flowOf(flows, formatAddress({ family: flows.family, value: peer }), address),
    rule: flows.rule,
  };
}

/** Null: there are own addresses only. */
function lowest(family: Family, ranges: readonly Interval[], own: ReadonlySet<bigint>): bigint | null {
  for (const start of [FIRST_USUAL[family], 0n]) {
    for (const { first, last } of ranges) {
      let value = first;
      if (value < start) value = start;
      while (own.has(value)) value++;
      if (value <= last) return value;
    }
  }
  return null;
}

/** Usual addresses first, IPv4 before IPv6. */
function keyOf(family: Family, value: bigint): bigint {
  const isUsual = value >= FIRST_USUAL[family];
  return ((isUsual ? 0n : 2n) + (family === 4 ? 0n : 1n)) * (1n << 128n) + value;
}

function isPlainer(a: BrokenFlows, b: BrokenFlows): boolean {
  const [x, y] = [placeOf(a), placeOf(b)];
  const at = x.findIndex((value, i) => value !== y[i]);
  return at !== -1 && (x[at] ?? 0) < (y[at] ?? 0);
}

function placeOf({ group, unit, table }: BrokenFlows): readonly number[] {
  const protocol = protocolOf(unit.protocols, table);
  const at = PREFERRED.indexOf(protocol);
  return [
    group === null ? 0 : 1,
    at === -1 ? PREFERRED.length : at,
    protocol,
    unit.xs?.[0]?.[0] ?? 0,
    group ?? 0,
  ];
}

function protocolOf(protocols: readonly number[], { numbers }: NumberTable): number {
  const preferred = PREFERRED.find((protocol) => protocols.includes(protocol));
  return preferred ?? protocols.find((protocol) => protocol !== OTHER) ?? unnamed(numbers);
}

function unnamed(numbers: readonly number[]): number {
  const isUnnamed = (one: number): boolean => !numbers.includes(one) && !NUMBERED.includes(one);
  const others = Array.from({ length: 256 }, (_, i) => 255 - i);
  return [...OTHERS, ...others].find(isUnnamed) ?? 0;
}

function flowOf({ list, family, group, unit, table }: BrokenFlows, peer: string, own: string): Flow {
  const protocol = protocolOf(unit.protocols, table);
  const { direction, traffic } = list;
  const isIngress = direction === 'ingress';
  const name = PROTOCOL_NAMES.get(protocol) as Flow['protocol'];
  const numbers = numbersOf(name, unit.xs, unit.ys);
  const hasGroup = name === undefined && isIngress && unit.ys !== null;
  const to = name === 'igmp' ? multicast(unit.ys) : own;
  const destination = hasGroup ? among(own, table.destinationTexts(family, unit.ys ?? [])) : to;
  return {
    direction,
    src: isIngress ? peer : own,
    dst: isIngress ? destination : peer,
    protocol: name ?? protocol,
    ...numbers,
    ...(group === null ? {} : { interfaceGroup: group }),
    ...(traffic === 'Host' ? {} : { traffic }),
  };
}

/** The two numbers of a protocol; `null` ranges are every value. */
function numbersOf(name: Flow['protocol'], xs: Ranges | null, ys: Ranges | null): Partial<Flow> {
  const first = (ranges: Ranges | null, otherwise: number): number => ranges?.[0]?.[0] ?? otherwise;
  switch (name) {
    case 'tcp':
    case 'udp':
    case 'sctp':
      return { srcPort: clientPort(ys), dstPort: first(xs, 1) };
    case 'icmp':
    case 'icmpv6':
      return { icmpType: first(xs, 0), icmpCode: first(ys, 0) };
    case 'igmp':
      return { igmpType: first(xs, 0) };
    default:
      return {};
  }
}

function clientPort(ranges: Ranges | null): number {
  const holds = ([first, last]: Range): boolean => first <= A_CLIENT_PORT && A_CLIENT_PORT <= last;
  return ranges === null || ranges.some(holds) ? A_CLIENT_PORT : (ranges[0]?.[0] ?? A_CLIENT_PORT);
}

/** The node's own address, if it is in a range; else one that is. */
function among(own: string, ranges: readonly string[]): string {
  const value = parseAddress(own)?.value ?? 0n;
  const ends = ranges.map((range) => range.split('-'));
  const isIn = ends.some(([first = '', last = '']) => {
    const [from, to] = [parseAddress(first), parseAddress(last)];
    return from !== null && to !== null && from.value <= value && value <= to.value;
  });
  return isIn ? own : (ends[0]?.[0] ?? own);
}

function multicast(groups: Ranges | null): string {
  const first = groups?.[0]?.[0];
  return first === undefined ? ALL_HOSTS : formatAddress({ family: 4, value: BigInt(first) });
}
