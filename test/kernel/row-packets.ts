/** Packets that a row of a difference can have, and where their clients must stand. */
import type { Row } from '../../apis/difference/row.ts';
import { type Family, formatAddress, parseAddress } from '../../lib/net/address.ts';
import type { Interval, Ranges } from '../../lib/net/interval.ts';
import type { AddressPlan, ClientAddress } from '../netns/topology.ts';
import { type Flow, type PartialFlow, toCompleteFlow } from './flow.ts';

/** Protocols that packets of the topology can have. */
const PROTOCOLS = ['tcp', 'udp', 'sctp', 'icmp', 'icmpv6', 'igmp', 47, 50, 89, 112, 255, 4] as const;

/** An address of another host, and the link group of the node's interface towards it. */
interface Place {
  readonly peer: string;
  readonly group: number;
}

/**
 * Why no packet can be in a row, wherever its client stands; null: one ought to be.
 *
 * @param plan where the clients stand
 */
export function hindrance(row: Row, plan: AddressPlan): string | null {
  const { direction, traffic, protocols, igmp } = row;
  const has = (...numbers: readonly number[]): boolean =>
    protocols === null || protocols.some(([first, last]) => numbers.some((n) => first <= n && n <= last));
  const isIgmpAlone = protocols?.length === 1 && protocols[0]?.[0] === 2 && protocols[0][1] === 2;
  if (direction === 'egress' && isIgmpAlone) return 'IGMP that leaves goes to a group, by one interface';
  if (traffic === 'NodePort' && isIcmpAlone(row) && !typesOf([]).some((type) => isType(row, type)))
    return 'NAT takes no such ICMP';
  if (traffic === 'NodePort' && isIgmpAlone && igmp?.groups != null) return 'NAT takes no multicast';
  const places = placesIn(row, plan);
  const families = new Set([...places, ...otherPlaces(row, plan)].map(({ peer }) => familyOf(peer)));
  if (families.size === 0) return 'no address that a host can have';
  const sendable = [6, 17, 132, 47, 50, 89, 112, 255, 4, ...(families.has(4) ? [1, 2] : []), 58];
  if (!has(...sendable.filter((n) => n !== 58 || families.has(6)))) return 'no such packet is sent here';
  if (isIgmpAlone && igmp?.groups !== null && groupsOf(row, plan).every((group) => group === undefined))
    return 'no such multicast group';
  return null;
}

/** Packets of a topology that may be in a row. */
export function* packetsFor(row: Row, plan: AddressPlan): Iterable<Flow> {
  const { direction, traffic, ports, sourcePorts, icmp, igmp } = row;
  for (const { peer } of placesIn(row, plan)) {
    for (const protocol of PROTOCOLS) {
      for (const dst of protocol === 'igmp' && direction === 'ingress' ? groupsOf(row, plan) : [undefined]) {
        const isIcmp = protocol === 'icmp' || protocol === 'icmpv6';
        for (const [i, number] of (isIcmp
          ? typesOf(icmp?.types)
          : endsOf(ports ?? [[8080, 8080]])
        ).entries()) {
          const flow: PartialFlow = {
            direction,
            traffic,
            protocol,
            ...(direction === 'ingress'
              ? { src: peer, ...(dst === undefined ? {} : { dst }) }
              : { dst: peer }),
            srcPort: sourcePorts?.[0]?.[i % 2] ?? 33_000,
            ...(isIcmp ? { icmpType: number } : { dstPort: number }),
            icmpCode: icmp?.codes?.[0]?.[0] ?? 0,
            igmpType: igmp?.types?.[0]?.[0] ?? 0x16,
          };
          const complete = toCompleteFlow(flow, plan, 0);
          if (complete !== undefined) yield complete;
        }
      }
    }
  }
}

function endsOf(ranges: Ranges): number[] {
  return ranges.slice(0, 3).flat();
}

/** Those that open a connection first. */
function typesOf(ranges: Ranges = [[0, 255]]): number[] {
  return [8, 13, 15, 17, 128, ...endsOf(ranges)];
}

/**
 * Plans with clients for rows that the plan has none for: the first for as many as it can, since an
 * address has one place; and so on until each has its own.
 */
export function plansFor(rows: readonly Row[], plan: AddressPlan): { plan: AddressPlan; rows: Row[] }[] {
  const layouts: { places: Map<string, number>; rows: Row[] }[] = [];
  for (const row of rows) {
    const [...places] = otherPlaces(row, plan);
    const isFree = ({ peer, group }: Place) =>
      layouts.find((one) => (one.places.get(peer) ?? group) === group);
    const found = places.map((place) => ({ place, layout: isFree(place) })).find(({ layout }) => layout);
    const place = found?.place ?? places[0];
    if (place === undefined) continue;
    const layout = found?.layout ?? { places: new Map<string, number>(), rows: [] };
    if (found === undefined) layouts.push(layout);
    layout.places.set(place.peer, place.group);
    layout.rows.push(row);
  }
  return layouts.map(({ places, rows: some }) => ({ plan: withPlaces(plan, places), rows: some }));
}

/** The clients of a plan whose packets, by address and interface, may be in a row. */
function placesIn(row: Row, plan: AddressPlan): Place[] {
  return plan.clientAddresses
    .flatMap(({ v4, v6, group }) => [v4, v6].map((peer) => ({ peer, group })))
    .filter((place) => isPlaceOf(row, place));
}

function isPlaceOf({ peers, interfaceGroups }: Row, { peer, group }: Place): boolean {
  const isGroup = interfaceGroups?.some(([first, last]) => first <= group && group <= last) ?? true;
  return isGroup && (peers?.some((range) => isWithin(range, peer)) ?? true);
}

/** Where a client may stand for a row: an address of each family, behind one interface group. */
function otherPlaces(row: Row, plan: AddressPlan): Place[] {
  const group = row.interfaceGroups === null ? 0 : row.interfaceGroups[0]?.[0];
  if (group === undefined) return [];
  const ranges = row.peers ?? ['198.51.100.0-198.51.100.255', '2001:db8:77::-2001:db8:77::ff'];
  const own = new Set(plan.nodeAddresses.flatMap(({ v4, v6 }) => [v4, v6]));
  const found = new Map<Family, string>();
  for (const range of ranges) {
    const { family, first, last } = toInterval(range);
    if (found.has(family) || !isCarriedBy(row, family)) continue;
    const address = [first, ...USUAL[family], last]
      .filter((value) => first <= value && value <= last && isOfHost(family, value))
      .map((value) => formatAddress({ family, value }))
      .find((text) => !own.has(text));
    if (address !== undefined) found.set(family, address);
  }
  return [...found.values()].map((peer) => ({ peer, group }));
}

function isIcmpAlone({ protocols }: Row): boolean {
  return protocols?.every(([first, last]) => first === last && (first === 1 || first === 58)) ?? false;
}

function isType({ icmp }: Row, type: number): boolean {
  return icmp?.types.some(([first, last]) => first <= type && type <= last) ?? true;
}

/** Whether a protocol of the row is one of the family's. */
function isCarriedBy({ protocols }: Row, family: Family): boolean {
  const others: readonly number[] = family === 4 ? [58] : [1, 2];
  return protocols?.some(([first, last]) => others.length <= last - first || !others.includes(first)) ?? true;
}

const USUAL: Readonly<Record<Family, readonly bigint[]>> = {
  4: [1n << 24n, 128n << 24n],
  6: [0x2000n << 112n, 0xfc00n << 112n],
};

/** Neither reserved, loopback, link-local nor multicast (RFC 6890, RFC 4291). */
function isOfHost(family: Family, value: bigint): boolean {
  if (family === 6) {
    const head = value >> 112n;
    return head >= 0x2000n && head < 0xfe80n;
  }
  const head = value >> 24n;
  return head > 0n && head < 224n && head !== 127n && value >> 16n !== 0xa9fen;
}

/**
 * Each of these addresses stands behind its interface group; those of the plan leave their place.
 */
function withPlaces(plan: AddressPlan, places: ReadonlyMap<string, number>): AddressPlan {
  const first = 1 + Math.max(...plan.clientAddresses.map(({ client }) => client));
  const groups = [...new Set(places.values())];
  const stay = plan.clientAddresses.filter(({ v4, v6 }) => !places.has(v4) && !places.has(v6));
  // Each client keeps an address: its interface has a group, and pods are looked for there.
  const all = new Set(plan.clientAddresses.map(({ client, group }) => `${client} ${group}`));
  const kept = [...all].map((text, i): ClientAddress => {
    const [client = 0, group = 0] = text.split(' ').map(Number);
    return { v4: `10.250.0.${i + 1}`, v6: `fd90:250::${i + 1}`, client, group };
  });
  const visitors = [...places].map(([peer, group], i): ClientAddress => {
    const unused = { v4: `10.251.${i >> 8}.${i & 255}`, v6: `fd90:251::${i.toString(16)}` };
    const own = familyOf(peer) === 4 ? { v4: peer } : { v6: peer };
    return { ...unused, ...own, client: first + groups.indexOf(group), group };
  });
  return { ...plan, clientAddresses: [...kept, ...stay, ...visitors] };
}

function familyOf(address: string): Family {
  return address.includes(':') ? 6 : 4;
}

function toInterval(range: string): Interval & { readonly family: Family } {
  const [first, last] = range.split('-').map((one) => parseAddress(one));
  const end = last === undefined ? first : last;
  if (first == null || end == null) throw new Error(`not a range: ${range}`);
  return { family: first.family, first: first.value, last: end.value };
}

function isWithin(range: string, text: string): boolean {
  const { family, first, last } = toInterval(range);
  const address = parseAddress(text);
  return address?.family === family && first <= address.value && address.value <= last;
}

/** Destinations of IGMP in a row; undefined: the Node itself. */
function groupsOf({ igmp }: Row, plan: AddressPlan): (string | undefined)[] {
  const groups = plan.multicastGroups.filter(
    (group) => igmp?.groups == null || igmp.groups.some((range) => isWithin(range, group)),
  );
  return igmp?.groups == null ? [undefined, ...groups] : groups;
}
