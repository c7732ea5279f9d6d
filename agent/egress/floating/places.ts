import type { NftError, Route, RouteAddress, RouteChange, RouteFilter, RouteLink } from 'nftables-napi';
import { isFloating, OWN_NETWORK } from '../../../apis/egress/netstate.ts';
import type { OwnedAddress } from '../../../apis/egress/node-egress.ts';
import { type Address, BITS, covers, formatAddress, parseAddress } from '../../../lib/net/address.ts';
import { packAddress, unpackAddress } from '../../../lib/net/member-set.ts';
import type { NeighbourLink } from './neighbour-link.ts';

/** The kernel's interfaces and addresses: the addon's RouteSocket. */
export interface PlacePort {
  links(): Promise<readonly RouteLink[]>;
  addresses(): Promise<readonly RouteAddress[]>;
  routes(filter: RouteFilter): Promise<readonly Route[]>;
  change(
    changes: readonly RouteChange[],
    what?: (index: number) => string,
  ): Promise<readonly (NftError | null)[]>;
}

/** Where an address is, or is to be put. */
export interface FloatingPlace {
  readonly address: string;
  /** Index of the interface; null: the dummy device, which has to be made. */
  readonly link: number | null;
  /** The hosts that can ask for the address; null: there are none, because others route it here. */
  readonly neighbours: NeighbourLink | null;
}

const { link: DUMMY, protocol: PROTOCOL, metric: METRIC } = OWN_NETWORK.floating;
const GONE: ReadonlySet<string> = new Set(['EADDRNOTAVAIL', 'ENODEV', 'ENXIO']);
const MAC_LENGTH = 6;
/** RT_TABLE_LOCAL and RTN_LOCAL of linux/rtnetlink.h. */
const [LOCAL_TABLE, LOCAL] = [255, 2];

/** Floating addresses on this machine's interfaces: read as of one moment, and changed. */
export class Places {
  readonly #port: PlacePort;
  readonly #links: readonly RouteLink[];
  readonly #addresses: readonly RouteAddress[];

  private constructor(port: PlacePort, links: readonly RouteLink[], addresses: readonly RouteAddress[]) {
    this.#port = port;
    this.#links = links;
    this.#addresses = addresses;
  }

  static async read(port: PlacePort): Promise<Places> {
    return new Places(port, await port.links(), await port.addresses());
  }

  /** The floating addresses that are on interfaces. */
  present(): FloatingPlace[] {
    return this.#addresses.flatMap((it) => {
      if (!isFloating(it)) return [];
      const { index = 0, name, mac } = this.#links.find(({ index }) => index === it.link) ?? {};
      const neighbours = name === DUMMY || mac?.length !== MAC_LENGTH ? null : { index, mac };
      return [{ address: textOf(it), link: it.link, neighbours }];
    });
  }

  /** Whether a MAC is one of this machine. */
  isOwnMac(mac: Uint8Array): boolean {
    return this.#links.some((link) => Buffer.compare(link.mac, mac) === 0);
  }

  /**
   * On the interface whose subnet holds it, where the kernel answers those who ask for it; else,
   * and where nobody asks, on the dummy device.
   */
  placeOf({ address: text, announce }: OwnedAddress): FloatingPlace {
    const address = parseAddress(text);
    if (address === null) throw new RangeError(`${text} is no address`);
    const foreign = this.#addresses.find((it) => !isFloating(it) && textOf(it) === text);
    if (foreign !== undefined) {
      throw new Error(`${text} is on ${this.#name(foreign.link)}, and not by nodewall; remove it there`);
    }
    const holder = announce === 'L2' ? this.#subnetOf(address) : null;
    if (holder !== null) return { address: text, link: holder.index, neighbours: holder };
    const dummy = this.#links.find(({ name }) => name === DUMMY);
    return { address: text, link: dummy?.index ?? null, neighbours: null };
  }

  #subnetOf(address: Address): RouteLink | null {
    const holders = this.#addresses.filter((it) => {
      const { family, value } = addressOf(it);
      const rest = BigInt(BITS[family] - it.prefixLength);
      const cidr = { family, value: (value >> rest) << rest, length: it.prefixLength };
      return !isFloating(it) && it.prefixLength < BITS[cidr.family] && holds(cidr, address);
    });
    // The smallest of the subnets, as in a routing table.
    for (const { link } of holders.toSorted((a, b) => b.prefixLength - a.prefixLength)) {
      const found = this.#links.find(({ index }) => index === link);
      if (found?.isUp && found.mac.length === MAC_LENGTH) return found;
    }
    return null;
  }

  #name(link: number): string {
    return this.#links.find(({ index }) => index === link)?.name ?? `link ${link}`;
  }

  /** Puts them on their interfaces. Those that are there stay. */
  async put(places: readonly FloatingPlace[]): Promise<void> {
    const dummy = places.some(({ link }) => link === null)
      ? await this.#makeDummy(places.filter(({ link }) => link === null))
      : 0;
    await change(
      this.#port,
      places.map(({ address, link }) => toChange('add', address, link ?? dummy)),
      new Set(['EEXIST']),
      ({ address }) => `ip addr add ${textOf(address)}`,
    );
  }

  /**
   * Whether the kernel takes packets to all of these addresses. It makes the route of an IPv6
   * address, and listens for those who ask for it, some time after it has confirmed the address
   * (addrconf_dad_work() in net/ipv6/addrconf.c).
   */
  async areLocal(addresses: readonly string[]): Promise<boolean> {
    const ipv6 = addresses.filter((address) => address.includes(':'));
    if (ipv6.length === 0) return true;
    const routes = await this.#port.routes({ family: 6, table: LOCAL_TABLE });
    const local = new Set(
      routes.flatMap(({ type, destination }) => (type === LOCAL ? textOf({ address: destination }) : [])),
    );
    return ipv6.every((address) => local.has(address));
  }

  /** Removes these addresses from all interfaces. */
  async remove(addresses: ReadonlySet<string>): Promise<void> {
    const found = this.present().filter(({ address }) => addresses.has(address));
    await change(
      this.#port,
      found.map(({ address, link }) => toChange('delete', address, link ?? 0)),
      GONE,
      ({ address }) => `ip addr del ${textOf(address)}`,
    );
  }

  /** All that floating addresses have left. @returns what was removed, as commands of ip(8) */
  async removeAll(): Promise<string[]> {
    const present = this.present();
    await this.remove(new Set(present.map(({ address }) => address)));
    const dummy = this.#links.find(({ name, kind }) => name === DUMMY && kind === OWN_NETWORK.floating.kind);
    if (dummy !== undefined) {
      const [refused] = await this.#port.change([{ operation: 'delete', kind: 'link', link: dummy }]);
      if (refused && !GONE.has(refused.code)) throw refused;
    }
    return [
      ...present.map(({ address, link }) => `ip addr ${address} dev ${this.#name(link ?? 0)}`),
      ...(dummy === undefined ? [] : [`ip link ${DUMMY}`]),
    ];
  }

  async #makeDummy([first]: readonly FloatingPlace[]): Promise<number> {
    const link = {
      index: 0,
      name: DUMMY,
      kind: OWN_NETWORK.floating.kind,
      group: 0,
      mtu: 0,
      mac: new Uint8Array(),
      isUp: true,
      vxlan: null,
    };
    const [refused] = await this.#port.change([{ operation: 'add', kind: 'link', link }]);
    if (refused && refused.code !== 'EEXIST') {
      throw new Error(
        `no interface has a subnet with ${first?.address} that others could ask on, and the kernel makes no dummy device ${DUMMY}: ${refused.message}. Use addresses of a subnet of the gateway's interfaces with announce: L2, or load the module dummy`,
        { cause: refused },
      );
    }
    const made = (await this.#port.links()).find(({ name }) => name === DUMMY);
    if (made === undefined) throw new Error(`the device ${DUMMY} is gone`);
    return made.index;
  }
}

function toChange(operation: 'add' | 'delete', text: string, link: number) {
  const address = parseAddress(text);
  if (address === null) throw new RangeError(`${text} is no address`);
  const isV6 = address.family === 6;
  const flags = { noPrefixRoute: true, noDad: isV6, deprecated: isV6 };
  const prefixLength = BITS[address.family];
  const marks = { protocol: PROTOCOL, metric: METRIC };
  const it = { link, address: packAddress(address), prefixLength, ...marks, ...flags };
  return { operation, kind: 'address', address: it } as const;
}

async function change(
  port: PlacePort,
  changes: readonly ReturnType<typeof toChange>[],
  accepted: ReadonlySet<string>,
  what: (change: ReturnType<typeof toChange>) => string,
): Promise<void> {
  const results = await port.change(changes, (i) => {
    const one = changes[i];
    return one === undefined ? '' : what(one);
  });
  for (const refused of results) if (refused !== null && !accepted.has(refused.code)) throw refused;
}

function holds(cidr: Parameters<typeof covers>[0], address: Address): boolean {
  return cidr.family === address.family && covers(cidr, { ...address, length: BITS[address.family] });
}

function addressOf({ address }: RouteAddress): Address {
  return unpackAddress(address.length === 4 ? 4 : 6, address, 0);
}

function textOf(it: Pick<RouteAddress, 'address'>): string {
  return formatAddress(addressOf(it as RouteAddress));
}
