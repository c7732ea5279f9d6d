import type { ServiceMember, ServiceSet } from '../../apis/compiled.ts';
import type { NamespacedName, ServicePort } from '../../apis/objects.ts';
import { type Address, formatAddress, parseAddress } from '../../lib/net/address.ts';
import { changedMap } from '../../lib/sharing/changed-map.ts';
import { shortHash } from '../../lib/sharing/hash.ts';
import type { UseChange } from '../../lib/sharing/use-count.ts';
import { keyIndex } from '../index/key-index.ts';
import { formatName, type ServiceIndex } from '../index/service-index.ts';
import { PORT_PROTOCOLS } from './services.ts';

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

/**
 * Resolves the members: cluster IPs with the Service's ports, and the addresses of each
 * EndpointSlice with its own ports. An unknown Service has none.
 */
function resolveServices(canonical: CanonicalServices, index: ServiceIndex): ServiceSet {
  const members = new Map<string, Placed>();
  for (const name of canonical.services) {
    const service = index.service(name);
    if (service === undefined) continue;
    collect(members, service.clusterIPs, service.ports);
    for (const { addresses, ports } of index.endpointSlices(name)) collect(members, addresses, ports);
  }
  const sorted = [...members.values()].sort(comparePlaced).map(({ member }) => member);
  return { id: canonical.id, description: canonical.description, members: sorted };
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
      const protocol = PORT_PROTOCOLS[name];
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
    wanted: UseChange<CanonicalServices>,
    changed: ReadonlySet<string>,
  ): ReadonlyMap<string, ServiceSet>;
}

export function serviceSets(index: ServiceIndex): ServiceSets {
  const byService = keyIndex<CanonicalServices>([], ({ services }) => services.map(formatName));
  let sets: ReadonlyMap<string, ServiceSet> = new Map();
  return {
    advance({ added, removed }, names) {
      byService.change({ removed, added: [] });
      const concerned = new Set([...names].flatMap((name) => [...byService.get(name)]));
      byService.change({ removed: [], added });
      const changed = [...concerned, ...added].flatMap((canonical) => {
        const set = resolveServices(canonical, index);
        const old = sets.get(canonical.id);
        return old !== undefined && sameServiceMembers(old, set) ? [] : set;
      });
      sets = changedMap(sets, { removed: removed.map(({ id }) => id), changed });
      return sets;
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
