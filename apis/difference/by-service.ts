import type { Direction } from '../objects.ts';
import { partition } from './partition.ts';
import { joined, type Ranges } from './ranges.ts';
import type { Range } from './row.ts';
import { wholeBox } from './service-space.ts';
import { type Unit, UnitCollector } from './units.ts';

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
 * The same flows, divided by protocol and port first: all flows with the same profiles make one
 * unit. Fewer where many peers differ in a few ports each.
 */
export function byService(profiles: readonly (readonly Unit[])[], direction: Direction): UnitOfProfiles[] {
  const pairs = new Map<string, { before: number; after: number; areas: Map<number, Area[]> }>();
  for (const [profile, units] of profiles.entries()) {
    for (const { before, after, protocols, xs, ys } of units) {
      const key = `${before} ${after}`;
      const pair = pairs.get(key) ?? { before, after, areas: new Map() };
      pairs.set(key, pair);
      for (const protocol of protocols) {
        const whole = wholeBox(protocol, direction);
        const areas = pair.areas.get(protocol) ?? [];
        pair.areas.set(protocol, areas);
        areas.push({ profile, xs: xs ?? [whole.x], ys: ys ?? [whole.y] });
      }
    }
  }
  const units = new UnitCollector(direction);
  for (const { before, after, areas } of pairs.values()) {
    for (const [protocol, own] of areas) {
      for (const { xs, ys, profiles: among } of divided(own)) {
        units.add(protocol, { before, after, xs, ys }, among.join());
      }
    }
  }
  return units.all().map(({ unit, tag }) => ({ unit, profiles: tag.split(',').map(Number) }));
}

/** Divides the first number by the areas there, then the second. */
function divided(areas: readonly Area[]): { xs: Ranges; ys: Ranges; profiles: readonly number[] }[] {
  return parts(areas.map(({ xs }) => xs)).flatMap(({ ranges: xs, within }) => {
    const here = within.flatMap((i) => areas[i] ?? []);
    return parts(here.map(({ ys }) => ys)).map(({ ranges: ys, within: own }) => ({
      xs,
      ys,
      profiles: own.map((i) => here[i]?.profile ?? 0).sort((a, b) => a - b),
    }));
  });
}

/** The numbers that are within the same lists of ranges. */
function parts(lists: readonly Ranges[]): { ranges: Ranges; within: readonly number[] }[] {
  const ends = lists.flatMap((ranges) => ranges.flatMap(([first, last]) => [first, last + 1]));
  const cuts = [...new Set(ends)].sort((a, b) => a - b);
  const index = new Map(cuts.map((cut, i) => [cut, i]));
  const toggled: number[][] = cuts.map(() => []);
  for (const [list, ranges] of lists.entries()) {
    for (const [first, last] of ranges) {
      for (const cut of [first, last + 1]) toggled[index.get(cut) ?? -1]?.push(list);
    }
  }
  return partition(toggled)
    .filter(({ sets }) => sets.length > 0)
    .map(({ sets, pieces }) => ({
      within: sets,
      ranges: joined(pieces.map((i): Range => [cuts[i] ?? 0, (cuts[i + 1] ?? 0) - 1])),
    }));
}
