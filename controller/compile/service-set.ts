import type { PortMatch, ServiceMember, ServiceSet } from '../../apis/compiled.ts';
import { PROTOCOL_NUMBERS } from '../../apis/flow.ts';
import { namedProtocolNumber } from '../../apis/ip-protocols.ts';
import type {
  NamespacedName,
  NetworkPolicyPort,
  NetworkPolicyProtocol,
  Pod,
  Rule,
  ServicePort,
} from '../../apis/objects.ts';
import { type Address, formatAddress, parseAddress } from '../../lib/net/address.ts';
import { changedMap } from '../../lib/sharing/changed-map.ts';
import { shortHash } from '../../lib/sharing/hash.ts';
import type { ListChange } from '../../lib/sharing/lists.ts';
import { keyIndex } from '../index/key-index.ts';
import { formatName, type ServiceIndex } from '../index/name-index.ts';
import { addressesOf, type ObjectIndex } from '../index/object-index.ts';

/** A rule's `toServices`, sorted and without duplicates. */
export interface CanonicalServices {
  /** A hash of the Services' names, not of their endpoints: members change, the id doesn't. */
  readonly id: string;
  readonly description: string;
  readonly services: readonly NamespacedName[];
}

export function canonicalServices(listed: readonly NamespacedName[]): CanonicalServices {
  const byName = new Map(listed.map((service) => [formatName(service), service]));
  const names = [...byName.keys()].sort();
  return {
    id: shortHash(12, 'services', names),
    description: names.join(', '),
    services: names.flatMap((name) => byName.get(name) ?? []),
  };
}

/** The Services and pods that members are found by. */
interface ServiceWorld {
  readonly services: ServiceIndex;
  readonly index: Pick<ObjectIndex, 'holders'>;
}

interface Resolved {
  readonly canonical: CanonicalServices;
  readonly set: ServiceSet;
  /** The addresses that were asked for pods. */
  readonly asked: readonly string[];
  /** Endpoints that no pod has, by the Service's name. */
  readonly leftOut: LeftOutEndpoints;
}

/** The addresses of endpoints that do not count, by the Service's name. */
export type LeftOutEndpoints = ReadonlyMap<string, readonly string[]>;

/**
 * Resolves the members: cluster IPs with the Service's ports, and the addresses of each
 * EndpointSlice with its own ports. An unknown Service has none. Whoever may write EndpointSlices
 * in a namespace could name any address, so one counts only where a pod of the namespace has it.
 */
function resolveServices(canonical: CanonicalServices, { services, index }: ServiceWorld): Resolved {
  const members = new Map<string, Placed>();
  const asked = new Set<string>();
  const leftOut = new Map<string, readonly string[]>();
  for (const name of canonical.services) {
    const service = services.service(name);
    if (service === undefined) continue;
    collect(members, service.clusterIPs, service.ports);
    const strays = new Set<string>();
    for (const { addresses, ports, isTrusted = false } of services.endpointSlices(name)) {
      const counting = isTrusted ? addresses : addresses.filter((one) => isOfPod(one, name, index));
      collect(members, counting, ports);
      if (isTrusted) continue;
      for (const address of addresses) asked.add(address);
      const counted = new Set(counting);
      for (const address of addresses) if (!counted.has(address)) strays.add(address);
    }
    if (strays.size > 0) leftOut.set(formatName(name), [...strays].sort());
  }
  const sorted = [...members.values()].sort(comparePlaced).map(({ member }) => member);
  const set = { id: canonical.id, description: canonical.description, members: sorted };
  return { canonical, set, asked: [...asked], leftOut };
}

/** A pod with hostNetwork has its Node's address. */
function isOfPod(
  address: string,
  { namespace }: NamespacedName,
  index: Pick<ObjectIndex, 'holders'>,
): boolean {
  for (const holder of index.holders(address))
    if (holder.kind === 'Pod' && holder.namespace === namespace) return true;
  return false;
}

interface Placed {
  readonly address: Address;
  readonly member: ServiceMember;
}

function collect(
  members: Map<string, Placed>,
  addresses: readonly string[],
  ports: readonly ServicePort[],
): void {
  for (const written of addresses) {
    const address = parseAddress(written);
    if (address === null) throw new TypeError(`${written} is not an IP address`);
    const text = formatAddress(address);
    for (const { protocol: name, port } of ports) {
      const protocol = NFT_PORT_PROTOCOLS[name];
      members.set(`${text} ${protocol} ${port}`, { address, member: { address: text, protocol, port } });
    }
  }
}

/** IPv4 first, then by address, protocol and port. */
function comparePlaced({ address: a, member: m }: Placed, { address: b, member: n }: Placed): number {
  if (a.family !== b.family) return a.family - b.family;
  if (a.value !== b.value) return a.value < b.value ? -1 : 1;
  if (m.protocol !== n.protocol) return m.protocol < n.protocol ? -1 : 1;
  return m.port - n.port;
}

/** The ServiceSets of the current rules, maintained over successive states of the objects. */
export interface ServiceSets {
  /**
   * Returns the sets sorted by id: the same map if every set is the same object, and the same set
   * object if its members are unchanged. `changed` are the names of changed Services.
   */
  advance(
    wanted: ListChange<CanonicalServices>,
    changed: ReadonlySet<string>,
    pods: ListChange<Pod>,
  ): ReadonlyMap<string, ServiceSet>;
  leftOut(): LeftOutEndpoints;
}

export function serviceSets(world: ServiceWorld): ServiceSets {
  const byService = keyIndex<CanonicalServices>([], ({ services }) => services.map(formatName));
  const byAddress = keyIndex<Resolved>([], ({ asked }) => asked);
  const resolved = new Map<string, Resolved>();
  let sets: ReadonlyMap<string, ServiceSet> = new Map();
  let leftOut: LeftOutEndpoints | null = null;
  const forget = (id: string): void => {
    const old = resolved.get(id);
    if (old === undefined) return;
    resolved.delete(id);
    byAddress.change({ removed: [old], added: [] });
    leftOut = null;
  };
  const resolve = (canonical: CanonicalServices): ServiceSet[] => {
    forget(canonical.id);
    const now = resolveServices(canonical, world);
    resolved.set(canonical.id, now);
    byAddress.change({ removed: [], added: [now] });
    const old = sets.get(canonical.id);
    return old !== undefined && sameServiceMembers(old, now.set) ? [] : [now.set];
  };
  return {
    advance({ added, removed }, names, pods) {
      byService.change({ removed, added: [] });
      for (const { id } of removed) forget(id);
      const concerned = new Set([...names].flatMap((name) => [...byService.get(name)]));
      byService.change({ removed: [], added });
      if (resolved.size > 0)
        for (const pod of [...pods.removed, ...pods.added])
          for (const address of addressesOf(pod))
            for (const { canonical } of byAddress.get(address)) concerned.add(canonical);
      const changed = [...concerned, ...added].flatMap(resolve);
      sets = changedMap(sets, { removed: removed.map(({ id }) => id), changed });
      return sets;
    },
    leftOut() {
      leftOut ??= new Map([...resolved.values()].flatMap((one) => [...one.leftOut]));
      return leftOut;
    },
  };
}

function sameServiceMembers(a: ServiceSet, b: ServiceSet): boolean {
  return (
    a.members.length === b.members.length &&
    a.members.every((member, i) => {
      const other = b.members[i];
      return (
        member.address === other?.address && member.protocol === other.protocol && member.port === other.port
      );
    })
  );
}

/** Protocols with ports: Kubernetes' names to nft's. */
const NFT_PORT_PROTOCOLS = { TCP: 'tcp', UDP: 'udp', SCTP: 'sctp' } as const;

/**
 * A rule's `ports` and `protocols` as one sorted list without duplicates; empty means all traffic.
 */
export function toServices(rule: Rule): PortMatch[] {
  const services = [
    ...(rule.ports ?? []).map(portService),
    ...(rule.protocols ?? []).flatMap(protocolServices),
  ];
  const unique = new Map(services.map((service) => [JSON.stringify(service), service]));
  return [...unique.keys()].sort().flatMap((key) => unique.get(key) ?? []);
}

function portService({ protocol, port, endPort, sourcePort, sourceEndPort }: NetworkPolicyPort): PortMatch {
  return {
    protocol: NFT_PORT_PROTOCOLS[protocol ?? 'TCP'],
    ...(port === undefined ? {} : { ports: [port, endPort ?? port] as const }),
    ...(sourcePort === undefined ? {} : { sourcePorts: [sourcePort, sourceEndPort ?? sourcePort] as const }),
  };
}

function protocolServices({
  icmp,
  icmpv6,
  igmp,
  protocol,
  groupAddress: destination,
}: NetworkPolicyProtocol): PortMatch[] {
  if (protocol !== undefined) return [numbered(protocol, destination)];
  if (icmp !== undefined) {
    const { icmpType, icmpCode } = icmp;
    if (icmpType === undefined) return [{ protocol: 'icmp' }, { protocol: 'icmpv6' }];
    return [{ protocol: 'icmp', ...typeAndCode(icmpType, icmpCode) }];
  }
  if (icmpv6 !== undefined) return [{ protocol: 'icmpv6', ...typeAndCode(icmpv6.icmpType, icmpv6.icmpCode) }];
  const { igmpType, groupAddress } = igmp ?? {};
  return [
    {
      protocol: 'igmp',
      ...(igmpType === undefined ? {} : { type: igmpType }),
      ...(groupAddress === undefined ? {} : { group: groupAddress }),
    },
  ];
}

const NAMES = Object.entries(PROTOCOL_NUMBERS) as readonly (readonly [
  keyof typeof PROTOCOL_NUMBERS,
  number,
])[];

/** All of a protocol. One that has a name in port matches is the one of that name. */
function numbered(written: string | number, destination: string | undefined): PortMatch {
  const number = namedProtocolNumber(written);
  if (number === undefined) throw new TypeError(`${written} is not an IP protocol`);
  const address = destination === undefined ? null : parseAddress(destination);
  const group = address === null ? {} : { group: formatAddress(address) };
  const name = NAMES.find(([, known]) => known === number)?.[0];
  if (name === 'igmp') return { protocol: name, ...group };
  return name === undefined ? { protocol: number, ...group } : { protocol: name };
}

function typeAndCode(type: number | undefined, code: number | undefined): { type?: number; code?: number } {
  return { ...(type === undefined ? {} : { type }), ...(code === undefined ? {} : { code }) };
}
