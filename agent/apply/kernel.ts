import type { Netlink, Nftables, SetOperation, TableSnapshot } from 'nftables-napi';
import { BITS, type Cidr, type Family, WIDTH } from '../../apis/address.ts';
import { unpackAddress } from '../../apis/memberset.ts';
import { type ChainVerdict, TABLE } from '../render/ruleset.ts';
import type { HeldSet } from './held.ts';
import type { MapChange, MemberChange } from './transaction.ts';

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

/** The change of one set as netlink operations: deletes first, so that an address may move between a range and a single. */
export function toSetOperations(change: MemberChange): SetOperation[] {
  const { set, family, interval } = change;
  const where = { ...TABLE_OF, set, keyLength: WIDTH[family] };
  const operations: SetOperation[] = [];
  for (const op of ['delete', 'add'] as const) {
    const singles = op === 'add' ? change.addedSingles : change.removedSingles;
    const ranges = op === 'add' ? change.addedRanges : change.removedRanges;
    if (interval) {
      const all = Buffer.concat([doubled(singles, WIDTH[family]), ranges]);
      if (all.length > 0) operations.push({ ...where, op, ranges: all });
    } else if (singles.length > 0) operations.push({ ...where, op, keys: singles });
  }
  return operations;
}

/** The change of one port map; keys are ports in network byte order. */
export function toMapOperations({ map, removed, added }: MapChange): SetOperation[] {
  const where = { ...TABLE_OF, set: map, keyLength: 2 };
  const operations: SetOperation[] = [];
  if (removed.length > 0) operations.push({ ...where, op: 'delete', keys: packPorts(removed) });
  if (added.length > 0) {
    const verdicts = added.map(([, verdict]) => verdict);
    operations.push({ ...where, op: 'add', keys: packPorts(added.map(([port]) => port)), verdicts });
  }
  return operations;
}

/**
 * At most this many elements in one kernel transaction. A hash set grows by a deferred work of the kernel (lib/rhashtable.c): filled by one
 * transaction it stays small for long and its chains long. Measured: 100,000 addresses 0.2 to 1.4 s in one batch, 0.12 s in these.
 */
const BATCH_ELEMENTS = 8192;

/** The operations in order, as few batches as hold them: a small change is one, and atomic. */
export function toBatches(operations: readonly SetOperation[]): SetOperation[][] {
  const batches: SetOperation[][] = [];
  let room = 0;
  for (const operation of operations.flatMap(splitOperation)) {
    const count = elementCount(operation);
    if (count > room) {
      batches.push([]);
      room = BATCH_ELEMENTS;
    }
    batches.at(-1)?.push(operation);
    room -= count;
  }
  return batches;
}

function elementCount(operation: SetOperation): number {
  if (operation.op === 'flush') return 1;
  return 'keys' in operation
    ? operation.keys.length / operation.keyLength
    : operation.ranges.length / (2 * operation.keyLength);
}

function splitOperation(operation: SetOperation): SetOperation[] {
  const count = elementCount(operation);
  if (operation.op === 'flush' || count <= BATCH_ELEMENTS) return [operation];
  return Array.from({ length: Math.ceil(count / BATCH_ELEMENTS) }, (_, i) => {
    const from = i * BATCH_ELEMENTS;
    const to = Math.min(count, from + BATCH_ELEMENTS);
    const bytes = (packed: Uint8Array, width: number) => packed.subarray(from * width, to * width);
    const verdicts = operation.verdicts && { verdicts: operation.verdicts.slice(from, to) };
    return 'keys' in operation
      ? { ...operation, keys: bytes(operation.keys, operation.keyLength), ...verdicts }
      : { ...operation, ranges: bytes(operation.ranges, 2 * operation.keyLength), ...verdicts };
  });
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

/** What a set of ours holds. A range that is no prefix (a foreign one) is given as the prefix of its first address, so that it differs from what is desired. */
export async function readSet({ netlink }: Kernel, name: string, interval: boolean): Promise<HeldSet> {
  const found = await netlink.elements({ ...TABLE_OF, set: name });
  const family = familyOf(found?.keyLength);
  const nothing = { singles: new Uint8Array(), prefixes: [] };
  if (found === null || family === null) return { family: null, interval, members: nothing };
  if (!interval) return { family, interval, members: { singles: found.keys, prefixes: [] } };
  const singles: Uint8Array[] = [];
  const prefixes: Cidr[] = [];
  const width = WIDTH[family];
  for (let at = 0; at < found.ranges.length; at += 2 * width) {
    const first = unpackAddress(family, found.ranges, at).value;
    const last = unpackAddress(family, found.ranges, at + width).value;
    if (first === last) singles.push(found.ranges.subarray(at, at + width));
    else prefixes.push({ family, value: first, length: prefixLength(family, last - first) });
  }
  return { family, interval, members: { singles: Buffer.concat(singles), prefixes } };
}

function familyOf(keyLength: number | undefined): Family | null {
  return keyLength === WIDTH[4] ? 4 : keyLength === WIDTH[6] ? 6 : null;
}

function prefixLength(family: Family, spread: bigint): number {
  let free = 0;
  for (let rest = spread; rest > 0n; rest >>= 1n) free++;
  return BITS[family] - free;
}

/** The entries of a port map of ours; null where it is something else. */
export async function readPortMap(
  { netlink }: Kernel,
  name: string,
): Promise<Map<number, ChainVerdict> | null> {
  const found = await netlink.elements({ ...TABLE_OF, set: name });
  if (found === null || found.keyLength !== 2 || found.verdicts === undefined) return null;
  const entries = new Map<number, ChainVerdict>();
  for (const [i, verdict] of found.verdicts.entries()) {
    const port = ((found.keys[2 * i] ?? 0) << 8) | (found.keys[2 * i + 1] ?? 0);
    // A verdict that is no jump is not ours; as a jump to a chain that isn't there it differs from any desired one.
    entries.set(
      port,
      'chain' in verdict ? { kind: verdict.kind, chain: verdict.chain } : { kind: 'jump', chain: '' },
    );
  }
  return entries;
}
