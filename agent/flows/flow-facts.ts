import { formatAddress, parseAddress } from '../../lib/net/address.ts';
import { hasAddress, type MemberSet, packAddress } from '../../lib/net/member-set.ts';
import { type RouteTexts, routedOutBy } from '../interfaces/pod-routes.ts';

/** Facts that this machine's kernel gives. */
export interface FactReadings {
  /** Addresses of all interfaces, loopback ones too. */
  readonly addresses: readonly { readonly address: string; readonly netmask: string }[];
  readonly links: readonly { readonly name: string; readonly group: number }[];
  /** Null: they cannot be read; then no peer has a link group. */
  readonly routes: RouteTexts | null;
  /** Link groups of peers that are known otherwise. */
  readonly known?: ReadonlyMap<string, number>;
}

/**
 * Facts that conntrack does not give: which connections are this machine's own, and by which
 * interfaces.
 */
export class FlowFacts {
  readonly #own4 = new Set<number>();
  readonly #own6 = new Set<string>();
  readonly #broadcasts = new Set<number>();
  readonly #known: ReadonlyMap<string, number>;
  readonly #routed: readonly { readonly group: number; readonly peers: MemberSet }[];

  /** Costs a parse of the routes for each link group but 0 that an interface has. */
  constructor({ addresses, links, routes, known = new Map() }: FactReadings) {
    this.#known = known;
    for (const { address: text, netmask } of addresses) {
      const address = parseAddress(text);
      if (address === null) continue;
      if (address.family === 6) {
        this.#own6.add(Buffer.from(packAddress(address)).toString('latin1'));
        continue;
      }
      const value = Number(address.value);
      this.#own4.add(value);
      const mask = Number(parseAddress(netmask)?.value ?? 0xffff_ffffn);
      // A network of two addresses or one has no broadcast address.
      if (mask < 0xffff_fffe) this.#broadcasts.add((value | ~mask) >>> 0);
    }
    this.#own6.add(LOOPBACK_6);
    const groups = [...new Set(links.map(({ group }) => group))].filter((group) => group !== 0);
    const names = (of: number): ReadonlySet<string> =>
      new Set(links.filter(({ group }) => group === of).map(({ name }) => name));
    this.#routed =
      routes === null ? [] : groups.map((group) => ({ group, peers: routedOutBy(routes, names(group)) }));
  }

  /** Whether the address at this place is the machine's own, or a loopback one. */
  isOwn(bytes: Buffer, at: number, family: 4 | 6): boolean {
    if (family === 6) return this.#own6.has(bytes.toString('latin1', at, at + 16));
    return bytes[at] === LOOPBACK_4 || this.#own4.has(bytes.readUInt32BE(at));
  }

  /** Whether what is tracked to this address is delivered here: own, multicast, or broadcast. */
  isDelivered(bytes: Buffer, at: number, family: 4 | 6): boolean {
    const first = bytes[at] ?? 0;
    if (family === 6 ? first === 0xff : first >= 224 && first < 240) return true;
    if (this.isOwn(bytes, at, family)) return true;
    if (family === 6) return false;
    const value = bytes.readUInt32BE(at);
    return value === 0xffff_ffff || this.#broadcasts.has(value);
  }

  /** The link group of the interfaces by which the peer (an address) is reached; 0: none. */
  groupOf(peer: string): number {
    const known = this.#known.get(peer);
    return known ?? this.#routed.find(({ peers }) => hasAddress(peers, peer))?.group ?? 0;
  }
}

/** 127.0.0.0/8 */
const LOOPBACK_4 = 127;
const LOOPBACK_6 = Buffer.from([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]).toString('latin1');

/** The text of the address at this place. */
export function addressTextAt(bytes: Buffer, at: number, family: 4 | 6): string {
  if (family === 4) return `${bytes[at]}.${bytes[at + 1]}.${bytes[at + 2]}.${bytes[at + 3]}`;
  const value = (bytes.readBigUInt64BE(at) << 64n) | bytes.readBigUInt64BE(at + 8);
  return formatAddress({ family, value });
}
