import { type Binding, requireInteger, requireName, type TableFamily, toFamilyNumber } from './binding.ts';
import { type MapVerdict, toVerdictTable } from './expression.ts';
import { putVerdict } from './put-expression.ts';
import type { RecordWriter } from './record.ts';
import { putStructure, type StructureOperation } from './structure.ts';

/** A set or map of a table. */
export interface SetName {
  family: TableFamily;
  table: string;
  set: string;
}

/** The set that an operation changes. */
export interface OperationTarget extends SetName {
  /**
   * The `id` of a set created earlier in the same batch. The kernel then looks up the id, not the
   * name, which only serves messages. By id it finds the newest set at once (6.12 and newer; older
   * kernels search the batch so far); by name, the time grows with the number of sets.
   */
  setId?: number;
}

/**
 * Adds or deletes single keys. Only for sets without the interval flag: in an interval set, a
 * single key would be a range without an end (use `ranges`).
 */
export interface KeysOperation extends OperationTarget {
  op: 'add' | 'delete';
  /**
   * Length of a key in bytes, 1 to 64: 4 for ipv4_addr, 16 for ipv6_addr, 2 for inet_service. Each
   * field of a concatenation is padded to a multiple of 4.
   */
  keyLength: number;
  /** Concatenated keys in network byte order, in any order. */
  keys: Uint8Array;
  /**
   * For a verdict map: one per key, or with `verdictOf` each distinct one. Not needed to delete.
   */
  verdicts?: readonly MapVerdict[];
  /** For each key an index into `verdicts`. */
  verdictOf?: Uint32Array;
  /**
   * To add to a set with `timeout`: after how many milliseconds from now each key ends. Not with
   * `verdicts`.
   */
  timeouts?: readonly number[];
}

/**
 * Adds or deletes ranges of an interval set. A range must be deleted as it was added: a part of one
 * is ENOENT.
 */
export interface RangesOperation extends OperationTarget {
  op: 'add' | 'delete';
  /** As in KeysOperation. */
  keyLength: number;
  /**
   * Pairs of first and last key, both inclusive, in network byte order. They may be adjacent, but
   * not overlap.
   */
  ranges: Uint8Array;
  /**
   * For a verdict map: one per range, or with `verdictOf` each distinct one. Not needed to delete.
   */
  verdicts?: readonly MapVerdict[];
  /** For each range an index into `verdicts`. */
  verdictOf?: Uint32Array;
  /**
   * The set's key is a concatenation: an element has a range per field, with a key and a closing
   * key. Default false.
   */
  concatenated?: boolean;
  /**
   * These are all ranges of a new set, sorted: write them as libnftables writes an anonymous set,
   * with an end element before the first. Default false.
   */
  whole?: boolean;
}

/** Deletes all elements of a set. */
export interface FlushOperation extends OperationTarget {
  op: 'flush';
}

/**
 * Changes elements. Adding an existing element (with the same verdict) is no error; deleting a
 * missing one is ENOENT, also one that has ended. An element that is there keeps its timeout
 * (before Linux 6.12): delete and add it in one batch.
 */
export type SetOperation = KeysOperation | RangesOperation | FlushOperation;

/** One step of a batch. */
export type BatchOperation = SetOperation | StructureOperation;

// linux/netfilter/nf_tables.h and linux/netlink.h.
const NFT_MSG_NEWSETELEM = 12;
const NFT_MSG_DELSETELEM = 14;
const NLM_F_CREATE = 0x400;
const NFTA_SET_ELEM_DATA = 2;
const NFTA_SET_ELEM_TIMEOUT = 4;
/** A bound against mistakes in units: a week, in milliseconds. */
const LONGEST_TIMEOUT = 7 * 86_400_000;

/**
 * Writes the operation as a record. Throws a TypeError or RangeError for values that no kernel
 * could take.
 */
export function putOperation(
  to: RecordWriter,
  operation: BatchOperation,
  index: number,
  binding: Binding,
): void {
  switch (operation.op) {
    case 'add':
    case 'delete':
      putElements(to, operation, index, binding);
      break;
    case 'flush':
      begin(to, operation, index, binding);
      to.end();
      break;
    default:
      putStructure(to, operation, index, binding);
  }
}

/** A short description of the operation, for errors. */
export function describeOperation(operation: BatchOperation): string {
  const { op, family, table } = operation;
  const what = 'chain' in operation ? operation.chain : 'set' in operation ? operation.set : '';
  const renamed = op === 'renameChain' ? `handle ${operation.handle} to ${operation.to}` : '';
  return [op, family, table, what, renamed].filter((word) => word).join(' ');
}

function begin(to: RecordWriter, operation: SetOperation, index: number, binding: Binding): void {
  const { op, table, set, setId } = operation;
  const family = toFamilyNumber(operation.family, binding);
  requireName(table, 'table');
  requireName(set, 'set');
  // Adding an existing element is no error, as with nft's `add element`; NLM_F_EXCL would make it
  // one.
  to.begin({
    operation: index,
    message: op === 'add' ? NFT_MSG_NEWSETELEM : NFT_MSG_DELSETELEM,
    flags: op === 'add' ? NLM_F_CREATE : 0,
    family,
  });
  to.text(1, table);
  // Not both: if the message has a name, the kernel looks that up first, in the list of all sets.
  if (setId === undefined) to.text(2, set);
  else to.u32(4, setId);
}

function putElements(
  to: RecordWriter,
  operation: KeysOperation | RangesOperation,
  index: number,
  binding: Binding,
): void {
  const { keyLength, verdicts } = operation;
  if (!Number.isInteger(keyLength) || keyLength < 1 || keyLength > 64) {
    throw new RangeError(`keyLength must be 1 to 64 bytes, not ${keyLength}`);
  }
  const isRanges = 'ranges' in operation;
  const data = isRanges ? operation.ranges : operation.keys;
  if (!(data instanceof Uint8Array)) throw new TypeError('keys or ranges must be a Uint8Array');
  const width = keyLength * (isRanges ? 2 : 1);
  if (data.length % width !== 0) {
    throw new RangeError(
      `${data.length} bytes are not a multiple of ${width}, the length of one ${isRanges ? 'range' : 'key'}`,
    );
  }
  const count = data.length / width;
  const table = verdicts && toVerdictTable(verdicts, operation.verdictOf, count);
  const timeouts = isRanges || operation.op === 'delete' ? undefined : operation.timeouts;
  if (timeouts !== undefined) requireTimeouts(timeouts, count, verdicts !== undefined);
  begin(to, operation, index, binding);
  to.end({
    shape: isRanges ? (operation.concatenated ? 'concatenatedRanges' : 'ranges') : 'keys',
    whole: isRanges && operation.whole === true,
    keyLength,
    data,
    valuesOf: timeouts === undefined ? (table?.verdictOf ?? null) : Uint32Array.from(timeouts.keys()),
    values:
      timeouts === undefined
        ? {
            count: table?.distinct.length ?? 0,
            write: (i) =>
              putVerdict(to, NFTA_SET_ELEM_DATA, table?.distinct[i] as MapVerdict, binding.verdicts),
          }
        : {
            count: timeouts.length,
            write: (i) => to.u64(NFTA_SET_ELEM_TIMEOUT, timeouts[i] as number),
          },
  });
}

function requireTimeouts(timeouts: readonly number[], count: number, hasVerdicts: boolean): void {
  if (hasVerdicts) throw new TypeError('timeouts and verdicts exclude each other');
  if (timeouts.length !== count) {
    throw new RangeError(`${timeouts.length} timeouts for ${count} keys`);
  }
  for (const timeout of timeouts) requireInteger(timeout, 'timeout', 1, LONGEST_TIMEOUT);
}
