import { type Range, type Ranges, unionRanges } from '../../lib/net/interval.ts';
import { PROTOCOL_NUMBERS } from '../flow.ts';
import type { Direction } from '../objects.ts';
import { type Budget, partition, toggledAt } from './address-space.ts';
import type { Evaluated } from './entry.ts';
import { type Changed, type Comparing, changedFlows, isDistinct } from './first-match.ts';
import { NUMBERED, OTHER, protocolsOf, wholeBox } from './service-space.ts';

/** The meaning of the two numbers of a row's protocols; `none`: all flows of the protocols. */
type UnitKind = 'none' | 'ports' | 'icmp' | 'igmp' | 'destination';

/** Flows of one peer with the same two outcomes. */
export interface Unit {
  readonly before: number;
  readonly after: number;
  readonly kind: UnitKind;
  /** Sorted; OTHER stands for all others. */
  readonly protocols: readonly number[];
  /** Null: every value. */
  readonly xs: Ranges | null;
  readonly ys: Ranges | null;
}

const { icmp, igmp, icmpv6 } = PROTOCOL_NUMBERS;

/** The flows of one peer whose verdict differs. */
export function unitsOf(
  family: 4 | 6,
  direction: Direction,
  sides: readonly [Evaluated, Evaluated],
  comparing: Comparing,
): Unit[] {
  const changes = (protocol: number): Changed[] =>
    changedFlows(protocol, wholeBox(protocol, direction, family), sides, comparing);
  const others = changes(OTHER);
  const units = new UnitCollector(direction, family);
  for (const protocol of protocolsOf(family, sides[0].numbers)) {
    const isLikeOthers = !sides.some((side) => isDistinct(protocol, side));
    const { x, y } = wholeBox(protocol, direction, family);
    if (isLikeOthers) for (const change of others) units.add(protocol, { ...change, xs: [x], ys: [y] });
    else for (const change of changes(protocol)) units.add(protocol, change);
  }
  return units.all().map(({ unit }) => unit);
}

/** Joins the protocols with the same flows. */
class UnitCollector {
  readonly #direction: Direction;
  readonly #family: 4 | 6;
  readonly #found = new Map<string, { unit: Omit<Unit, 'protocols'>; protocols: number[]; tag: string }>();

  constructor(direction: Direction, family: 4 | 6) {
    this.#direction = direction;
    this.#family = family;
  }

  /** @param tag units with different ones are not joined */
  add(protocol: number, { before, after, xs, ys }: Changed, tag = ''): void {
    const whole = wholeBox(protocol, this.#direction, this.#family);
    const [isX, isY] = [isWhole(xs, whole.x), isWhole(ys, whole.y)];
    const unit = {
      before,
      after,
      kind: isX && isY ? ('none' as const) : kindOf(protocol),
      xs: isX ? null : xs,
      ys: isY ? null : ys,
    };
    const key = JSON.stringify([unit, tag]);
    const known = this.#found.get(key);
    if (known === undefined) this.#found.set(key, { unit, protocols: [protocol], tag });
    else known.protocols.push(protocol);
  }

  all(): { readonly unit: Unit; readonly tag: string }[] {
    return [...this.#found.values()].map(({ unit, protocols, tag }) => ({
      unit: { ...unit, protocols },
      tag,
    }));
  }
}

function isWhole([only, ...others]: Ranges, [first, last]: readonly [number, number]): boolean {
  return others.length === 0 && only?.[0] === first && only[1] === last;
}

function kindOf(protocol: number): UnitKind {
  if (protocol === icmp || protocol === icmpv6) return 'icmp';
  if (protocol === igmp) return 'igmp';
  return NUMBERED.includes(protocol) ? 'ports' : 'destination';
}

/** A unit, and the profiles (lists of units) in which its flows are, by index. */
export interface UnitOfProfiles {
  readonly unit: Unit;
  readonly profiles: readonly number[];
}

/** The units of all profiles; the profiles in which each is. */
export function byPeer(profiles: readonly (readonly Unit[])[]): UnitOfProfiles[] {
  const found = new Map<string, { readonly unit: Unit; readonly profiles: number[] }>();
  for (const [i, units] of profiles.entries()) {
    for (const unit of units) {
      const key = JSON.stringify(unit);
      const known = found.get(key);
      if (known === undefined) found.set(key, { unit, profiles: [i] });
      else known.profiles.push(i);
    }
  }
  return [...found.values()];
}

/** The flows of a protocol in a profile. */
interface Area {
  readonly profile: number;
  readonly xs: Ranges;
  readonly ys: Ranges;
}

/**
 * Profiles in all parts together; with more, the rows have so many peers that nobody reads them.
 */
const MOST_IN_PARTS = 1_000_000;

/**
 * The same flows, divided by protocol and port first: all flows with the same profiles make one
 * unit. Fewer where many peers differ in a few ports each. Null: it would be too much work, which
 * is quadratic where each profile has other ports.
 */
export function byService(
  profiles: readonly (readonly Unit[])[],
  direction: Direction,
  family: 4 | 6,
): UnitOfProfiles[] | null {
  const wholes = new Map<number, { readonly xs: Ranges; readonly ys: Ranges }>();
  /** The same ones each time: `parts` is quick where they are the only ones. */
  const wholeOf = (protocol: number) => {
    const { x, y } = wholeBox(protocol, direction, family);
    const whole = wholes.get(protocol) ?? { xs: [x], ys: [y] };
    wholes.set(protocol, whole);
    return whole;
  };
  const pairs = new Map<string, { before: number; after: number; areas: Map<number, Area[]> }>();
  for (const [profile, units] of profiles.entries()) {
    for (const { before, after, protocols, xs, ys } of units) {
      const key = `${before} ${after}`;
      const pair = pairs.get(key) ?? { before, after, areas: new Map() };
      pairs.set(key, pair);
      for (const protocol of protocols) {
        const whole = wholeOf(protocol);
        const areas = pair.areas.get(protocol) ?? [];
        pair.areas.set(protocol, areas);
        areas.push({ profile, xs: xs ?? whole.xs, ys: ys ?? whole.ys });
      }
    }
  }
  const units = new UnitCollector(direction, family);
  const budget = { left: MOST_IN_PARTS };
  for (const { before, after, areas } of pairs.values()) {
    for (const [protocol, own] of areas) {
      const found = divided(own, budget);
      if (budget.left < 0) return null;
      for (const { xs, ys, profiles: among } of found) {
        units.add(protocol, { before, after, xs, ys }, among.join());
      }
    }
  }
  return units.all().map(({ unit, tag }) => ({ unit, profiles: tag.split(',').map(Number) }));
}

/** Divides the first number by the areas there, then the second. */
function divided(
  areas: readonly Area[],
  budget: Budget,
): { xs: Ranges; ys: Ranges; profiles: readonly number[] }[] {
  const lists = areas.map(({ xs }) => xs);
  return parts(lists, budget).flatMap(({ ranges: xs, within }) => {
    const here = within.flatMap((i) => areas[i] ?? []);
    const others = here.map(({ ys }) => ys);
    return parts(others, budget).map(({ ranges: ys, within: own }) => ({
      xs,
      ys,
      profiles: own.map((i) => here[i]?.profile ?? 0).sort((a, b) => a - b),
    }));
  });
}

/** The numbers that are within the same lists of ranges. */
function parts(lists: readonly Ranges[], budget: Budget): { ranges: Ranges; within: readonly number[] }[] {
  const [first] = lists;
  if (first === undefined) return [];
  if (lists.every((one) => one === first)) {
    budget.left -= lists.length;
    return [{ ranges: first, within: [...lists.keys()] }];
  }
  const ends = endsOf(lists);
  const cuts = ends.at.toSorted().filter((one, i, sorted) => one !== sorted[i - 1]);
  return partition(toggledAt(cuts, ends), { budget })
    .filter(({ sets }) => sets.length > 0)
    .map(({ sets, pieces }) => ({
      within: sets,
      ranges: unionRanges(pieces.map((i): Range => [cuts[i] ?? 0, (cuts[i + 1] ?? 0) - 1])),
    }));
}

/** Packed: of thousands of profiles, these are the most numbers of a comparison. */
function endsOf(lists: readonly Ranges[]): { readonly at: Float64Array; readonly sets: Uint32Array } {
  const count = lists.reduce((sum, ranges) => sum + 2 * ranges.length, 0);
  const at = new Float64Array(count);
  const sets = new Uint32Array(count);
  let next = 0;
  for (const [set, ranges] of lists.entries()) {
    for (const [first, last] of ranges) {
      sets[next] = set;
      at[next++] = first;
      sets[next] = set;
      at[next++] = last + 1;
    }
  }
  return { at, sets };
}
