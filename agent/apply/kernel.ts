import type { Netlink, Nftables, SetOperation, TableSnapshot } from 'nftables-napi';
import { BITS, type Cidr, type Family, WIDTH } from '../../apis/address.ts';
import { toCidrs } from '../../apis/interval.ts';
import { unpackAddress } from '../../apis/memberset.ts';
import { type ChainVerdict, KEY_LENGTH, type NamedSet, TABLE } from '../render/ruleset.ts';
import type { MapChange, MemberChange } from './elementchange.ts';
import type { HeldMap, HeldSet } from './held.ts';
import type { Transaction } from './transaction.ts';

/** The part of nftables-napi that the reconciler uses; tests put a fake in its place. */
export type NftCommands = Pick<Nftables, 'run' | 'check'>;
export type NftSockets = Pick<Netlink, 'batch' | 'elements' | 'snapshot'>;

export interface Kernel {
  readonly commands: NftCommands;
  readonly netlink: NftSockets;
}

const TABLE_OF = { family: TABLE.family, table: TABLE.name } as const;

export function readTable({ netlink }: Kernel): Promise<TableSnapshot | null> {
  return netlink.snapshot(TABLE.family, TABLE.name);
}

/** Operations that must be in one batch, in order. */
type Unit = readonly SetOperation[];

/**
 * The changes as batches, each one kernel transaction; a small change of everything is one. At most so many elements in one: a hash set grows by
 * a deferred work of the kernel (lib/rhashtable.c), and filled by one transaction it stays small for long and its chains long. Measured: 100,000
 * addresses 0.2 to 1.4 s in one batch, 0.12 s in these. What replaces something is never cut in two.
 */
export function toBatches({ members, maps }: Pick<Transaction, 'members' | 'maps'>): SetOperation[][] {
  const batches: SetOperation[][] = [];
  let room = 0;
  for (const unit of [...members.flatMap(memberUnits), ...maps.map(mapUnit)]) {
    const count = unit.reduce((sum, operation) => sum + elementCount(operation), 0);
    if (count > room || batches.length === 0) {
      batches.push([]);
      room = BATCH_ELEMENTS;
    }
    batches.at(-1)?.push(...unit);
    room -= count;
  }
  return batches;
}

const BATCH_ELEMENTS = 8192;

/** The change of one set: what only adds, or only deletes, single addresses may be cut; the rest stays together. */
function memberUnits(change: MemberChange): Unit[] {
  const { set, keyLength, interval, flush } = change;
  const where = { ...TABLE_OF, set, keyLength };
  const singles = (op: 'add' | 'delete', packed: Uint8Array): SetOperation[] => {
    if (packed.length === 0) return [];
    return [interval ? { ...where, op, ranges: doubled(packed, keyLength) } : { ...where, op, keys: packed }];
  };
  const ranges = (op: 'add' | 'delete', packed: Uint8Array): SetOperation[] =>
    packed.length === 0 ? [] : [{ ...where, op, ranges: packed }];
  const deletes = [...singles('delete', change.removedSingles), ...ranges('delete', change.removedRanges)];
  const adds = [...ranges('add', change.addedRanges), ...singles('add', change.addedSingles)];
  const whole: SetOperation[] = flush ? [{ ...TABLE_OF, op: 'flush', set }] : [];
  const movesPrefixes = change.removedRanges.length > 0;
  return flush || movesPrefixes ? [[...whole, ...deletes, ...adds]] : [...deletes, ...adds].flatMap(cut);
}

function cut(operation: SetOperation): Unit[] {
  const count = elementCount(operation);
  if (operation.op === 'flush' || count <= BATCH_ELEMENTS) return [[operation]];
  return Array.from({ length: Math.ceil(count / BATCH_ELEMENTS) }, (_, i) => {
    const part = (packed: Uint8Array, width: number) =>
      packed.subarray(i * BATCH_ELEMENTS * width, (i + 1) * BATCH_ELEMENTS * width);
    return 'keys' in operation
      ? [{ ...operation, keys: part(operation.keys, operation.keyLength) }]
      : [{ ...operation, ranges: part(operation.ranges, 2 * operation.keyLength) }];
  });
}

function elementCount(operation: SetOperation): number {
  if (operation.op === 'flush') return 1;
  return 'keys' in operation
    ? operation.keys.length / operation.keyLength
    : operation.ranges.length / (2 * operation.keyLength);
}

/** The change of one port map; keys are ports in network byte order. A port that gets another verdict is deleted and added. */
function mapUnit({ map, flush, removed, added }: MapChange): Unit {
  const where = { ...TABLE_OF, set: map, keyLength: 2 };
  const operations: SetOperation[] = flush ? [{ ...TABLE_OF, op: 'flush', set: map }] : [];
  if (removed.length > 0) operations.push({ ...where, op: 'delete', keys: packPorts(removed) });
  if (added.length > 0) {
    const verdicts = added.map(([, verdict]) => verdict);
    operations.push({ ...where, op: 'add', keys: packPorts(added.map(([port]) => port)), verdicts });
  }
  return operations;
}

function packPorts(ports: readonly number[]): Uint8Array {
  const packed = Buffer.alloc(2 * ports.length);
  for (const [i, port] of ports.entries()) packed.writeUInt16BE(port, 2 * i);
  return packed;
}

/** A single address in an interval set is a range with one address. */
function doubled(singles: Uint8Array, width: number): Uint8Array {
  const ranges = new Uint8Array(singles.length * 2);
  for (let at = 0; at < singles.length; at += width) {
    const key = singles.subarray(at, at + width);
    ranges.set(key, 2 * at);
    ranges.set(key, 2 * at + width);
  }
  return ranges;
}

/** What a set of ours holds. */
export async function readSet({ netlink }: Kernel, name: string, interval: boolean): Promise<HeldSet> {
  const found = await netlink.elements({ ...TABLE_OF, set: name });
  const kind = kindOf(found?.keyLength);
  if (found === null || kind === null) return { family: null, key: 'address', interval, members: null };
  if (found.hasCatchAll) return { ...kind, interval, members: null };
  if (!interval) return { ...kind, interval, members: { singles: found.keys, prefixes: [] } };
  const members = kind.key === 'address' ? toSinglesAndPrefixes(kind.family, found.ranges) : null;
  return { ...kind, interval, members };
}

/** Null where a range is no prefix: no set of ours has one. */
function toSinglesAndPrefixes(family: Family, ranges: Uint8Array): HeldSet['members'] {
  const singles: Uint8Array[] = [];
  const prefixes: Cidr[] = [];
  const width = WIDTH[family];
  for (let at = 0; at < ranges.length; at += 2 * width) {
    const first = unpackAddress(family, ranges, at).value;
    const last = unpackAddress(family, ranges, at + width).value;
    const [cidr, ...others] = toCidrs(family, { first, last });
    if (cidr === undefined || others.length > 0) return null;
    if (cidr.length === BITS[family]) singles.push(ranges.subarray(at, at + width));
    else prefixes.push(cidr);
  }
  return { singles: Buffer.concat(singles), prefixes };
}

/** Keys of each kind have their own length. */
function kindOf(keyLength: number | undefined): Pick<NamedSet, 'key' | 'family'> | null {
  for (const key of ['address', 'service'] as const) {
    for (const family of [4, 6] as const) if (KEY_LENGTH[key][family] === keyLength) return { key, family };
  }
  return null;
}

/** What a map of ours holds. */
export async function readMap({ netlink }: Kernel, name: string): Promise<HeldMap> {
  const found = await netlink.elements({ ...TABLE_OF, set: name });
  if (found?.keyLength !== 2 || found.verdicts === undefined) return { isPortMap: false, entries: null };
  const entries = new Map<number, ChainVerdict>();
  for (const [i, verdict] of found.verdicts.entries()) {
    if (!('chain' in verdict)) return { isPortMap: true, entries: null };
    const port = ((found.keys[2 * i] ?? 0) << 8) | (found.keys[2 * i + 1] ?? 0);
    entries.set(port, { kind: verdict.kind, chain: verdict.chain });
  }
  return { isPortMap: true, entries: found.hasCatchAll ? null : entries };
}
