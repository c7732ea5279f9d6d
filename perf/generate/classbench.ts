/**
 * Rules in the mixes of access lists, firewalls and IP chains that ClassBench describes (D. E.
 * Taylor, J. S. Turner: "ClassBench: A Packet Classification Benchmark", INFOCOM 2005; IEEE/ACM
 * Transactions on Networking 15(3), 2007; technical report WUCSE-2004-28): protocol, the class of
 * each port (wildcard; HI 1024–65535; LO 0–1023; arbitrary range; exact) by protocol, and prefix
 * lengths.
 *
 * - acl: the parameter file `acl1_seed` (made from 733 rules): shares of protocols, port pairs,
 *   ranges, exact ports and source prefix lengths by
 *   port pair as it states them, the rarest ports left out.
 * - fw, ipc: shares counted in stretches (about 450 rules each) of the 1,000-rule sets that
 *   ClassBench generates from `fw1_seed` and `ipc1_seed`;
 *   exact ports by their rank there. The source ranges of ipc are those of `ipc1_seed` itself.
 *
 * Rules stand narrow ones first. Three things differ. Here the Node is the destination, so
 * destination prefixes fall away. Protocols that a policy cannot name (GRE, ESP, AH: 5 % of fw, 1 %
 * of ipc) are SCTP without ports. And whatever would match the benchmark's own connection has a
 * source prefix that leaves its client out, by another prefix or, where it is 0.0.0.0/0, by
 * `except`.
 */
import { type PortClass, type Seed, type SeedStatistics, STATISTICS } from './classbench-seeds.ts';
import type { Random, Shares } from './random.ts';
import type { Connection, GeneratedRule, PortSpan } from './ruleset.ts';

/** `count` rules, two thirds of them Allow; none matches the connection. */
export function classBenchRules(
  seed: Seed,
  count: number,
  random: Random,
  connection: Connection,
): GeneratedRule[] {
  const statistics = STATISTICS[seed];
  const hosts = hostPool(Math.max(16, Math.round(count * statistics.hosts)), random, connection.source);
  const rules = Array.from({ length: count }, () => classBenchRule(statistics, hosts, random, connection));
  return rules.toSorted((a, b) => width(a) - width(b));
}

/**
 * How wide a rule is, in bits: lists are written with the narrow rules first, else those behind a
 * wide one would be dead.
 */
function width({ peer, protocol, ports, sourcePorts }: GeneratedRule): number {
  const bits = (span: PortSpan | null): number => (span === null ? 16 : Math.log2(span.to - span.from + 1));
  const prefix = peer?.kind === 'blocks' ? Number(peer.cidrs[0]?.split('/')[1] ?? 0) : 0;
  return 32 - prefix + bits(ports) + bits(sourcePorts) + (protocol === null ? 8 : 0);
}

function classBenchRule(
  statistics: SeedStatistics,
  hosts: readonly [number, ...number[]],
  random: Random,
  connection: Connection,
): GeneratedRule {
  const { protocols, pairs, ranges, exact, lengths } = statistics;
  const protocol = random.weighted(protocols);
  const pair = protocol === 'TCP' || protocol === 'UDP' ? random.weighted(pairs[protocol]) : 'WC-WC';
  const [source, destination] = pair.split('-') as [PortClass, PortClass];
  const sourcePorts = span(source, ranges.source, exact.source, random);
  const ports = span(destination, ranges.destination, exact.destination, random);
  const length = random.weighted(lengths.own[pair] ?? lengths.others);
  const action = random.weighted([
    ['Allow', 4],
    ['Drop', 1],
    ['Reject', 1],
  ] as const);
  const isMet =
    (protocol === 'TCP' || protocol === null) &&
    (ports === null || (ports.from <= connection.port && connection.port <= ports.to)) &&
    (sourcePorts === null || sourcePorts.to >= 1024);
  const client = numberOf(connection.source);
  let network = networkOf(random.pick(hosts), length);
  // Whatever the hosts are: the other half of the Internet.
  if (isMet && length > 0 && network === networkOf(client, length))
    network = networkOf((network ^ 0x80000000) >>> 0, length);
  const cidr = `${textOf(network)}/${length}`;
  const peer =
    length > 0
      ? ({ kind: 'blocks', cidrs: [cidr] } as const)
      : isMet
        ? ({ kind: 'blocks', cidrs: [cidr], except: `${connection.source}/32` } as const)
        : null;
  return { action, peer, protocol, ports, sourcePorts };
}

function span(
  portClass: PortClass,
  ranges: Shares<string>,
  exact: Shares<number>,
  random: Random,
): PortSpan | null {
  switch (portClass) {
    case 'WC':
      return null;
    case 'HI':
      return { from: 1024, to: 65_535 };
    // From 1: a policy has no port 0.
    case 'LO':
      return { from: 1, to: 1023 };
    case 'AR': {
      const [from, to] = random.weighted(ranges).split(':').map(Number);
      return { from: from ?? 1, to: to ?? 65_535 };
    }
    case 'EM': {
      const port = random.weighted(exact);
      return { from: port, to: port };
    }
  }
}

/**
 * Addresses that share prefixes, as those of one organisation and its partners do: three of four
 * repeat the first bits of one that is there already (ClassBench does this by the skew of its
 * address trees). Never the client.
 */
function hostPool(size: number, random: Random, client: string): [number, ...number[]] {
  const first = numberOf('198.18.7.9');
  const hosts: [number, ...number[]] = [first];
  while (hosts.length < size) {
    const fresh = random.below(2 ** 32);
    const kept = random.next() < 0.75 ? 8 + random.below(24) : 0;
    const model = random.pick(hosts);
    const host = kept === 0 ? fresh : (networkOf(model, kept) | (fresh & ~mask(kept))) >>> 0;
    // 0.0.0.0/8, 127.0.0.0/8 and what is not unicast are nobody's source.
    const top = host >>> 24;
    if (top > 0 && top < 224 && top !== 127 && host !== numberOf(client)) hosts.push(host);
  }
  return hosts;
}

function mask(length: number): number {
  return length === 0 ? 0 : (-1 << (32 - length)) >>> 0;
}

function networkOf(address: number, length: number): number {
  return (address & mask(length)) >>> 0;
}

function numberOf(address: string): number {
  return address.split('.').reduce((value, part) => value * 256 + Number(part), 0);
}

function textOf(address: number): string {
  return [24, 16, 8, 0].map((shift) => (address >>> shift) & 255).join('.');
}
