import {
  type Address,
  type Family,
  formatAddress,
  ipv4Number,
  lastAddress,
  parseAddress,
  WIDTH,
} from '../../lib/net/address.ts';
import { addressRangeText, type Interval, type Ranges, union } from '../../lib/net/interval.ts';
import { type FamilyMembers, sameMembers, unpackAddress } from '../../lib/net/member-set.ts';
import type { AddressSet, ServiceSet } from '../compiled.ts';
import { PROTOCOL_NUMBERS } from '../flow.ts';
import { type AddressSpace, ipv4Space, ipv6Space, type Part } from './address-space.ts';
import { type Box, CARRIERS, OTHER_DESTINATION } from './service-space.ts';

/** The ports of a Service's addresses, and the set of the addresses that have all of them. */
interface ServiceAddresses {
  readonly set: number;
  readonly boxes: ReadonlyMap<number, readonly Box[]>;
}

/** The meaning of numbers in the service space. */
export type NumberTable = Pick<SetTable, 'numbers' | 'destinationTexts'>;

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
  readonly #numbers = [...CARRIERS];
  /** Destinations of IPv6, in the order of their numbers. */
  readonly #destinations: Address[] = [];
  readonly #destinationNumbers = new Map<bigint, number>();
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

  /** The number of the set with one address. */
  numberOfAddress(text: string): number {
    const known = this.#singles.get(text);
    if (known !== undefined) return known;
    const number = this.#count++;
    const { family, value } = addressOf(text);
    if (family === 6) this.#spaces[6].add(number, [{ first: value, last: value }]);
    else this.#spaces[4].add(number, [{ first: Number(value), last: Number(value) }]);
    this.#singles.set(text, number);
    return number;
  }

  /**
   * The protocols without numbers of their own that the failsafe list or rules of any state may
   * name. The same list each time; it is complete when all rules are prepared.
   */
  get numbers(): readonly number[] {
    return this.#numbers;
  }

  addProtocol(protocol: number): void {
    if (this.#numbers.includes(protocol)) return;
    const rest = [...this.#numbers.splice(CARRIERS.length), protocol].sort((a, b) => a - b);
    this.#numbers.push(...rest);
  }

  /** A destination as service-space.ts has it. */
  destinationNumber(text: string): number {
    const { family, value } = addressOf(text);
    if (family === 4) return ipv4Number(text);
    const known = this.#destinationNumbers.get(value);
    if (known !== undefined) return known;
    const number = OTHER_DESTINATION + this.#destinations.push({ family, value });
    this.#destinationNumbers.set(value, number);
    return number;
  }

  /** The addresses that such numbers stand for, FIRST-LAST. */
  destinationTexts(family: Family, numbers: Ranges): string[] {
    if (family === 4) {
      const text = (value: number): string => formatAddress({ family, value: BigInt(value) });
      return numbers.map(([first, last]) => `${text(first)}-${text(last)}`);
    }
    const has = (number: number): boolean =>
      numbers.some(([first, last]) => first <= number && number <= last);
    const named = this.#destinations.map(({ value }, i) => ({
      value,
      isIn: has(OTHER_DESTINATION + 1 + i),
    }));
    const others = has(OTHER_DESTINATION);
    const listed = named.filter(({ isIn }) => isIn !== others).map(({ value }) => value);
    const ranges = union(listed.map((value) => ({ first: value, last: value })));
    return (others ? outside(ranges) : ranges).map((range) => addressRangeText(family, range));
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

function addressOf(text: string): Address {
  const address = parseAddress(text);
  if (address === null) throw new TypeError(`${text} is not an IP address`);
  return address;
}

/** The addresses of IPv6 that are in no range. */
function outside(ranges: readonly Interval[]): Interval[] {
  const found: Interval[] = [];
  let next = 0n;
  for (const { first, last } of ranges) {
    if (first > next) found.push({ first: next, last: first - 1n });
    next = last + 1n;
  }
  const last = lastAddress({ family: 6, value: 0n, length: 0 });
  return next > last ? found : [...found, { first: next, last }];
}

function rangesOf<N>({ family, singles, prefixes }: FamilyMembers, to: (value: bigint) => N) {
  const ranges = prefixes.map((prefix) => ({ first: to(prefix.value), last: to(lastAddress(prefix)) }));
  for (let at = 0; at < singles.length; at += WIDTH[family]) {
    const value = to(unpackAddress(family, singles, at).value);
    ranges.push({ first: value, last: value });
  }
  return ranges;
}
