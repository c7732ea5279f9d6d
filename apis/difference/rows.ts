import { FAMILIES, type Family, formatAddress, lastAddress } from '../../lib/net/address.ts';
import type { Interval } from '../../lib/net/interval.ts';
import type { Direction, PolicyTraffic } from '../objects.ts';
import { PROTOCOL_NUMBERS } from '../protocols.ts';
import type { AddressClass } from './address-space.ts';
import type { Leaves } from './leaves.ts';
import { joined, type Ranges } from './ranges.ts';
import type { Range, Row } from './row.ts';
import { NUMBERED, OTHER } from './service-space.ts';
import type { SetTable } from './set-table.ts';
import type { Unit } from './units.ts';

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
  readonly unit: Unit;
  readonly groups: readonly Range[] | null;
  readonly peers: readonly Interval[];
}

interface Found {
  readonly unit: Unit;
  readonly byClass: Map<AddressClass, Ranges[]>;
}

/** Collects units of one direction and kind of traffic, and joins equal ones into rows. */
export class RowCollector {
  readonly #of: { readonly direction: Direction; readonly traffic: PolicyTraffic };
  readonly #found: Readonly<Record<Family, Map<string, Found>>> = { 4: new Map(), 6: new Map() };

  constructor(direction: Direction, traffic: PolicyTraffic) {
    this.#of = { direction, traffic };
  }

  /** @param groups the link groups by which the peer is reached */
  add(family: Family, unit: Unit, peers: AddressClass, groups: Ranges): void {
    const key = JSON.stringify(unit);
    const found = this.#found[family].get(key) ?? { unit, byClass: new Map() };
    this.#found[family].set(key, found);
    const list = found.byClass.get(peers);
    if (list === undefined) found.byClass.set(peers, [groups]);
    else list.push(groups);
  }

  /** @param families those of the Node */
  rows(families: readonly Family[], table: SetTable, leaves: Leaves): NumberedRow[] {
    const rows: NumberedRow[] = [];
    for (const { 4: v4 = [], 6: v6 = [] } of this.#drafts(table)) {
      for (let i = 0; i < Math.max(v4.length, v6.length); i++) {
        rows.push(this.#row(families, leaves, { 4: v4[i], 6: v6[i] }));
      }
    }
    return rows.sort((a, b) => compareRows(a, b));
  }

  /** The drafts that differ in peers and in the protocols of one family only. */
  #drafts(table: SetTable): Iterable<Partial<Record<Family, Draft[]>>> {
    const similar = new Map<string, Partial<Record<Family, Draft[]>>>();
    for (const family of FAMILIES) {
      for (const draft of draftsOf(this.#found[family].values(), (classes) =>
        table.space(family).ranges(classes),
      )) {
        const { unit, groups } = draft;
        const shared = unit.protocols.filter((protocol) => !OF_ONE_FAMILY.includes(protocol));
        const key = JSON.stringify([{ ...unit, protocols: shared }, groups]);
        const same = similar.get(key) ?? {};
        similar.set(key, { ...same, [family]: [...(same[family] ?? []), draft] });
      }
    }
    return similar.values();
  }

  #row(
    families: readonly Family[],
    leaves: Leaves,
    drafts: Readonly<Record<Family, Draft | undefined>>,
  ): NumberedRow {
    const { unit, groups } = drafts[4] ?? drafts[6] ?? NOTHING;
    const peers = { 4: drafts[4]?.peers ?? [], 6: drafts[6]?.peers ?? [] };
    const { kind, xs, ys } = unit;
    const before = leaves.leaf(unit.before);
    const after = leaves.leaf(unit.after);
    const row: Row = {
      ...this.#of,
      peers: families.every((family) => isEveryAddress(family, peers[family])) ? null : textOf(peers),
      interfaceGroups: groups,
      protocols: protocolRanges(drafts),
      ports: kind === 'ports' ? xs : null,
      sourcePorts: kind === 'ports' ? ys : null,
      icmp: kind === 'icmp' ? { types: xs ?? [[0, 255]], codes: ys } : null,
      igmp: kind === 'igmp' ? { types: xs, groups: ys?.map(ipv4Text) ?? null } : null,
      before: before.verdict,
      after: after.verdict,
      ruleBefore: before.rule,
      ruleAfter: after.rule,
    };
    return { row, peers };
  }
}

const NOTHING: Draft = {
  unit: { before: 0, after: 0, kind: 'none', protocols: [], xs: null, ys: null },
  groups: null,
  peers: [],
};

/** Joins the link groups of each class, then the classes with the same groups. */
function draftsOf(
  all: Iterable<Found>,
  rangesOf: (classes: readonly AddressClass[]) => readonly Interval[],
): Draft[] {
  const drafts: Draft[] = [];
  for (const { unit, byClass } of all) {
    const byGroups = Map.groupBy(byClass, ([, groups]) => JSON.stringify(joined(groups.flat())));
    for (const [text, members] of byGroups) {
      const groups = JSON.parse(text) as Range[];
      const peers = rangesOf(members.map(([one]) => one));
      drafts.push({ unit, groups: isEveryGroup(groups) ? null : groups, peers });
    }
  }
  return drafts.sort((a, b) => compare(a.peers[0]?.first ?? 0n, b.peers[0]?.first ?? 0n));
}

export const LAST_GROUP = 2 ** 32 - 1;

function isEveryGroup([only, ...others]: readonly Range[]): boolean {
  return others.length === 0 && only?.[0] === 0 && only[1] === LAST_GROUP;
}

function isEveryAddress(family: Family, [only, ...others]: readonly Interval[]): boolean {
  const last = lastAddress({ family, value: 0n, length: 0 });
  return others.length === 0 && only?.first === 0n && only.last === last;
}

/**
 * Null: all. A protocol that the families of the row do not have counts as its neighbours do, which
 * makes fewer ranges.
 */
function protocolRanges(drafts: Readonly<Record<Family, Draft | undefined>>): Range[] | null {
  const named = new Set([...(drafts[4]?.unit.protocols ?? []), ...(drafts[6]?.unit.protocols ?? [])]);
  const free: readonly number[] = [
    ...(drafts[4] === undefined ? [icmp, igmp] : []),
    ...(drafts[6] === undefined ? [icmpv6] : []),
  ];
  const isIn = (protocol: number): boolean =>
    NUMBERED.includes(protocol) && !(named.has(OTHER) && free.includes(protocol))
      ? named.has(protocol)
      : named.has(OTHER);
  const all = Array.from({ length: 256 }, (_, protocol): Range => [protocol, protocol]);
  const ranges = joined(all.filter(([protocol]) => isIn(protocol)));
  return ranges[0]?.[0] === 0 && ranges[0][1] === 255 ? null : ranges;
}

function textOf(peers: NumberedRow['peers']): string[] {
  return FAMILIES.flatMap((family) =>
    peers[family].map(({ first, last }) => {
      return `${formatAddress({ family, value: first })}-${formatAddress({ family, value: last })}`;
    }),
  );
}

function ipv4Text([first, last]: Range): string {
  const text = (value: number): string => formatAddress({ family: 4, value: BigInt(value) });
  return `${text(first)}-${text(last)}`;
}

function compareRows(a: NumberedRow, b: NumberedRow): number {
  const first = ({ peers }: NumberedRow): bigint =>
    peers[4][0]?.first ?? (1n << 32n) + (peers[6][0]?.first ?? 0n);
  const rest = ({ row }: NumberedRow): string => JSON.stringify(row);
  return compare(first(a), first(b)) || compare(rest(a), rest(b));
}

function compare<T extends bigint | string>(a: T, b: T): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
