import { endianness } from 'node:os';
import type { AddressSet } from '../../apis/compiled.ts';
import { BITS, type Cidr, type Family, formatAddress, formatCidr } from '../../lib/net/address.ts';
import { type Interval, subtract, toCidrs, toInterval, union } from '../../lib/net/interval.ts';
import { type MemberSet, sameMembers, toMemberSet } from '../../lib/net/member-set.ts';
import type { Clock } from '../../lib/process/clock.ts';

/** The destinations that are routed to pods on this node. */
export interface LocalPods {
  /** Null: not known. The same object as long as its members do not change. */
  now(): AddressSet | null;
  /** Registers a callback for each change; returns a function that removes it. */
  listen(changed: () => void): () => void;
}

export function localPodsSet(members: MemberSet): AddressSet {
  return { id: 'local-pods', description: 'routed to local pods', dynamic: true, names: [], members };
}

/** For a node without interface groups, or without exemptions that use them. */
export const NO_LOCAL_PODS: LocalPods = { now: () => null, listen: () => () => {} };

interface LocalPodsOptions {
  /** Reads the kernel's routes. */
  readonly read: () => Promise<RouteTexts>;
  /** Names of the interfaces that are in the link group of pods now. */
  readonly interfaces: () => ReadonlySet<string>;
  readonly clock: Clock;
  /** Called once when the routes become unreadable; the last known set stays. */
  readonly unreadable: (error: Error) => void;
}

/**
 * Milliseconds between two reads of the routes after links changed: a CNI adds a pod's routes after
 * its link, and no link event reports them. The last value is the interval while nothing happens.
 * Links that change all the time lead to ten reads per second.
 */
const PAUSES = [100, 400, 1500, 5000] as const;

/** Polls the kernel's routes. */
export class WatchedLocalPods implements LocalPods {
  readonly #options: LocalPodsOptions;
  readonly #listeners = new Set<() => void>();
  #set: AddressSet | null = null;
  /** The input of the last read. */
  #seen = '';
  #isUnreadable = false;
  /** Reads since links changed. */
  #looks = 0;
  #due = Number.POSITIVE_INFINITY;
  #cancel: () => void = () => {};
  #isWatching = false;

  constructor(options: LocalPodsOptions) {
    this.#options = options;
  }

  now(): AddressSet | null {
    return this.#set;
  }

  listen(changed: () => void): () => void {
    this.#listeners.add(changed);
    return () => void this.#listeners.delete(changed);
  }

  /** Reads the routes once. Never rejects. */
  async refresh(): Promise<void> {
    const texts = await this.#read();
    if (texts !== null) this.#apply(texts, this.#options.interfaces());
  }

  /** Polls until `close`. */
  watch(): void {
    this.#isWatching = true;
    this.#wait();
  }

  /** Links were added or removed, or changed their groups. */
  linksChanged(): void {
    this.#looks = 0;
    if (this.#due > this.#options.clock.now() + PAUSES[0]) this.#wait();
  }

  close(): void {
    this.#isWatching = false;
    this.#cancel();
  }

  #wait(): void {
    if (!this.#isWatching) return;
    const { clock } = this.#options;
    const pause = PAUSES[Math.min(this.#looks++, PAUSES.length - 1)] ?? PAUSES[0];
    this.#cancel();
    this.#due = clock.now() + pause;
    this.#cancel = clock.after(pause, () => void this.refresh().then(() => this.#wait()));
  }

  async #read(): Promise<RouteTexts | null> {
    try {
      const texts = await this.#options.read();
      this.#isUnreadable = false;
      return texts;
    } catch (error) {
      if (!this.#isUnreadable) this.#options.unreadable(error as Error);
      this.#isUnreadable = true;
      return null;
    }
  }

  #apply(texts: RouteTexts, interfaces: ReadonlySet<string>): void {
    const seen = JSON.stringify([texts, [...interfaces]]);
    if (seen === this.#seen) return;
    this.#seen = seen;
    const members = routedOutBy(texts, interfaces);
    const before = this.#set?.members;
    if (before !== undefined && sameMembers(before.v4, members.v4) && sameMembers(before.v6, members.v6))
      return;
    this.#set = localPodsSet(members);
    for (const changed of this.#listeners) changed();
  }
}

/**
 * Content of /proc/self/net/route and /proc/self/net/ipv6_route; '' if the kernel lacks the family.
 */
export interface RouteTexts {
  readonly ipv4: string;
  readonly ipv6: string;
}

interface Route {
  readonly cidr: Cidr;
  readonly metric: number;
  /** Whether the route's device is one of the wanted interfaces. */
  readonly isWanted: boolean;
}

/**
 * The destinations that the kernel routes out by these interfaces: unicast routes, without the
 * parts that a longer prefix routes elsewhere. A default route never counts. Routes to one address
 * stay single members, so that a new pod adds one element. Cost: O(n log n) for each prefix length
 * that occurs.
 */
export function routedOutBy({ ipv4, ipv6 }: RouteTexts, interfaces: ReadonlySet<string>): MemberSet {
  const found = [ofFamily(4, ipv4Routes(ipv4, interfaces)), ofFamily(6, ipv6Routes(ipv6, interfaces))];
  return toMemberSet(
    found.flatMap(({ prefixes }) => prefixes.map((cidr) => ({ cidr, except: [] }))),
    found.flatMap(({ addresses }) => addresses),
  );
}

function ofFamily(
  family: Family,
  routes: readonly Route[],
): { readonly prefixes: readonly Cidr[]; readonly addresses: readonly string[] } {
  const byLength = Map.groupBy(best(routes), ({ cidr }) => cidr.length);
  let covered: Interval[] = [];
  let addresses: readonly string[] = [];
  for (const length of [...byLength.keys()].sort((a, b) => a - b)) {
    const { wanted = [], others = [] } = Object.groupBy(byLength.get(length) ?? [], ({ isWanted }) =>
      isWanted && length > 0 ? 'wanted' : 'others',
    );
    covered = subtract(covered, union(others.map(({ cidr }) => toInterval(cidr))));
    if (length === BITS[family]) addresses = wanted.map(({ cidr }) => formatAddress(cidr));
    else covered = union([...covered, ...wanted.map(({ cidr }) => toInterval(cidr))]);
  }
  return { prefixes: covered.flatMap((interval) => toCidrs(family, interval)), addresses };
}

/**
 * For each prefix, the route with the lowest metric; among equal ones, one that leads elsewhere.
 */
function best(routes: readonly Route[]): Iterable<Route> {
  const found = new Map<string, Route>();
  for (const route of routes) {
    const key = formatCidr(route.cidr);
    const before = found.get(key);
    const isBetter =
      before === undefined ||
      route.metric < before.metric ||
      (route.metric === before.metric && !route.isWanted);
    if (isBetter) found.set(key, route);
  }
  return found.values();
}

/** Route flags of linux/route.h and linux/ipv6_route.h. */
const RTF_UP = 0x1;
const RTF_REJECT = 0x200;
const RTF_CACHE = 0x0100_0000;
const RTF_LOCAL = 0x8000_0000;
const RTF_ANYCAST = 0x0010_0000;

/**
 * Parses the format of fib_route_seq_show, net/ipv4/fib_trie.c: the main table, after a heading
 * line. Addresses are printed as numbers in the machine's byte order. The device of a blackhole
 * route is `*`: it leads elsewhere.
 */
function ipv4Routes(text: string, interfaces: ReadonlySet<string>): Route[] {
  return text
    .split('\n')
    .slice(1)
    .flatMap((line): Route[] => {
      const [device = '', destination = '', , flags = '', , , metric = '', mask = ''] = line.split(/\s+/);
      const value = ipv4Value(destination);
      if (mask === '' || (hexNumber(flags) & RTF_UP) === 0 || value >= MULTICAST_IPV4) return [];
      const length = ipv4Value(mask).toString(2).replaceAll('0', '').length;
      const isWanted = interfaces.has(device) && (hexNumber(flags) & RTF_REJECT) === 0;
      return [{ cidr: { family: 4, value, length }, metric: Number(metric), isWanted }];
    });
}

const MULTICAST_IPV4 = 0xe000_0000n;
const IS_LITTLE_ENDIAN = endianness() === 'LE';

function ipv4Value(text: string): bigint {
  const bytes = Buffer.from(text.padStart(8, '0'), 'hex');
  return BigInt(IS_LITTLE_ENDIAN ? bytes.readUInt32LE() : bytes.readUInt32BE());
}

/**
 * Parses the format of ipv6_route_native_seq_show, net/ipv6/ip6_fib.c: all tables, including the
 * local one. Addresses of the node itself, link-local and multicast prefixes are left out: no
 * connection to a pod uses them.
 */
function ipv6Routes(text: string, interfaces: ReadonlySet<string>): Route[] {
  return text.split('\n').flatMap((line): Route[] => {
    const [
      destination = '',
      length = '',
      ,
      sourceLength = '',
      ,
      metric = '',
      ,
      ,
      flagsText = '',
      device = '',
    ] = line.split(/\s+/);
    if (device === '') return [];
    const flags = hexNumber(flagsText);
    const value = BigInt(`0x${destination}`);
    const isOwn = (flags & (RTF_LOCAL | RTF_ANYCAST | RTF_CACHE)) !== 0;
    const isOnLink = value >> 118n === LINK_LOCAL || value >> 120n === MULTICAST_IPV6;
    if (isOwn || isOnLink || (flags & (RTF_UP | RTF_REJECT)) === 0) return [];
    const isWanted = interfaces.has(device) && (flags & RTF_REJECT) === 0 && hexNumber(sourceLength) === 0;
    const cidr: Cidr = { family: 6, value, length: hexNumber(length) };
    return [{ cidr, metric: hexNumber(metric), isWanted }];
  });
}

/** fe80::/10 */
const LINK_LOCAL = 0x3fan;
/** ff00::/8 */
const MULTICAST_IPV6 = 0xffn;

function hexNumber(text: string): number {
  return Number.parseInt(text, 16);
}
