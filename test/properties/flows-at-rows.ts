import type { Row } from '../../apis/difference/row.ts';
import { formatAddress, parseAddress } from '../../lib/net/address.ts';
import type { Range } from '../../lib/net/interval.ts';
import type { Random } from '../../perf/generate/random.ts';
import type { WholeFlow } from './whole-flow.ts';

/** Flows at the ends of rows, and one step outside: where an error of one would show. */
export function flowsAtRows(
  rows: readonly Row[],
  random: Random,
  families: readonly (4 | 6)[],
  most: number,
): WholeFlow[] {
  if (rows.length === 0 || families.length === 0) return [];
  const [first, ...others] = rows;
  return Array.from({ length: most }, () => {
    const row = first === undefined ? undefined : random.pick([first, ...others]);
    return row === undefined ? [] : (atRow(row, random, families) ?? []);
  }).flat();
}

function atRow(row: Row, random: Random, families: readonly (4 | 6)[]): WholeFlow | null {
  const [oneFamily = 4, ...otherFamilies] = families;
  const range = row.peers === null ? null : random.pick(row.peers as [string, ...string[]]);
  const end = parseAddress(range?.split('-')[random.below(2)] ?? '');
  const family = end?.family ?? random.pick([oneFamily, ...otherFamilies]);
  const peer = end === null ? anyAddress(family, random) : near(end.family, end.value, random);
  const protocol = atEnd(row.protocols, 0, 255, random);
  if (family === 4 ? protocol === 58 : protocol === 1 || protocol === 2) return null;
  const types = row.icmp?.types ?? row.igmp?.types ?? null;
  const group = row.igmp?.groups == null ? null : random.pick(row.igmp.groups as [string, ...string[]]);
  const groupEnd = parseAddress(group?.split('-')[random.below(2)] ?? '');
  return {
    direction: row.direction,
    traffic: row.traffic,
    family,
    peer,
    group: atEnd(row.interfaceGroups, 0, 2 ** 32 - 1, random),
    protocol,
    dstPort: atEnd(row.ports, 1, 65_535, random),
    srcPort: atEnd(row.sourcePorts, 1, 65_535, random),
    type: atEnd(types, 0, 255, random),
    code: atEnd(row.icmp?.codes ?? null, 0, 255, random),
    igmpGroup: groupEnd === null ? anyAddress(4, random) : near(4, groupEnd.value, random),
  };
}

/** As a rule inside of a range, at one of its ends; at times one step outside. */
function atEnd(ranges: readonly Range[] | null, least: number, most: number, random: Random): number {
  if (ranges === null) return least + random.below(most - least + 1);
  const [first, last] = random.pick(ranges as [Range, ...Range[]]);
  const value = random.pick([first, last, first, last, first - 1, last + 1]);
  return Math.min(most, Math.max(least, value));
}

function near(family: 4 | 6, value: bigint, random: Random): string {
  const last = (1n << (family === 4 ? 32n : 128n)) - 1n;
  const moved = value + random.pick([0n, 0n, 0n, 1n, -1n]);
  return formatAddress({ family, value: moved < 0n ? 0n : moved > last ? last : moved });
}

function anyAddress(family: 4 | 6, random: Random): string {
  const words = Array.from({ length: family === 4 ? 2 : 8 }, () => BigInt(random.below(65_536)));
  return formatAddress({ family, value: words.reduce((value, word) => (value << 16n) | word, 0n) });
}
