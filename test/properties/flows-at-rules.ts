import {
  type CompiledRule,
  type NodeState,
  namedBy,
  type PortMatch,
  type PortRange,
} from '../../apis/compiled.ts';
import type { Row } from '../../apis/difference/row.ts';
import { type Address, formatAddress, lastAddress, parseAddress } from '../../lib/net/address.ts';
import type { Range } from '../../lib/net/interval.ts';
import { unpackAddress } from '../../lib/net/member-set.ts';
import { memo } from '../../lib/sharing/memo.ts';
import { type Random, seededRandom } from '../../perf/generate/random.ts';
import type { Flow } from '../oracle/flow.ts';
import type { WholeFlow } from './whole-flow.ts';

/** Addresses that flows may come from; undefined: any. */
type Usable = ((address: string) => boolean) | undefined;

/**
 * Flows at the rules of a node, each rule as likely as the others: from a member, from an edge of a
 * prefix (first, last, one before, one after), from whom another rule is for; at one of its ports,
 * at an edge of its ranges, now and then at another's. The same for the same seed. Flows alone come
 * from the compiled rules: what is right is for others to say.
 */
export function flowsAtRules(
  state: NodeState,
  count: number,
  seed: string | number,
  usable?: Usable,
): Flow[] {
  const random = seededRandom(`flows ${seed}`);
  const [first, ...others] = state.rules;
  if (first === undefined) return [];
  const addressesOf = memo((rule: CompiledRule) => peerAddresses(rule, state, usable));
  const flows: Flow[] = [];
  // A rule without usable addresses gives none.
  for (let tries = 0; flows.length < count && tries < 20 * count; tries++) {
    const rule = random.pick([first, ...others]);
    const other = random.pick([first, ...others]);
    const [from, ...more] = addressesOf(random.next() < 0.85 ? rule : other);
    if (from === undefined) continue;
    const peer = random.pick([from, ...more]);
    flows.push(toFlow(rule, peer, random.next() < 0.85 ? rule : other, { state, random }));
  }
  return flows;
}

const ANYBODY = ['192.0.2.77', '2001:db8:77::77', '10.1.0.1'];

/** Members, and what lies beside prefixes; any address where the rule is for anybody. */
function peerAddresses(rule: CompiledRule, state: NodeState, usable: Usable): string[] {
  const { addressSets, serviceSets } = namedBy([rule]);
  const [id] = addressSets;
  const set = id === undefined ? undefined : state.addressSets.get(id);
  const [services] = serviceSets;
  const found: string[] = [];
  const add = (address: Address): void => {
    const bits = address.family === 4 ? 32n : 128n;
    if (address.value >= 0n && address.value < 1n << bits) found.push(formatAddress(address));
  };
  for (const part of set === undefined ? [] : [set.members.v4, set.members.v6]) {
    const { family, singles, prefixes } = part;
    for (let at = 0; at < singles.length; at += family === 4 ? 4 : 16)
      add(unpackAddress(family, singles, at));
    for (const prefix of prefixes) {
      const [low, high] = [prefix.value, lastAddress(prefix)];
      for (const value of [low - 1n, low, low, (low + high) / 2n, high, high, high + 1n])
        add({ family, value });
    }
  }
  for (const { address } of services === undefined ? [] : (state.serviceSets.get(services)?.members ?? [])) {
    found.push(address);
  }
  const all = found.length > 0 || set !== undefined ? found : ANYBODY;
  return usable === undefined ? all : all.filter(usable);
}

interface Means {
  readonly state: NodeState;
  readonly random: Random;
}

/** From the peer, to what the services of `named` say. */
function toFlow(
  { source, traffic }: CompiledRule,
  peer: string,
  named: CompiledRule,
  { state, random }: Means,
): Flow {
  const own = state.nodeAddresses.find((text) => parseAddress(text)?.family === parseAddress(peer)?.family);
  const local = own ?? (peer.includes(':') ? '2001:db8:5::5' : '192.0.2.5');
  const [src, dst] = source.direction === 'ingress' ? [peer, local] : [local, peer];
  const nodePort = traffic === 'NodePort' ? { traffic } : {};
  return { direction: source.direction, src, dst, ...transport(named.services, peer, random), ...nodePort };
}

function transport(services: readonly PortMatch[], peer: string, random: Random): Partial<Flow> {
  const [first = { protocol: 'tcp', ports: [443, 443] }, ...others] = services;
  const service = random.pick([first, ...others]);
  switch (service.protocol) {
    case 'tcp':
    case 'udp':
    case 'sctp': {
      const { protocol, sourcePorts, ports = [1, 65535] } = service;
      return {
        protocol,
        srcPort: portAt(sourcePorts ?? [33000, 60000], random),
        dstPort: portAt(ports, random),
      };
    }
    case 'icmp':
    case 'icmpv6':
    case 'igmp':
      return {
        protocol: peer.includes(':') ? 'icmpv6' : 'icmp',
        icmpType: peer.includes(':') ? 128 : 8,
        icmpCode: 0,
      };
    default:
      return { protocol: service.protocol };
  }
}

function portAt([first, last]: PortRange, random: Random): number {
  const inside = first + random.below(last - first + 1);
  const port = random.weighted([
    [first, 4],
    [last, 4],
    [inside, 4],
    [first - 1, 1],
    [last + 1, 1],
  ]);
  return Math.min(65535, Math.max(1, port));
}

/** Flows at the ends of rows, and one step outside: where an error of one would show. */
export function flowsAtRows(
  rows: readonly Row[],
  random: Random,
  families: readonly (4 | 6)[],
  most: number,
): WholeFlow[] {
  if (rows.length === 0 || families.length === 0) return [];
  const [first, ...others] = rows;
  return Array.from({ length: most }, () => {
    const row = first === undefined ? undefined : random.pick([first, ...others]);
    return row === undefined ? [] : (atRow(row, random, families) ?? []);
  }).flat();
}

function atRow(row: Row, random: Random, families: readonly (4 | 6)[]): WholeFlow | null {
  const [oneFamily = 4, ...otherFamilies] = families;
  const range = row.peers === null ? null : random.pick(row.peers as [string, ...string[]]);
  const end = parseAddress(range?.split('-')[random.below(2)] ?? '');
  const family = end?.family ?? random.pick([oneFamily, ...otherFamilies]);
  const peer = end === null ? anyAddress(family, random) : near(end.family, end.value, random);
  const protocol = atEnd(row.protocols, 0, 255, random);
  if (family === 4 ? protocol === 58 : protocol === 1 || protocol === 2) return null;
  const types = row.icmp?.types ?? row.igmp?.types ?? null;
  const group = row.igmp?.groups == null ? null : random.pick(row.igmp.groups as [string, ...string[]]);
  const to = row.destinations == null ? null : random.pick(row.destinations as [string, ...string[]]);
  const toEnd = parseAddress(to?.split('-')[random.below(2)] ?? '');
  const groupEnd = parseAddress(group?.split('-')[random.below(2)] ?? '');
  return {
    direction: row.direction,
    traffic: row.traffic,
    family,
    peer,
    group: atEnd(row.interfaceGroups, 0, 2 ** 32 - 1, random),
    protocol,
    dstPort: atEnd(row.ports, 1, 65_535, random),
    srcPort: atEnd(row.sourcePorts, 1, 65_535, random),
    type: atEnd(types, 0, 255, random),
    code: atEnd(row.icmp?.codes ?? null, 0, 255, random),
    igmpGroup: groupEnd === null ? anyAddress(4, random) : near(4, groupEnd.value, random),
    destination: toEnd?.family === family ? near(family, toEnd.value, random) : null,
  };
}

/** As a rule inside of a range, at one of its ends; at times one step outside. */
function atEnd(ranges: readonly Range[] | null, least: number, most: number, random: Random): number {
  if (ranges === null) return least + random.below(most - least + 1);
  const [first, last] = random.pick(ranges as [Range, ...Range[]]);
  const value = random.pick([first, last, first, last, first - 1, last + 1]);
  return Math.min(most, Math.max(least, value));
}

function near(family: 4 | 6, value: bigint, random: Random): string {
  const last = (1n << (family === 4 ? 32n : 128n)) - 1n;
  const moved = value + random.pick([0n, 0n, 0n, 1n, -1n]);
  return formatAddress({ family, value: moved < 0n ? 0n : moved > last ? last : moved });
}

function anyAddress(family: 4 | 6, random: Random): string {
  const words = Array.from({ length: family === 4 ? 2 : 8 }, () => BigInt(random.below(65_536)));
  return formatAddress({ family, value: words.reduce((value, word) => (value << 16n) | word, 0n) });
}
