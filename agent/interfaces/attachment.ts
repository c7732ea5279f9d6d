import type { LinkRoute, RouteAddress } from 'nftables-napi';
import { type Address, BITS, type Cidr, covers, formatAddress, parseCidr } from '../../lib/net/address.ts';
import type { Clock } from '../../lib/process/clock.ts';

/** The addresses and routes of this network namespace, of all links and tables. */
interface NetworkReading {
  readonly addresses: readonly RouteAddress[];
  readonly routes: readonly LinkRoute[];
}

/**
 * How a link attaches the node itself to a network: an address of the Node object, a default route,
 * an address of its own, or a route to more than one pod.
 */
export type AttachedBy = 'node' | 'default' | 'address' | 'route';

/** The addresses and routes of one link, as far as they say what it leads to. */
export interface LinkAttachment {
  /** Null: nothing says that the node itself uses it, `gateways` aside. */
  readonly by: AttachedBy | null;
  /**
   * Single addresses (/32, /128). CNIs give the pods' gateway address to each pod's veth (ptp,
   * kindnet), so several links have the same.
   */
  readonly gateways: readonly string[];
}

/** By the index of the link; absent: no address and no route. */
export type Attachments = ReadonlyMap<number, LinkAttachment>;

/** Beyond these, addresses and routes lead to something. Multicast is no destination of its own. */
const NOWHERE = ['169.254.0.0/16', 'fe80::/10', '224.0.0.0/4', 'ff00::/8'].flatMap(
  (text) => parseCidr(text)?.cidr ?? [],
);
/** linux/rtnetlink.h. */
const RTN_UNICAST = 1;
const RTPROT_KERNEL = 2;
const RT_SCOPE_HOST = 254;
const MAIN_TABLES: readonly number[] = [253, 254];
const STRENGTH: readonly AttachedBy[] = ['route', 'address', 'default', 'node'];

/**
 * How each link attaches the node itself. Cost: linear.
 *
 * @param declared addresses of the Node object; null: not known
 */
export function attachments(reading: NetworkReading, declared: readonly string[] | null): Attachments {
  const nodes = new Set(declared);
  const facts = new Map<number, LinkFacts>();
  const of = (link: number): LinkFacts => {
    const found = facts.get(link) ?? new LinkFacts();
    facts.set(link, found);
    return found;
  };
  for (const { link, address: bytes, prefixLength } of reading.addresses) {
    const address = toCidr(bytes, prefixLength);
    if (leadsNowhere(address)) continue;
    const text = formatAddress(address);
    if (nodes.has(text)) of(link).raise('node');
    else if (prefixLength < BITS[address.family]) of(link).raise('address');
    of(link).addresses.add(text);
  }
  for (const route of reading.routes) {
    if (route.type !== RTN_UNICAST) continue;
    const destination = toCidr(route.destination, route.prefixLength);
    if (route.prefixLength > 0 && leadsNowhere(destination)) continue;
    for (const { link, hasGateway } of route.ways) of(link).add(route, destination, hasGateway);
  }
  return new Map([...facts].map(([link, found]) => [link, found.attachment()]));
}

class LinkFacts {
  readonly addresses = new Set<string>();
  #by: AttachedBy | null = null;
  #hasHostRoute = false;

  raise(by: AttachedBy): void {
    if (this.#by === null || STRENGTH.indexOf(by) > STRENGTH.indexOf(this.#by)) this.#by = by;
  }

  add({ prefixLength, table, scope, protocol }: LinkRoute, to: Cidr, hasGateway: boolean): void {
    // The kernel has a route to each IPv6 address itself, and to the other end of a point-to-point
    // address.
    const isOtherEnd = protocol === RTPROT_KERNEL && !this.addresses.has(formatAddress(to));
    if (prefixLength === 0) this.raise(MAIN_TABLES.includes(table) ? 'default' : 'route');
    else if (hasGateway || prefixLength < BITS[to.family] || isOtherEnd) this.raise('route');
    // The scope of the pods' routes that the CNI plugin ptp makes, and of none that others make.
    else this.#hasHostRoute ||= to.family === 4 && scope === RT_SCOPE_HOST;
  }

  attachment(): LinkAttachment {
    return { by: this.#by, gateways: this.#hasHostRoute ? [] : [...this.addresses] };
  }
}

function toCidr(bytes: Uint8Array, length: number): Cidr {
  const value = BigInt(`0x${Buffer.from(bytes).toString('hex')}`);
  return { family: bytes.length === 4 ? 4 : 6, value, length };
}

function leadsNowhere({ family, value }: Address): boolean {
  return NOWHERE.some((block) => covers(block, { family, value, length: BITS[family] }));
}

/**
 * Milliseconds until addresses and routes are read again, and how many times as long as a reading
 * takes at least: with all routes of the Internet that is a second.
 */
const FRESH = 250;
const SHARE = 10;

interface ReadingOptions {
  readonly read: () => Promise<Attachments>;
  readonly clock: Clock;
  /** Called when a caller got an old reading and a new one may differ. */
  readonly again: () => void;
}

/** Reads how links attach the node itself, not more often than it is worth. */
export class AttachmentReading {
  readonly #options: ReadingOptions;
  #last: Attachments = new Map();
  #lastAt = Number.NEGATIVE_INFINITY;
  #fresh = FRESH;
  #cancel: (() => void) | null = null;

  constructor(options: ReadingOptions) {
    this.#options = options;
  }

  /** The last reading if it is fresh; `again` is called after it, when it no longer is. */
  async now(): Promise<Attachments> {
    const { clock, read, again } = this.#options;
    const began = clock.now();
    const age = began - this.#lastAt;
    if (age > this.#fresh) {
      this.#last = await read();
      this.#lastAt = began;
      this.#fresh = Math.max(FRESH, SHARE * (clock.now() - began));
    } else {
      // The event that led here may be newer than the reading.
      this.#cancel ??= clock.after(this.#fresh - age + 1, () => {
        this.#cancel = null;
        again();
      });
    }
    return this.#last;
  }

  /** The next caller gets a new reading. */
  forget(): void {
    this.#lastAt = Number.NEGATIVE_INFINITY;
  }

  close(): void {
    this.#cancel?.();
  }
}
