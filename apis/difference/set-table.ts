import { ipv4Number, lastAddress, parseAddress, WIDTH } from '../../lib/net/address.ts';
import { type FamilyMembers, sameMembers, unpackAddress } from '../../lib/net/member-set.ts';
import type { AddressSet, ServiceSet } from '../compiled.ts';
import { PROTOCOL_NUMBERS } from '../flow.ts';
import { type AddressSpace, ipv4Space, ipv6Space, type Part } from './address-space.ts';
import type { Box } from './service-space.ts';

/** The ports of a Service's addresses, and the set of the addresses that have all of them. */
interface ServiceAddresses {
  readonly set: number;
  readonly boxes: ReadonlyMap<number, readonly Box[]>;
}

/**
 * Numbers for the sets of both states; equal sets have the same number. All sets must be known
 * before the classes are read.
 */
export class SetTable {
  readonly #spaces: { readonly 4: AddressSpace<number>; readonly 6: AddressSpace<bigint> };
  readonly #known = new Map<AddressSet, number>();
  /** By id: the versions that differ. */
  readonly #versions = new Map<string, { readonly set: AddressSet; readonly number: number }[]>();
  readonly #services = new Map<string, readonly ServiceAddresses[]>();
  readonly #singles = new Map<string, number>();
  #classes: Readonly<Record<4 | 6, readonly Part[]>> | null = null;
  #count = 0;

  /** @param checkpoint called often by the first call of `classes`; may throw */
  constructor(checkpoint?: () => void) {
    this.#spaces = { 4: ipv4Space(checkpoint), 6: ipv6Space(checkpoint) };
  }

  numberOf(set: AddressSet): number {
    const known = this.#known.get(set) ?? this.#versionOf(set);
    this.#known.set(set, known);
    return known;
  }

  /** The number of the set with one IPv4 address. */
  numberOfAddress(text: string): number {
    const known = this.#singles.get(text);
    if (known !== undefined) return known;
    const value = ipv4Number(text);
    const number = this.#count++;
    this.#spaces[4].add(number, [{ first: value, last: value }]);
    this.#singles.set(text, number);
    return number;
  }

  /** The addresses of a set of Services, in one set for each list of ports. */
  addressesOf({ members }: ServiceSet): readonly ServiceAddresses[] {
    const text = JSON.stringify(members);
    const known = this.#services.get(text);
    if (known !== undefined) return known;
    const byAddress = Map.groupBy(members, ({ address }) => address);
    const byPorts = Map.groupBy(byAddress, ([, own]) =>
      own.map(({ protocol, port }) => `${protocol} ${port}`).join(),
    );
    const found = [...byPorts.values()].map((list): ServiceAddresses => {
      const set = this.#count++;
      const addresses = list.flatMap(([address]) => parseAddress(address) ?? []);
      const of = (family: 4 | 6) =>
        addresses.filter((one) => one.family === family).map(({ value }) => value);
      this.#spaces[4].add(
        set,
        of(4).map((value) => ({ first: Number(value), last: Number(value) })),
      );
      this.#spaces[6].add(
        set,
        of(6).map((value) => ({ first: value, last: value })),
      );
      const ports = list[0]?.[1] ?? [];
      const boxes = Map.groupBy(ports, ({ protocol }) => PROTOCOL_NUMBERS[protocol]);
      return {
        set,
        boxes: new Map(
          [...boxes].map(([protocol, own]) => [
            protocol,
            own.map(({ port }): Box => ({ x: [port, port], y: [1, 65_535] })),
          ]),
        ),
      };
    });
    this.#services.set(text, found);
    return found;
  }

  classes(family: 4 | 6): readonly Part[] {
    this.#classes ??= { 4: this.#spaces[4].classes(), 6: this.#spaces[6].classes() };
    return this.#classes[family];
  }

  space(family: 4 | 6): Pick<AddressSpace<never>, 'ranges' | 'rangeOf' | 'shareOf' | 'text'> {
    return this.#spaces[family];
  }

  #versionOf(set: AddressSet): number {
    const versions = this.#versions.get(set.id) ?? [];
    const { v4, v6 } = set.members;
    const same = versions.find(
      ({ set: { members } }) => sameMembers(members.v4, v4) && sameMembers(members.v6, v6),
    );
    if (same !== undefined) return same.number;
    const number = this.#count++;
    this.#versions.set(set.id, [...versions, { set, number }]);
    this.#spaces[4].add(number, rangesOf(v4, Number));
    this.#spaces[6].add(
      number,
      rangesOf(v6, (value) => value),
    );
    return number;
  }
}

function rangesOf<N>({ family, singles, prefixes }: FamilyMembers, to: (value: bigint) => N) {
  const ranges = prefixes.map((prefix) => ({ first: to(prefix.value), last: to(lastAddress(prefix)) }));
  for (let at = 0; at < singles.length; at += WIDTH[family]) {
    const value = to(unpackAddress(family, singles, at).value);
    ranges.push({ first: value, last: value });
  }
  return ranges;
}
