/**
 * The platform's entries of the failsafe list (docs/semantics.md section 2.4): what a Node needs to
 * carry pods, as its agent found it in the kernel, or as an annotation of the Node says.
 */
import { ipProtocolName } from './ip-protocols.ts';

type Direction = 'ingress' | 'egress';

/** An entry of the failsafe list (FailsafeEntry), for both directions. */
export interface PlatformEntry {
  /** By name one that has ports, else by number. */
  readonly protocol: 'tcp' | 'udp' | 'sctp' | number;
  /** Inclusive; [0, 65535] of a protocol by number. */
  readonly ports: readonly [first: number, last: number];
  /** Addresses of Nodes, or CIDRs and addresses. */
  readonly peers: 'nodes' | readonly string[];
  /** Its origin, for people: a link, a socket, an annotation. */
  readonly reason: string;
  /** The list that it is in; absent: both. */
  readonly direction?: Direction;
}

/** `nodewall check --machine -o yaml` prints it, for manifests of other machines. */
export const PLATFORM_ANNOTATION = 'nodewall.io/platform';

/** The most entries of a Node. */
export const MOST_PLATFORM_ENTRIES = 256;

/** IP protocols without ports that carry pods' packets, or addresses of Nodes, by number. */
export const CARRIER_PROTOCOLS = { ipip: 4, ipv6: 41, gre: 47, esp: 50, ah: 51, vrrp: 112 } as const;

/** `TCP 6443`, `UDP 3784-3785`, `GRE`. */
export function entryText({
  protocol,
  ports: [first, last],
}: Pick<PlatformEntry, 'protocol' | 'ports'>): string {
  if (typeof protocol === 'number') return ipProtocolName(protocol).toUpperCase();
  const ports = first === 0 && last === 65535 ? 'every port' : portsText([first, last]);
  return `${protocol.toUpperCase()} ${ports}`;
}

function portsText([first, last]: PlatformEntry['ports']): string {
  return first === last ? String(first) : `${first}-${last}`;
}

/** The value of the annotation: entries for addresses of Nodes alone. */
export function platformText(entries: readonly PlatformEntry[]): string {
  return rowsText(platformRows(entries));
}

/** An entry for people: as the annotation has it, with its origin. */
export interface PlatformRow {
  readonly entry: string;
  /** Its peers are so many addresses, and no Nodes. Absent: Nodes. */
  readonly addresses?: number;
  readonly reason: string;
}

export function platformRows(entries: readonly PlatformEntry[]): PlatformRow[] {
  return entries.map(({ protocol, ports, peers, reason }) => {
    const name = ipProtocolName(protocol);
    const entry = typeof protocol === 'number' ? name : `${name}/${portsText(ports)}`;
    return { entry, ...(peers === 'nodes' ? {} : { addresses: peers.length }), reason };
  });
}

/** The value of the annotation that has the rows of Nodes. */
export function rowsText(rows: readonly PlatformRow[]): string {
  const items = rows.filter(({ addresses }) => addresses === undefined).map(({ entry }) => entry);
  return [...new Set(items)].join(',');
}

interface ReadPlatform {
  readonly entries: readonly PlatformEntry[];
  /** Items that say nothing, as they are written. */
  readonly invalid: readonly string[];
  /** Items beyond MOST_PLATFORM_ENTRIES, which are left out. */
  readonly leftOut: number;
}

/** Reads the value of the annotation. */
export function readPlatform(text: string): ReadPlatform {
  // A list that is longer than any valid one is not read to its end.
  const items = text
    .split(',', 2 * MOST_PLATFORM_ENTRIES)
    .map((item) => item.trim())
    .filter((item) => item !== '');
  const entries: PlatformEntry[] = [];
  const invalid: string[] = [];
  for (const item of items.slice(0, MOST_PLATFORM_ENTRIES)) {
    const found = readItem(item);
    if (found.length === 0) invalid.push(item);
    else entries.push(...found);
  }
  return { entries, invalid, leftOut: Math.max(0, items.length - MOST_PLATFORM_ENTRIES) };
}

const REASON = `annotation ${PLATFORM_ANNOTATION}`;
const WITH_PORTS = /^(tcp|udp|sctp)\/(\d{1,5})(?:-(\d{1,5}))?$/;

/** Empty: the item says nothing. */
function readItem(item: string): PlatformEntry[] {
  if (item === 'vrrp') return vrrpEntries(REASON);
  if (Object.hasOwn(CARRIER_PROTOCOLS, item))
    return [carrierEntry(CARRIER_PROTOCOLS[item as keyof typeof CARRIER_PROTOCOLS], REASON)];
  const [, protocol, from = '', to = from] = WITH_PORTS.exec(item) ?? [];
  const [first, last] = [Number(from), Number(to)];
  if (protocol === undefined || first < 1 || last < first || last > 65_535) return [];
  const ports = [first, last] as const;
  return [{ protocol: protocol as 'tcp' | 'udp' | 'sctp', ports, peers: 'nodes', reason: REASON }];
}

/** The groups to which VRRP announces (RFC 9568). */
const VRRP_GROUPS = ['224.0.0.18/32', 'ff02::12/128'];

/** Announcements go to groups, and come from Nodes. */
export function vrrpEntries(reason: string): PlatformEntry[] {
  const entry = carrierEntry(CARRIER_PROTOCOLS.vrrp, reason);
  return [entry, { ...entry, peers: VRRP_GROUPS, direction: 'egress' }];
}

/** Every packet of an IP protocol, between Nodes. */
export function carrierEntry(protocol: number, reason: string): PlatformEntry {
  return { protocol, ports: [0, 65535], peers: 'nodes', reason };
}

/** The entries of one direction's list. */
export function platformOf(
  { platform = [] }: { readonly platform?: readonly PlatformEntry[] },
  direction: Direction,
): readonly PlatformEntry[] {
  return platform.filter((entry) => entry.direction === undefined || entry.direction === direction);
}
