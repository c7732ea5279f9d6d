import type { PortMatch, PortRange } from '../../apis/compiled.ts';
import { BITS, parseAddress } from '../../lib/net/address.ts';
import { unionRanges } from '../../lib/net/ranges.ts';
import { ALL_PORTS, boundaries, portCount } from './ports.ts';
import type { L4Protocol, Match, PortProtocol, PortTuple } from './ruleset.ts';

type PortService = Extract<PortMatch, { readonly protocol: PortProtocol }>;
type IcmpService = Extract<PortMatch, { protocol: 'icmp' | 'icmpv6' }>;
type IgmpService = Extract<PortMatch, { protocol: 'igmp' }>;

/**
 * The matches for a rule's port matches, as alternatives: each becomes one nftables rule. Usually
 * there is one, and another if ICMP (or IGMP) is named as well as ports, because nft can't express
 * both in one match.
 */
export function serviceMatches(services: readonly PortMatch[]): Match[][] {
  if (services.length === 0) return [[]];
  const ports: PortService[] = [];
  const icmp: IcmpService[] = [];
  const igmp: IgmpService[] = [];
  for (const service of services) {
    switch (service.protocol) {
      case 'icmp':
      case 'icmpv6':
        icmp.push(service);
        break;
      case 'igmp':
        igmp.push(service);
        break;
      default:
        ports.push(service);
    }
  }
  const wholeIcmp = icmp.filter((service) => service.type === undefined).map((service) => service.protocol);
  const wholeIgmp = igmp.some((service) => service.type === undefined && service.group === undefined);
  const whole: L4Protocol[] = [...wholeIcmp];
  if (wholeIgmp) whole.push('igmp');
  const allPorts = ports.every((service) => service.ports === undefined && service.sourcePorts === undefined);
  if (allPorts) whole.push(...new Set(ports.map((service) => service.protocol)));
  const alternatives: Match[][] = [];
  if (!allPorts) alternatives.push(portMatches(ports));
  if (whole.length > 0) alternatives.push([{ match: 'l4proto', protocols: whole.sort() }]);
  for (const protocol of ['icmp', 'icmpv6'] as const) {
    if (wholeIcmp.includes(protocol)) continue;
    const types = icmp.flatMap(({ type, code, protocol: own }) =>
      own === protocol && type !== undefined ? [{ type, code: code ?? null }] : [],
    );
    if (types.length > 0) alternatives.push([{ match: 'icmp', protocol, types: withoutCovered(types) }]);
  }
  if (igmp.length > 0 && !wholeIgmp) alternatives.push(...igmpMatches(igmp));
  return alternatives;
}

/**
 * Like `serviceMatches`, by the destination port that the client used. nft 1.0.6 accepts `ct
 * original proto-dst` in no concatenation, so there is one alternative for each protocol and each
 * range of source ports.
 */
export function originalServiceMatches(services: readonly PortMatch[]): Match[][] {
  const isPorts = (service: PortMatch): service is PortService =>
    service.protocol === 'tcp' || service.protocol === 'udp' || service.protocol === 'sctp';
  const isWhole = (service: PortService) => service.ports === undefined && service.sourcePorts === undefined;
  const ports = services.filter(isPorts);
  const whole = new Set(ports.filter(isWhole).map(({ protocol }) => protocol));
  const rest = services.filter((service) => !isPorts(service) || isWhole(service));
  const some = ports.filter(({ protocol }) => !whole.has(protocol));
  const groups = Map.groupBy(some, ({ protocol, sourcePorts }) => JSON.stringify([protocol, sourcePorts]));
  const found = [...groups.values()].flatMap((group): Match[][] => {
    const ranges = unionRanges(group.map((service) => service.ports ?? ALL_PORTS));
    const [first] = group;
    if (first === undefined) return [];
    const { protocol, sourcePorts } = first;
    const source = sourcePorts === undefined ? [] : [port(protocol, 'sport', [sourcePorts])];
    const everyPort = portCount(ranges) === portCount([ALL_PORTS]);
    return [everyPort ? source : [...source, { match: 'originalPort', protocol, ranges }]];
  });
  return services.length > 0 && rest.length === 0 ? found : [...found, ...serviceMatches(rest)];
}

/**
 * Drops a type with a code if the type with every code is listed too: elements of a set must not
 * overlap.
 */
function withoutCovered(
  types: readonly { type: number; code: number | null }[],
): { type: number; code: number | null }[] {
  const whole = new Set(types.filter(({ code }) => code === null).map(({ type }) => type));
  return types
    .filter(({ type, code }) => code === null || !whole.has(type))
    .sort((a, b) => a.type - b.type || (a.code ?? -1) - (b.code ?? -1));
}

/** One alternative for each group address: the group is the destination of the packet. */
function igmpMatches(services: readonly IgmpService[]): Match[][] {
  return [...Map.groupBy(services, (service) => service.group)].map(([group, ofGroup]) => {
    const types = ofGroup.flatMap(({ type }) => type ?? []);
    const anyType = types.length < ofGroup.length;
    const matches: Match[] = anyType
      ? [{ match: 'l4proto', protocols: ['igmp'] }]
      : [{ match: 'igmp', types: types.sort((a, b) => a - b) }];
    const address = group === undefined ? null : parseAddress(group);
    if (address === null) return matches;
    return [
      ...matches,
      { match: 'address', family: 4, field: 'daddr', in: { cidr: { ...address, length: BITS[4] } } },
    ];
  });
}

function portMatches(services: readonly PortService[]): Match[] {
  const [only, ...others] = new Set(services.map((service) => service.protocol));
  if (only !== undefined && others.length === 0) {
    const { 0: one, length } = services;
    if (length === 1 && one?.sourcePorts !== undefined && one.ports !== undefined) {
      return [port(only, 'sport', [one.sourcePorts]), port(only, 'dport', [one.ports])];
    }
    if (services.every((service) => service.sourcePorts === undefined)) {
      return [port(only, 'dport', unionRanges(services.map((service) => service.ports ?? ALL_PORTS)))];
    }
    if (services.every((service) => service.ports === undefined)) {
      return [port(only, 'sport', unionRanges(services.map((service) => service.sourcePorts ?? ALL_PORTS)))];
    }
  }
  const withSourcePort = services.some((service) => service.sourcePorts !== undefined);
  const tuples = [only, ...others].flatMap((protocol) =>
    protocol === undefined
      ? []
      : disjointTuples(
          protocol,
          services.filter((service) => service.protocol === protocol),
        ),
  );
  return [{ match: 'portTuple', withSourcePort, tuples }];
}

function port(protocol: PortProtocol, field: 'sport' | 'dport', ranges: readonly PortRange[]): Match {
  const [whole, ...more] = ranges;
  if (whole?.[0] === 0 && whole[1] === 65535 && more.length === 0) {
    return { match: 'l4proto', protocols: [protocol] };
  }
  return { match: 'port', protocol, field, ranges };
}

/**
 * Rectangles of source × destination ports, cut along the source axis so that no two overlap: the
 * kernel's pipapo set refuses overlapping concatenations (nft_set_pipapo.c, -ENOTEMPTY). At most 2
 * × n² of them for n port matches.
 */
function disjointTuples(protocol: PortProtocol, services: readonly PortService[]): PortTuple[] {
  const points = boundaries(services.map((service) => service.sourcePorts ?? ALL_PORTS));
  const tuples: PortTuple[] = [];
  for (const [i, first] of points.entries()) {
    const last = (points[i + 1] ?? 0) - 1;
    const inside = services.filter(
      ({ sourcePorts = ALL_PORTS }) => sourcePorts[0] <= first && last <= sourcePorts[1],
    );
    if (last < first || inside.length === 0) continue;
    for (const ports of unionRanges(inside.map((service) => service.ports ?? ALL_PORTS))) {
      tuples.push({ protocol, sourcePorts: [first, last], ports });
    }
  }
  return tuples;
}
