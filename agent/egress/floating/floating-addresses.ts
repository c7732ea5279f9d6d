import type { RouteEvent } from 'nftables-napi';
import { isFloating } from '../../../apis/egress/netstate.ts';
import type { OwnedAddress } from '../../../apis/egress/node-egress.ts';
import { hasAddress, type MemberSet } from '../../../lib/net/member-set.ts';
import type { Log } from '../../../lib/process/log.ts';
import {
  type AddressConflict,
  type FloatingKernel,
  FloatingLate,
  type LiveAddress,
  type Renewal,
} from '../floating-kernel.ts';
import type { LiveSets } from './live-sets.ts';
import { announce, type NeighbourLink, type NeighbourOptions, probe } from './neighbour-link.ts';
import { type FloatingPlace, type PlacePort, Places } from './places.ts';

interface FloatingAddressesOptions extends NeighbourOptions {
  readonly live: Pick<LiveSets, 'read' | 'add' | 'renew' | 'delete'>;
  readonly port: PlacePort;
  readonly log: Log;
  /** Why this node would answer ARP for IPv4 addresses that are not alive; null: it would not. */
  readonly speaks: () => Error | null;
}

/** An address that is alive by the last call. */
interface Held {
  readonly place: FloatingPlace;
  until: number;
  stop: () => void;
}

/** Milliseconds between two looks for what the kernel does by itself, mostly within one. */
const LOOK = 1;

/** The floating addresses of this machine in its kernel. */
export class FloatingAddresses implements FloatingKernel {
  readonly #options: FloatingAddressesOptions;
  readonly #held = new Map<string, Held>();

  constructor(options: FloatingAddressesOptions) {
    this.#options = options;
  }

  /** An element without its address, or the other way round, is removed. */
  async read(): Promise<readonly LiveAddress[]> {
    const { live, port, clock } = this.#options;
    const places = await Places.read(port);
    const present = new Map(places.present().map((place) => [place.address, place]));
    const elements = await live.read();
    const whole = elements.filter(({ address, isWhole }) => isWhole && present.has(address));
    const alive = new Set(whole.map(({ address }) => address));
    await live.delete(elements.flatMap(({ address }) => (alive.has(address) ? [] : address)));
    await places.remove(new Set(present.keys()).difference(alive));
    for (const { address, milliseconds } of whole) {
      const place = present.get(address);
      if (place === undefined || this.#held.has(address)) continue;
      this.#held.set(address, { place, until: clock.now() + milliseconds, stop: () => {} });
    }
    return whole.map(({ address, milliseconds }) => ({ address, milliseconds }));
  }

  async assign(addresses: readonly OwnedAddress[], until: number): Promise<readonly AddressConflict[]> {
    const { live, port, clock, speaks } = this.#options;
    const problem = addresses.some(({ address }) => !address.includes(':')) ? speaks() : null;
    if (problem !== null) throw new Error('the table arp nodewall is not in place', { cause: problem });
    const places = await Places.read(port);
    const wanted = addresses.map((address) => places.placeOf(address));
    const conflicts = await this.#conflicts(places, wanted);
    if (conflicts.length > 0) return conflicts;
    const names = addresses.map(({ address }) => address);
    await places.remove(new Set(names));
    try {
      // First the addresses, which are silent until they are alive. A packet that left before would
      // have the kernel ask for a neighbour from an address where it does not hear the answer yet,
      // and ask again after a second only.
      await places.put(wanted);
      while (!(await places.areLocal(names))) {
        if (clock.now() >= until) throw new FloatingLate('the grant ended before the addresses were there');
        await new Promise<void>((resolve) => void clock.after(LOOK, resolve));
      }
      const late = await live.add(names.map((address) => ({ address, until })));
      if (late.length > 0 || clock.now() >= until)
        throw new FloatingLate('the grant ended before the addresses were alive');
      this.#hold(wanted.map((place) => ({ place, until })));
    } catch (error) {
      await this.drop(names);
      throw error;
    }
    return [];
  }

  async renew(renewals: readonly Renewal[]): Promise<readonly string[]> {
    const ended = new Set(await this.#options.live.renew(renewals));
    this.renewed(renewals.filter(({ address }) => !ended.has(address)));
    return [...ended];
  }

  renewed(renewals: readonly Renewal[]): void {
    for (const { address, until } of renewals) {
      const held = this.#held.get(address);
      if (held !== undefined) held.until = until;
    }
  }

  async drop(addresses: readonly string[]): Promise<void> {
    for (const address of addresses) {
      this.#held.get(address)?.stop();
      this.#held.delete(address);
    }
    await this.#options.live.delete(addresses);
    await (await Places.read(this.#options.port)).remove(new Set(addresses));
  }

  /** Drops those that are of none of these pools. */
  async leave(pools: MemberSet): Promise<void> {
    const present = (await Places.read(this.#options.port)).present().map(({ address }) => address);
    const outside = present.filter((address) => !hasAddress(pools, address));
    if (outside.length > 0) await this.drop(outside);
  }

  /** Puts back what somebody else removed, or what went with its interface. */
  changed(events: readonly RouteEvent[]): void {
    if (this.#held.size === 0) return;
    const links = new Set([...this.#held.values()].map(({ place }) => place.link));
    const isMeant = events.some((one) => {
      if (one.event === 'overrun') return true;
      if (!('object' in one)) return false;
      const { event, object } = one;
      // An interface that was down has lost its IPv6 addresses.
      if (event === 'present')
        return object.kind === 'link' && object.link.isUp && links.has(object.link.index);
      return object.kind === 'address' && isFloating(object.address);
    });
    if (isMeant) void this.#putBack();
  }

  /** Ends announcements. What is in the kernel stays. */
  close(): void {
    for (const { stop } of this.#held.values()) stop();
    this.#held.clear();
  }

  async #putBack(): Promise<void> {
    const { port, clock, log } = this.#options;
    try {
      const places = await Places.read(port);
      const present = new Set(places.present().map(({ address }) => address));
      const missing = [...this.#held.values()].filter(
        ({ place, until }) => clock.now() < until && !present.has(place.address),
      );
      if (missing.length === 0) return;
      await places.put(missing.map(({ place }) => place));
      // A call of drop may have come between.
      const [kept, dropped] = [true, false].map((isKept) =>
        missing.filter((held) => (this.#held.get(held.place.address) === held) === isKept),
      ) as [Held[], Held[]];
      const gone = new Set(dropped.map(({ place }) => place.address));
      if (gone.size > 0) await (await Places.read(port)).remove(gone);
      this.#hold(kept);
      log.warn('floating addresses were removed from an interface; put back', {
        stage: 'egress',
        addresses: kept.map(({ place }) => place.address),
      });
    } catch (error) {
      log.error('cannot put floating addresses back', { stage: 'egress', error: (error as Error).message });
    }
  }

  #hold(wanted: readonly Pick<Held, 'place' | 'until'>[]): void {
    const held = new Map(
      wanted.map(({ place, until }): [string, Held] => [place.address, { place, until, stop() {} }]),
    );
    for (const [address, one] of held) {
      this.#held.get(address)?.stop();
      this.#held.set(address, one);
    }
    const isAlive = (address: string): boolean => {
      const one = held.get(address);
      return one !== undefined && this.#held.get(address) === one && this.#options.clock.now() < one.until;
    };
    for (const [link, addresses] of byLink(wanted.map(({ place }) => place))) {
      const stop = announce(this.#options, link, addresses, isAlive);
      for (const address of addresses) {
        const one = held.get(address);
        if (one !== undefined) one.stop = () => stop(address);
      }
    }
  }

  async #conflicts(places: Places, wanted: readonly FloatingPlace[]): Promise<AddressConflict[]> {
    const isOwn = (mac: Uint8Array): boolean => places.isOwnMac(mac);
    const asked = byLink(wanted).map(([link, addresses]) => probe(this.#options, link, addresses, isOwn));
    const found = (await Promise.all(asked)).flatMap((one) => [...one]);
    return found.map(([address, mac]) => ({
      address,
      mac: Buffer.from(mac)
        .toString('hex')
        .replace(/..(?=.)/g, '$&:'),
    }));
  }
}

/** The addresses for which somebody may ask, by the link on which they do. */
function byLink(places: readonly FloatingPlace[]): [NeighbourLink, string[]][] {
  const links = new Map<number, [NeighbourLink, string[]]>();
  for (const { address, neighbours } of places) {
    if (neighbours === null) continue;
    const known = links.get(neighbours.index);
    if (known === undefined) links.set(neighbours.index, [neighbours, [address]]);
    else known[1].push(address);
  }
  return [...links.values()];
}
