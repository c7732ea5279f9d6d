import { isDeepStrictEqual } from 'node:util';
import type { RouteAddress, RouteEvent, RouteLink } from 'nftables-napi';
import { isOwnAddress } from '../../../apis/egress/netstate.ts';
import type { AddressPair } from '../../../apis/egress/objects.ts';
import { formatAddress } from '../../../lib/net/address.ts';
import { unpackAddress } from '../../../lib/net/member-set.ts';
import type { Clock } from '../../../lib/process/clock.ts';
import { pace } from '../../../lib/process/timers.ts';
import { present } from '../../../lib/sharing/present.ts';

interface Network {
  readonly links: readonly Pick<RouteLink, 'index' | 'name'>[];
  readonly addresses: readonly Pick<
    RouteAddress,
    'link' | 'address' | 'protocol' | 'metric' | 'deprecated'
  >[];
}

interface InterfaceAddressesOptions {
  readonly clock: Clock;
  readonly read: () => Promise<Network>;
  readonly changed: () => void;
}

/** Milliseconds between two readings, at least. */
const READ_INTERVAL = 50;

/**
 * The addresses of the interfaces that gateways name, by events of the kernel. Of several addresses
 * of a family the first counts, as the kernel lists them, but for link-local and deprecated ones
 * and those of nodewall.
 */
export class InterfaceAddresses {
  readonly #options: InterfaceAddressesOptions;
  readonly #reading: ReturnType<typeof pace>;
  #names: ReadonlySet<string> = new Set();
  #found: ReadonlyMap<string, AddressPair> = new Map();
  #pending: Promise<void> = Promise.resolve();

  constructor(options: InterfaceAddressesOptions) {
    this.#options = options;
    this.#reading = pace(options.clock, READ_INTERVAL, () => {
      this.#pending = this.#pending.then(() => this.#read());
    });
  }

  /** Follows these; of one that is new, nothing is known until it was read. */
  follow(names: ReadonlySet<string>): void {
    const isNew = names.difference(this.#names).size > 0;
    this.#names = names;
    if (isNew) this.#reading.request();
  }

  of(name: string): AddressPair | undefined {
    return this.#found.get(name);
  }

  receive(events: readonly RouteEvent[]): void {
    if (this.#names.size === 0) return;
    const isMeant = events.some(
      (event) => !('object' in event) || event.object.kind === 'address' || event.object.kind === 'link',
    );
    if (isMeant) this.#reading.request();
  }

  /** Resolves once what was asked for is read. */
  async idle(): Promise<void> {
    this.#reading.flush();
    await this.#pending;
  }

  close(): void {
    this.#names = new Set();
    this.#reading.close();
  }

  async #read(): Promise<void> {
    if (this.#names.size === 0) return;
    let network: Network;
    try {
      network = await this.#options.read();
    } catch {
      this.#reading.request();
      return;
    }
    const now = new Map([...this.#names].map((name) => [name, addressesOf(name, network)]));
    if (isDeepStrictEqual(now, this.#found)) return;
    this.#found = now;
    this.#options.changed();
  }
}

function addressesOf(name: string, { links, addresses }: Network): AddressPair {
  const index = links.find((link) => link.name === name)?.index;
  const own = addresses.filter(
    (address) => address.link === index && !isOwnAddress(address) && !address.deprecated,
  );
  const first = (length: 4 | 16): string | undefined => {
    const found = own.find(({ address }) => address.length === length && !isLinkLocal(address));
    return found && formatAddress(unpackAddress(length === 4 ? 4 : 6, found.address, 0));
  };
  const [ipv4, ipv6] = [first(4), first(16)];
  return present({ ipv4, ipv6 });
}

function isLinkLocal(bytes: Uint8Array): boolean {
  const [first = 0, second = 0] = bytes;
  if (bytes.length === 4) return first === 169 && second === 254;
  return first === 0xfe && (second & 0xc0) === 0x80;
}
