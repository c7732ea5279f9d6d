import { FAMILIES, type Family, lastAddress } from '../../lib/net/address.ts';
import {
  addressRangeText,
  appendRange,
  type Interval,
  type Range,
  type Ranges,
  unionRanges,
} from '../../lib/net/interval.ts';
import { addToList, compareBigInts, compareText } from '../../lib/sharing/lists.ts';
import { LAST_LINK_GROUP } from '../compiled.ts';
import { PROTOCOL_NUMBERS } from '../flow.ts';
import type { Direction, PolicyTraffic } from '../objects.ts';
import type { Part } from './address-space.ts';
import type { Leaves } from './entry.ts';
import type { Row } from './row.ts';
import { NUMBERED, OTHER } from './service-space.ts';
import type { SetTable } from './set-table.ts';
import { byPeer, byService, type Unit, type UnitOfProfiles } from './units.ts';

/** The flows of a row, with the addresses of its peers as numbers. */
export interface NumberedRow {
  readonly row: Row;
  readonly peers: Readonly<Record<Family, readonly Interval[]>>;
}

const { icmp, igmp, icmpv6 } = PROTOCOL_NUMBERS;
/** The protocols that one of the families does not have. */
const OF_ONE_FAMILY: readonly number[] = [icmp, igmp, icmpv6];

/** Rows of one family: some classes of addresses, by some link groups. */
interface Draft {
  readonly family: Family;
  readonly unit: Unit;
  readonly groups: readonly Range[] | null;
  readonly peers: readonly Interval[];
}

/** Classes of addresses that were added together, and stay together: thousands, as one. */
type Peers = readonly Part[];

/** A list of units, and the peers that have it, each with link groups. */
interface Profile {
  readonly units: readonly Unit[];
  /** The values are combinations of indices into the link groups. */
  readonly peers: Map<Peers, number>;
}

/** The units of the profiles of one family. */
interface DividedUnits {
  readonly family: Family;
  readonly units: readonly UnitOfProfiles[];
}

/** Collects units of one direction and kind of traffic, and joins equal ones into rows. */
export class RowCollector {
  readonly #of: { readonly direction: Direction; readonly traffic: PolicyTraffic };
  readonly #groups: readonly Ranges[];
  readonly #combinations = new Combinations();
  readonly #profiles: Readonly<Record<Family, Map<string, Profile>>> = { 4: new Map(), 6: new Map() };
  readonly #known = new Map<readonly Unit[], string>();

  /** @param groups the link groups that are not told apart, in disjoint lists */
  constructor(direction: Direction, traffic: PolicyTraffic, groups: readonly Ranges[]) {
    this.#of = { direction, traffic };
    this.#groups = groups;
  }

  /**
   * Each class of addresses is added once.
   *
   * @param units of all of these peers, by index of the link groups
   */
  add(family: Family, peers: Peers, units: readonly (readonly Unit[])[]): void {
    const profiles = this.#profiles[family];
    const groups = new Map<Profile, number[]>();
    for (const [group, own] of units.entries()) {
      if (own.length === 0) continue;
      const key = this.#known.get(own) ?? JSON.stringify(own);
      this.#known.set(own, key);
      const profile = profiles.get(key) ?? { units: own, peers: new Map() };
      profiles.set(key, profile);
      addToList(groups, profile, group);
    }
    for (const [profile, own] of groups) {
      profile.peers.set(peers, this.#combinations.numberOf(own));
    }
  }

  /** @param families those of the Node */
  rows(families: readonly Family[], table: SetTable, leaves: Leaves): NumberedRow[] {
    const productsOf = (family: Family): Products =>
      new Products([...this.#profiles[family].values()], this.#combinations, this.#groups);
    const products = { 4: productsOf(4), 6: productsOf(6) };
    const drafts = this.#fewest(products).flatMap(({ family, units }) =>
      units.flatMap(({ unit, profiles }) =>
        products[family].of(profiles).map((product) => ({
          family,
          unit,
          groups: product.groups,
          peers: product.ranges((classes) => table.space(family).ranges(classes)),
        })),
      ),
    );
    const rows: NumberedRow[] = [];
    for (const { 4: v4 = [], 6: v6 = [] } of similar(drafts)) {
      for (let i = 0; i < Math.max(v4.length, v6.length); i++) {
        rows.push(this.#row(families, leaves, { 4: v4[i], 6: v6[i] }, table));
      }
    }
    return sorted(rows);
  }

  /** The units of the way that makes fewer rows. */
  #fewest(products: Readonly<Record<Family, Products>>): readonly DividedUnits[] {
    const unitsOf = (family: Family): (readonly Unit[])[] =>
      [...this.#profiles[family].values()].map(({ units }) => units);
    const size = (way: readonly DividedUnits[]): number =>
      way.reduce((sum, { family, units }) => {
        return sum + units.reduce((rows, { profiles }) => rows + products[family].of(profiles).length, 0);
      }, 0);
    const first = FAMILIES.map((family) => ({ family, units: byPeer(unitsOf(family)) }));
    const second = FAMILIES.flatMap((family) => {
      const units = byService(unitsOf(family), this.#of.direction, family);
      return units === null ? [] : { family, units };
    });
    return second.length === FAMILIES.length && size(second) < size(first) ? second : first;
  }

  #row(
    families: readonly Family[],
    leaves: Leaves,
    drafts: Readonly<Record<Family, Draft | undefined>>,
    table: SetTable,
  ): NumberedRow {
    const { family, unit, groups } = drafts[4] ?? drafts[6] ?? NOTHING;
    const peers = { 4: drafts[4]?.peers ?? [], 6: drafts[6]?.peers ?? [] };
    const { kind, xs, ys } = unit;
    const destinations = (of: Family) => (ys === null ? null : table.destinationTexts(of, ys));
    const text: RangeText = (of, range) => table.space(of).text(range);
    const before = leaves.leaf(unit.before);
    const after = leaves.leaf(unit.after);
    const row: Row = {
      ...this.#of,
      peers: null,
      interfaceGroups: groups,
      protocols: protocolRanges(drafts, table.numbers),
      ports: kind === 'ports' ? xs : null,
      sourcePorts: kind === 'ports' ? ys : null,
      icmp: kind === 'icmp' ? { types: xs ?? [[0, 255]], codes: ys } : null,
      igmp: kind === 'igmp' ? { types: xs, groups: destinations(4) } : null,
      ...(kind === 'destination' ? { destinations: destinations(family) } : {}),
      before: before.verdict,
      after: after.verdict,
      ruleBefore: before.rule,
      ruleAfter: after.rule,
    };
    return withPeers({ row, peers }, peers, families, text);
  }
}

type RangeText = (family: Family, range: Interval) => string;

/** The row with other peers. */
export function withPeers(
  { row }: NumberedRow,
  peers: NumberedRow['peers'],
  families: readonly Family[],
  text: RangeText = addressRangeText,
): NumberedRow {
  const isEvery = families.every((family) => isEveryAddress(family, peers[family]));
  return { row: { ...row, peers: isEvery ? null : textsOf(peers, text) }, peers };
}

const NOTHING: Draft = {
  family: 4,
  unit: { before: 0, after: 0, kind: 'none', protocols: [], xs: null, ys: null },
  groups: null,
  peers: [],
};

/** Classes of addresses, each reached by the same link groups; null: all. */
interface Product {
  readonly groups: readonly Range[] | null;
  ranges(of: (classes: readonly Peers[]) => readonly Interval[]): readonly Interval[];
}

/** The peers of several profiles, as products. */
class Products {
  readonly #profiles: readonly Profile[];
  readonly #combinations: Combinations;
  readonly #groups: readonly Ranges[];
  readonly #known = new Map<string, readonly Product[]>();
  readonly #divided = new Map<number, DividedProfile>();
  /** The combination of all link groups. */
  readonly #every: number;

  constructor(profiles: readonly Profile[], combinations: Combinations, groups: readonly Ranges[]) {
    this.#profiles = profiles;
    this.#combinations = combinations;
    this.#groups = groups;
    this.#every = combinations.numberOf([...groups.keys()]);
  }

  of(profiles: readonly number[]): readonly Product[] {
    const key = profiles.join();
    const known = this.#known.get(key) ?? this.#make(profiles);
    this.#known.set(key, known);
    return known;
  }

  /** Joins the link groups of each class, then the classes with the same groups. */
  #make(profiles: readonly number[]): Product[] {
    return [...this.#byGroups(profiles)].map(([combination, classes]): Product => {
      const groups = unionRanges(
        this.#combinations.values(combination).flatMap((group) => this.#groups[group] ?? []),
      );
      let ranges: readonly Interval[] | null = null;
      return {
        groups: isEveryGroup(groups) ? null : groups,
        ranges(of) {
          ranges ??= of(classes);
          return ranges;
        },
      };
    });
  }

  #byGroups(profiles: readonly number[]): Map<number, Peers[]> {
    const divided = profiles.map((i) => this.#dividedProfile(i));
    const groupsOf = new Map<Peers, number>();
    for (const [one, groups] of divided.flatMap(({ some }) => some)) {
      const known = groupsOf.get(one);
      groupsOf.set(one, known === undefined ? groups : this.#combinations.union([known, groups]));
    }
    const byGroups = new Map<number, Peers[]>();
    const whole = divided.flatMap(({ whole: classes }) => classes);
    if (whole.length > 0) byGroups.set(this.#every, whole);
    for (const [one, groups] of groupsOf) addToList(byGroups, groups, one);
    return byGroups;
  }

  #dividedProfile(profile: number): DividedProfile {
    const known = this.#divided.get(profile);
    if (known !== undefined) return known;
    const peers = [...(this.#profiles[profile]?.peers ?? [])];
    const divided = {
      whole: peers.filter(([, groups]) => groups === this.#every).map(([one]) => one),
      some: peers.filter(([, groups]) => groups !== this.#every),
    };
    this.#divided.set(profile, divided);
    return divided;
  }
}

/** The peers of a profile. */
interface DividedProfile {
  /** Reached by all link groups: in no other profile. */
  readonly whole: readonly Peers[];
  readonly some: readonly (readonly [peers: Peers, groups: number])[];
}

/** Drafts that differ in peers and in the protocols of one family only, by family. */
function similar(drafts: readonly Draft[]): Iterable<Partial<Record<Family, Draft[]>>> {
  const found = new Map<string, Partial<Record<Family, Draft[]>>>();
  for (const draft of drafts.toSorted((a, b) =>
    compareBigInts(a.peers[0]?.first ?? 0n, b.peers[0]?.first ?? 0n),
  )) {
    const { family, unit, groups } = draft;
    const shared = unit.protocols.filter((protocol) => !OF_ONE_FAMILY.includes(protocol));
    const key = JSON.stringify([{ ...unit, protocols: shared }, groups]);
    const same = found.get(key) ?? {};
    found.set(key, same);
    const list = same[family];
    if (list === undefined) same[family] = [draft];
    else list.push(draft);
  }
  return found.values();
}

function isEveryGroup([only, ...others]: readonly Range[]): boolean {
  return others.length === 0 && only?.[0] === 0 && only[1] === LAST_LINK_GROUP;
}

function isEveryAddress(family: Family, [only, ...others]: readonly Interval[]): boolean {
  const last = lastAddress({ family, value: 0n, length: 0 });
  return others.length === 0 && only?.first === 0n && only.last === last;
}

/**
 * Null: all. A protocol that the families of the row do not have counts as its neighbours do, which
 * makes fewer ranges.
 */
function protocolRanges(
  drafts: Readonly<Record<Family, Draft | undefined>>,
  numbers: readonly number[],
): Range[] | null {
  const named = new Set([...(drafts[4]?.unit.protocols ?? []), ...(drafts[6]?.unit.protocols ?? [])]);
  const free: readonly number[] = [
    ...(drafts[4] === undefined ? [icmp, igmp] : []),
    ...(drafts[6] === undefined ? [icmpv6] : []),
  ];
  const isIn = (protocol: number): boolean =>
    (NUMBERED.includes(protocol) || numbers.includes(protocol)) &&
    !(named.has(OTHER) && free.includes(protocol))
      ? named.has(protocol)
      : named.has(OTHER);
  const ranges: Range[] = [];
  for (let protocol = 0; protocol < 256; protocol++)
    if (isIn(protocol)) appendRange(ranges, [protocol, protocol]);
  return ranges[0]?.[0] === 0 && ranges[0][1] === 255 ? null : ranges;
}

function textsOf(peers: NumberedRow['peers'], text: RangeText): string[] {
  return FAMILIES.flatMap((family) => peers[family].map((range) => text(family, range)));
}

/** By the first peer, then by everything else. */
function sorted(rows: readonly NumberedRow[]): NumberedRow[] {
  const first = ({ peers }: NumberedRow): bigint =>
    peers[4][0]?.first ?? (1n << 32n) + (peers[6][0]?.first ?? 0n);
  return rows
    .map((one) => ({ one, first: first(one), rest: JSON.stringify({ ...one.row, peers: null }) }))
    .sort((a, b) => compareBigInts(a.first, b.first) || compareText(a.rest, b.rest))
    .map(({ one }) => one);
}

/** Sets of small numbers, each set once, as numbers themselves. */
class Combinations {
  readonly #sets: (readonly number[])[] = [];
  readonly #numbers = new Map<string, number>();
  readonly #unions = new Map<string, number>();

  /** @param values in any order, each once */
  numberOf(values: readonly number[]): number {
    const sorted = values.toSorted((a, b) => a - b);
    const key = sorted.join();
    const known = this.#numbers.get(key) ?? this.#sets.push(sorted) - 1;
    this.#numbers.set(key, known);
    return known;
  }

  /** @param sets disjoint ones */
  union(sets: readonly number[]): number {
    const [first, ...others] = sets;
    if (first !== undefined && others.length === 0) return first;
    const key = sets.join();
    const known = this.#unions.get(key) ?? this.numberOf(sets.flatMap((set) => this.values(set)));
    this.#unions.set(key, known);
    return known;
  }

  values(set: number): readonly number[] {
    return this.#sets[set] ?? [];
  }
}
