import type { AddressSet, PortMatch, PortRange, ServiceMember, ServiceSet } from '../../apis/compiled.ts';
import { BITS, type Cidr, FAMILIES, type Family, parseAddress } from '../../lib/net/address.ts';
import { ALL_PORTS, boundaries, portCount, unionRanges } from '../../lib/net/interval.ts';
import {
  coversFamily,
  type FamilyMembers,
  memberCount,
  packAddress,
  unpackAddress,
} from '../../lib/net/member-set.ts';
import { memo } from '../../lib/sharing/memo.ts';
import { comment, serviceSetName, setName } from './nft-text.ts';
import {
  type AddressField,
  KEY_LENGTH,
  type L4Protocol,
  type Match,
  type NamedSet,
  type PortProtocol,
  type PortTuple,
} from './ruleset.ts';

/**
 * How an nft rule matches an AddressSet in one family: a set, a single prefix, all addresses, or
 * none.
 */
type AddressMatch =
  | { readonly kind: 'set'; readonly set: NamedSet }
  | { readonly kind: 'cidr'; readonly cidr: Cidr }
  | { readonly kind: 'all' }
  | { readonly kind: 'none' };

/**
 * The matches for AddressSets and ServiceSets. Uses that name the same set share the same NamedSet
 * object.
 */
export class SetMatches {
  readonly #ofAddresses = memo((set: AddressSet): Record<Family, AddressMatch> => {
    return { 4: toAddressMatch(set, 4), 6: toAddressMatch(set, 6) };
  });
  /** The members of a ServiceSet change, so each family has a set, even while it is empty. */
  readonly services = memo(toServiceAlternatives);

  /**
   * The matches for "`field` is in the set", one alternative for each family that can match. A set
   * of all addresses of both families is one alternative without a match.
   */
  addresses(set: AddressSet | null, field: AddressField, families: readonly Family[]): AddressAlternative[] {
    if (set === null) return [ANY_ADDRESS];
    const matches = this.#ofAddresses(set);
    const found = FAMILIES.flatMap((family) => {
      const match = matches[family];
      // The addresses of an FQDN may be of either family.
      const unused = !families.includes(family) && set.names.length === 0;
      const empty = match.kind === 'set' && isEmptySet(match.set);
      return unused && empty ? [] : [[family, match] as const];
    });
    if (found.length === 2 && found.every(([, match]) => match.kind === 'all')) return [ANY_ADDRESS];
    return found.flatMap(([family, match]) => alternative(family, match, field) ?? []);
  }
}

/**
 * A set whose members can change is always a named set, even while empty, so that a change of
 * members never changes rules. A fixed set of one prefix is written into the rule itself: the
 * kernel walks a table's sets one by one.
 */
function toAddressMatch(set: AddressSet, family: Family): AddressMatch {
  const members: FamilyMembers = family === 4 ? set.members.v4 : set.members.v6;
  if (coversFamily(members)) return { kind: 'all' };
  if (!set.dynamic && memberCount(members) === 0) return { kind: 'none' };
  if (!set.dynamic && memberCount(members) === 1) {
    const [prefix] = members.prefixes;
    return {
      kind: 'cidr',
      cidr: prefix ?? { ...unpackAddress(family, members.singles, 0), length: BITS[family] },
    };
  }
  const name = setName(set.id, family);
  const named: NamedSet = {
    name,
    family,
    key: 'address',
    interval: members.prefixes.length > 0,
    members,
    comment: comment(set.description),
  };
  return { kind: 'set', set: named };
}

export function isEmptySet({ members: { singles, prefixes } }: NamedSet): boolean {
  return singles.length === 0 && prefixes.length === 0;
}

export interface AddressAlternative {
  /** Null: both families. */
  readonly family: Family | null;
  readonly matches: readonly Match[];
  /** The named set that the matches refer to; null if none. */
  readonly set: NamedSet | null;
}

export const ANY_ADDRESS: AddressAlternative = { family: null, matches: [], set: null };

function alternative(family: Family, match: AddressMatch, field: AddressField): AddressAlternative | null {
  switch (match.kind) {
    case 'none':
      return null;
    case 'all':
      return { family, matches: [{ match: 'nfproto', family }], set: null };
    case 'cidr':
      return { family, matches: [{ match: 'address', family, field, in: { cidr: match.cidr } }], set: null };
    case 'set': {
      const { set } = match;
      return { family, matches: [{ match: 'address', family, field, in: { set: set.name } }], set };
    }
  }
}

function toServiceAlternatives({ id, description, members }: ServiceSet): AddressAlternative[] {
  return FAMILIES.map((family) => {
    const set: NamedSet = {
      name: serviceSetName(id, family),
      family,
      key: 'service',
      interval: false,
      members: { singles: packServices(family, members), prefixes: [] },
      comment: comment(`services ${description}`),
    };
    return { family, matches: [{ match: 'serviceTuple', family, set: set.name }], set };
  });
}

const PROTOCOL_NUMBERS = { tcp: 6, udp: 17, sctp: 132 } as const;

function packServices(family: Family, members: readonly ServiceMember[]): Uint8Array {
  const keys = members.flatMap(({ address: text, protocol, port }) => {
    const address = parseAddress(text);
    if (address?.family !== family) return [];
    const key = Buffer.alloc(KEY_LENGTH.service[family]);
    key.set(packAddress(address));
    key.writeUInt8(PROTOCOL_NUMBERS[protocol], key.length - 8);
    key.writeUInt16BE(port, key.length - 4);
    return [key];
  });
  keys.sort(Buffer.compare);
  return Buffer.concat(keys.filter((key, i) => i === 0 || !key.equals(keys[i - 1] as Buffer)));
}

type PortService = Extract<PortMatch, { readonly protocol: PortProtocol }>;
type IcmpService = Extract<PortMatch, { protocol: 'icmp' | 'icmpv6' }>;
type IgmpService = Extract<PortMatch, { protocol: 'igmp' }>;
type NumberedService = Extract<PortMatch, { protocol: number }>;

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
  const numbered: NumberedService[] = [];
  for (const service of services) {
    switch (service.protocol) {
      case 'icmp':
      case 'icmpv6':
        icmp.push(service);
        break;
      case 'igmp':
        igmp.push(service);
        break;
      case 'tcp':
      case 'udp':
      case 'sctp':
        ports.push(service);
        break;
      default:
        numbered.push(service);
    }
  }
  const wholeIcmp = icmp.filter((service) => service.type === undefined).map((service) => service.protocol);
  const wholeIgmp = igmp.some((service) => service.type === undefined && service.group === undefined);
  const whole: L4Protocol[] = [...wholeIcmp];
  if (wholeIgmp) whole.push('igmp');
  const wholeNumbers = new Set(
    numbered.flatMap(({ protocol, group }) => (group === undefined ? protocol : [])),
  );
  whole.push(...wholeNumbers);
  const allPorts = ports.every((service) => service.ports === undefined && service.sourcePorts === undefined);
  if (allPorts) whole.push(...new Set(ports.map((service) => service.protocol)));
  const alternatives: Match[][] = [];
  if (!allPorts) alternatives.push(portMatches(ports));
  if (whole.length > 0) alternatives.push([{ match: 'l4proto', protocols: whole.sort(compareProtocols) }]);
  for (const protocol of ['icmp', 'icmpv6'] as const) {
    if (wholeIcmp.includes(protocol)) continue;
    const types = icmp.flatMap(({ type, code, protocol: own }) =>
      own === protocol && type !== undefined ? [{ type, code: code ?? null }] : [],
    );
    if (types.length > 0) alternatives.push([{ match: 'icmp', protocol, types: withoutCovered(types) }]);
  }
  if (igmp.length > 0 && !wholeIgmp) alternatives.push(...igmpMatches(igmp));
  const some = numbered.filter(({ protocol }) => !wholeNumbers.has(protocol));
  for (const [group, own] of Map.groupBy(some, (service) => service.group)) {
    const protocols = own.map(({ protocol }) => protocol).sort((a, b) => a - b);
    alternatives.push([{ match: 'l4proto', protocols }, ...toGroup(group)]);
  }
  return alternatives;
}

/** Names first. */
function compareProtocols(a: L4Protocol, b: L4Protocol): number {
  if (typeof a === 'number' && typeof b === 'number') return a - b;
  return typeof a === typeof b ? (a < b ? -1 : 1) : typeof a === 'number' ? 1 : -1;
}

function toGroup(group: string | undefined): Match[] {
  const address = group === undefined ? null : parseAddress(group);
  if (address === null) return [];
  const { family } = address;
  return [{ match: 'address', family, field: 'daddr', in: { cidr: { ...address, length: BITS[family] } } }];
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
    return [...matches, ...toGroup(group)];
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
