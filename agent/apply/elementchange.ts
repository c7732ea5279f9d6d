import { type Cidr, lastAddress } from '../../apis/address.ts';
import { diffSingles, packAddress, sameMembers } from '../../apis/memberset.ts';
import { type ChainVerdict, KEY_LENGTH, type NamedSet, type PortMap } from '../render/ruleset.ts';
import type { HeldMap, HeldSet } from './held.ts';

/** Elements to add to and delete from one set; ranges are packed pairs of first and last address. */
export interface MemberChange {
  readonly set: string;
  /** All elements go before any is added. */
  readonly flush: boolean;
  /** Bytes of one key. */
  readonly keyLength: number;
  readonly interval: boolean;
  readonly addedSingles: Uint8Array;
  readonly removedSingles: Uint8Array;
  readonly addedRanges: Uint8Array;
  readonly removedRanges: Uint8Array;
}

/** Elements to delete from and to add to one port map; a port in both is replaced. */
export interface MapChange {
  readonly map: string;
  /** All elements go before any is added. */
  readonly flush: boolean;
  readonly removed: readonly number[];
  readonly added: readonly (readonly [number, ChainVerdict])[];
}

/** Null where the set holds just its members. */
export function memberChange(held: HeldSet | undefined, set: NamedSet): MemberChange | null {
  const { interval, members } = set;
  const keyLength = KEY_LENGTH[set.key][set.family];
  if (held?.members && sameMembers(held.members, members)) return null;
  const flush = held?.members === null;
  const singles = diffSingles(keyLength, held?.members?.singles ?? new Uint8Array(), members.singles);
  const before = held?.members?.prefixes ?? [];
  const has = (list: readonly Cidr[]) => {
    const keys = new Set(list.map((cidr) => `${cidr.value}/${cidr.length}`));
    return (cidr: Cidr) => keys.has(`${cidr.value}/${cidr.length}`);
  };
  const wasThere = has(before);
  const isThere = has(members.prefixes);
  const addedRanges = packRanges(members.prefixes.filter((cidr) => !wasThere(cidr)));
  const removedRanges = packRanges(before.filter((cidr) => !isThere(cidr)));
  const count = singles.added.length + singles.removed.length + addedRanges.length + removedRanges.length;
  if (count === 0 && !flush) return null;
  return {
    set: set.name,
    flush,
    keyLength,
    interval,
    addedSingles: singles.added,
    removedSingles: singles.removed,
    addedRanges,
    removedRanges,
  };
}

function packRanges(cidrs: readonly Cidr[]): Uint8Array {
  return Buffer.concat(
    cidrs.flatMap((cidr) => [
      packAddress(cidr),
      packAddress({ family: cidr.family, value: lastAddress(cidr) }),
    ]),
  );
}

/**
 * A map that is there under its name has the same content; it differs only where chains it leads to were moved aside (or somebody changed
 * it), so setting it right in place, before the swap, changes no verdict.
 */
export function mapChange(held: HeldMap | undefined, map: PortMap): MapChange | null {
  if (held?.known) return null;
  const flush = held?.entries === null;
  const before = held?.entries ?? new Map<number, ChainVerdict>();
  const differs = (
    [port, verdict]: readonly [number, ChainVerdict],
    other: ReadonlyMap<number, ChainVerdict>,
  ) => other.get(port)?.chain !== verdict.chain || other.get(port)?.kind !== verdict.kind;
  const removed = [...before].filter((entry) => differs(entry, map.entries)).map(([port]) => port);
  const added = [...map.entries].filter((entry) => differs(entry, before));
  return removed.length + added.length === 0 && !flush ? null : { map: map.name, flush, removed, added };
}
