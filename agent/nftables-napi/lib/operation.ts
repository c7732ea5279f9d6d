import type { Binding, NativeOperation } from './binding.ts';
import type { Family } from './family.ts';
import { toVerdictTable, type Verdict } from './verdict.ts';

/** A set or map of a table. */
export interface SetName {
  family: Family;
  table: string;
  set: string;
}

/**
 * Adds or deletes single keys. Only for sets without the interval flag: in an interval set a key alone would be a range
 * without an end (use `ranges`).
 */
export interface KeysOperation extends SetName {
  op: 'add' | 'delete';
  /** Bytes of one key, 1 to 64: 4 for ipv4_addr, 16 for ipv6_addr, 2 for inet_service; a concatenation's fields are padded to 4 each. */
  keyLength: number;
  /** Keys one after another, in network byte order, in any order. */
  keys: Uint8Array;
  /** For a verdict map: one for each key. Not needed for deleting. */
  verdicts?: readonly Verdict[];
}

/** Adds or deletes ranges of an interval set. A range must be deleted as it was added: part of one is ENOENT. */
export interface RangesOperation extends SetName {
  op: 'add' | 'delete';
  /** As for keys. */
  keyLength: number;
  /** Pairs of first and last key, both inclusive, in network byte order. They may touch, but not overlap. */
  ranges: Uint8Array;
  /** For a verdict map: one for each range. Not needed for deleting. */
  verdicts?: readonly Verdict[];
  /** The set's key is a concatenation: a range of each field, in one element with a closing key. Default false. */
  concatenated?: boolean;
}

/** Deletes all elements of a set. */
export interface FlushOperation extends SetName {
  op: 'flush';
}

/** One step of a batch. Adding what is there already (with the same verdict) is no error; deleting what isn't is ENOENT. */
export type SetOperation = KeysOperation | RangesOperation | FlushOperation;

const changes = { add: 0, delete: 1, flush: 2 } as const;

/** The operation as the addon takes it. Throws TypeError or RangeError for what no kernel could take. */
export function toNativeOperation(operation: SetOperation, binding: Binding): NativeOperation {
  const { op, family, table, set } = operation;
  const familyNumber = toFamilyNumber(family, binding);
  requireName(table, 'table');
  requireName(set, 'set');
  const common = { family: familyNumber, table, set };
  if (op === 'flush') {
    return {
      ...common,
      ...noVerdicts,
      change: changes.flush,
      shape: 0,
      keyLength: 0,
      data: new Uint8Array(),
    };
  }
  if (!Object.hasOwn(changes, op)) throw new TypeError(`op must be add, delete or flush, not ${String(op)}`);
  const { keyLength } = operation;
  if (!Number.isInteger(keyLength) || keyLength < 1 || keyLength > 64) {
    throw new RangeError(`keyLength must be 1 to 64 bytes, not ${keyLength}`);
  }
  const isRanges = 'ranges' in operation;
  const data = isRanges ? operation.ranges : operation.keys;
  if (!(data instanceof Uint8Array)) throw new TypeError('keys or ranges must be a Uint8Array');
  const width = keyLength * (isRanges ? 2 : 1);
  if (data.length % width !== 0) {
    throw new RangeError(
      `${data.length} bytes are no multiple of ${width}, the length of one ${isRanges ? 'range' : 'key'}`,
    );
  }
  const count = data.length / width;
  if (operation.verdicts && operation.verdicts.length !== count) {
    throw new RangeError(`${operation.verdicts.length} verdicts for ${count} elements`);
  }
  return {
    ...common,
    ...(operation.verdicts ? toVerdictTable(operation.verdicts, binding) : noVerdicts),
    change: changes[op],
    shape: isRanges ? (operation.concatenated ? 2 : 1) : 0,
    keyLength,
    data,
  };
}

const noVerdicts = { verdictOf: null, verdictCodes: new Int32Array(), verdictChains: [] };

/** The kernel's number of a family. Throws TypeError for an unknown one. */
export function toFamilyNumber(family: Family, binding: Binding): number {
  if (!Object.hasOwn(binding.families, family)) throw new TypeError(`unknown family ${String(family)}`);
  return binding.families[family];
}

/** Names are 1 to 255 bytes without NUL (NFT_NAME_MAXLEN is 256 with its NUL). */
export function requireName(name: unknown, what: string): void {
  if (typeof name !== 'string') throw new TypeError(`${what} must be a string, not ${typeof name}`);
  if (name === '' || name.includes('\0') || Buffer.byteLength(name) > 255) {
    throw new RangeError(`${what} must have 1 to 255 bytes and no NUL`);
  }
}
