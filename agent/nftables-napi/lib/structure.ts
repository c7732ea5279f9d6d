import { type Binding, requireInteger, requireName, type TableFamily, toFamilyNumber } from './binding.ts';
import type { Expression } from './expression.ts';
import { putExpression } from './put-expression.ts';
import type { RecordWriter } from './record.ts';
import { type Hook, hookNumber } from './snapshot.ts';

/** A table. */
export interface TableName {
  family: TableFamily;
  table: string;
}

/** Creates a table, or activates a dormant one; an existing table is no error. */
export interface AddTable extends TableName {
  op: 'addTable';
}

/** Deletes a table with everything in it. ENOENT if it does not exist. */
export interface DeleteTable extends TableName {
  op: 'deleteTable';
}

/** Creates a chain. An existing chain is no error; an existing base chain gets the policy. */
export interface AddChain extends TableName {
  op: 'addChain';
  chain: string;
  /**
   * Makes it a base chain: an entry point at a hook. Hook and priority of an existing one cannot
   * change (EEXIST, EOPNOTSUPP).
   */
  base?: { type: 'filter' | 'nat' | 'route'; hook: Hook; priority: number; policy: 'accept' | 'drop' };
}

/** Deletes all rules of a chain. */
export interface FlushChain extends TableName {
  op: 'flushChain';
  chain: string;
  /** Whether BatchResult.lastCounts is to contain the counters of the rules. Default false. */
  counts?: boolean;
}

/** Deletes a chain with its rules. EBUSY while rules or elements refer to it. */
export interface DeleteChain extends TableName {
  op: 'deleteChain';
  chain: string;
}

/**
 * Renames a chain, by handle (ChainSnapshot.handle) as the kernel requires. References to the chain
 * are kept. EEXIST if the name is taken. The kernel renames at the commit: the other operations of
 * the batch use the old name.
 */
export interface RenameChain extends TableName {
  op: 'renameChain';
  handle: number;
  to: string;
}

/** Adds a rule at the end of a chain. */
export interface AddRule extends TableName {
  op: 'addRule';
  chain: string;
  expressions: readonly Expression[];
  /** At most 253 bytes; nft itself accepts 128. */
  comment?: string;
}

/** The definition of a set or map. */
export interface SetStructure extends TableName {
  set: string;
  /**
   * Identifies the set for later operations and rules of the same batch (`setId`); unique in the
   * batch, 1 to 2 ** 31 - 1. Required for an anonymous set. By id, the kernel finds the newest set
   * at once; by name, it walks the list of all sets of the table.
   */
  id?: number;
  key: SetKeyType;
  /** The set has ranges. Default false. */
  interval?: boolean;
  /** Elements may have a timeout (KeysOperation.timeouts). Default false. */
  timeout?: boolean;
  /**
   * A set or map for one rule of the same batch, which is deleted with it; its elements never
   * change. `set` must be a pattern as in libnftables, `__set%d` or `__map%d`: the kernel fills in
   * the number. Default false.
   */
  anonymous?: boolean;
  /**
   * Maximum number of elements, by which the kernel chooses its data structure. With `interval`,
   * count the ends. Default: unlimited.
   */
  size?: number;
  /** At most 253 bytes. */
  comment?: string;
}

/** The key of a set. */
export interface SetKeyType {
  /**
   * nft's number of the data type (`enum datatypes` of its datatype.h: 7 ipv4_addr, 8 ipv6_addr, 12
   * inet_proto, 13 inet_service ...), 6 bits per field of a concatenation. The kernel only stores
   * it; `nft list` formats by it.
   */
  type: number;
  /** Length of a key in bytes. */
  length: number;
  /**
   * For a concatenation: the length of each field in bytes. Each is padded to a multiple of 4 in
   * the key.
   */
  fields?: readonly number[];
  /** For `nft list`: the byte order of the keys; null for a concatenation. Default 'network'. */
  byteOrder?: 'network' | 'machine' | null;
  /**
   * For `nft list`: the expression of the key, as libnftables writes it into
   * NFTNL_UDATA_SET_KEY_TYPEOF (TLVs of one byte type, one byte length and value). Default: none;
   * for a concatenation that of `type a . b`.
   */
  typeOf?: Uint8Array;
}

/** Creates a set; an existing one with the same definition is no error. */
export interface AddSet extends SetStructure {
  op: 'addSet';
}

/** Creates a verdict map. */
export interface AddMap extends SetStructure {
  op: 'addMap';
}

/** Deletes a set or map. EBUSY while rules use it. */
export interface DeleteSet extends TableName {
  op: 'deleteSet';
  set: string;
}

/** Changes a table, except for the elements of its sets. */
export type StructureOperation =
  | AddTable
  | DeleteTable
  | AddChain
  | FlushChain
  | DeleteChain
  | RenameChain
  | AddRule
  | AddSet
  | AddMap
  | DeleteSet;

// linux/netfilter/nf_tables.h and linux/netlink.h.
const NFT_MSG_NEWTABLE = 0;
const NFT_MSG_DELTABLE = 2;
const NFT_MSG_NEWCHAIN = 3;
const NFT_MSG_DELCHAIN = 5;
const NFT_MSG_NEWRULE = 6;
const NFT_MSG_DELRULE = 8;
const NFT_MSG_NEWSET = 9;
const NFT_MSG_DELSET = 11;
/** The kernel also sends the notifications for listeners to the sender. */
const NLM_F_ECHO = 0x8;
const NLM_F_CREATE = 0x400;
const NLM_F_APPEND = 0x800;
/** First id for sets without one in the operation: the kernel requires an id for each new set. */
const OWN_IDS = 2 ** 31;

/**
 * Writes the operation as a record. Throws a TypeError or RangeError for values that no kernel
 * could take.
 */
export function putStructure(
  to: RecordWriter,
  operation: StructureOperation,
  index: number,
  binding: Binding,
): void {
  const { op, table } = operation;
  const family = toFamilyNumber(operation.family, binding);
  requireName(table, 'table');
  const begin = (message: number, flags: number): void => {
    to.begin({ operation: index, message, flags, family });
    to.text(1, table); // NFTA_*_TABLE: 1 in each kind of message
  };
  switch (op) {
    case 'addTable':
      begin(NFT_MSG_NEWTABLE, 0);
      to.u32(2, 0); // flags: not dormant
      break;
    case 'deleteTable':
      begin(NFT_MSG_DELTABLE, 0);
      break;
    case 'addChain':
      begin(NFT_MSG_NEWCHAIN, NLM_F_CREATE);
      putChain(to, operation, binding);
      break;
    case 'flushChain':
      begin(NFT_MSG_DELRULE, operation.counts ? NLM_F_ECHO : 0);
      putName(to, 2, operation.chain, 'chain');
      break;
    case 'deleteChain':
      begin(NFT_MSG_DELCHAIN, 0);
      putName(to, 3, operation.chain, 'chain');
      break;
    case 'renameChain':
      begin(NFT_MSG_NEWCHAIN, 0);
      putName(to, 3, operation.to, 'to');
      requireInteger(operation.handle, 'handle', 1, Number.MAX_SAFE_INTEGER);
      to.u64(2, operation.handle);
      break;
    case 'addRule':
      begin(NFT_MSG_NEWRULE, NLM_F_CREATE | NLM_F_APPEND);
      putRule(to, operation, binding);
      break;
    case 'addSet':
    case 'addMap':
      begin(NFT_MSG_NEWSET, NLM_F_CREATE);
      putSet(to, operation, operation.id ?? OWN_IDS + index, binding);
      break;
    case 'deleteSet':
      begin(NFT_MSG_DELSET, 0);
      putName(to, 2, operation.set, 'set');
      break;
    default:
      throw new TypeError(`unknown op ${String(op)}`);
  }
  to.end();
}

function putName(to: RecordWriter, type: number, name: string, what: string): void {
  requireName(name, what);
  to.text(type, name);
}

function putChain(to: RecordWriter, { chain, base, family }: AddChain, binding: Binding): void {
  putName(to, 3, chain, 'chain');
  if (base === undefined) return;
  const { type, hook, priority, policy } = base;
  requireInteger(priority, 'priority', -(2 ** 31), 2 ** 31 - 1);
  if (policy !== 'accept' && policy !== 'drop') {
    throw new TypeError(`policy must be accept or drop, not ${String(policy)}`);
  }
  putName(to, 7, type, 'type');
  to.u32(5, binding.verdicts[policy]);
  const nest = to.beginNest(4);
  to.u32(1, hookNumber(family, hook));
  to.u32(2, priority);
  to.endNest(nest);
}

function putRule(to: RecordWriter, { chain, expressions, comment }: AddRule, binding: Binding): void {
  putName(to, 2, chain, 'chain');
  const nest = to.beginNest(4);
  for (const expression of expressions) putExpression(to, expression, binding.verdicts);
  to.endNest(nest);
  // NFTNL_UDATA_RULE_COMMENT
  if (comment === undefined) return;
  const userdata = to.beginUserdata(7);
  putComment(to, 0, comment);
  to.endUserdata(userdata);
}

const NFT_DATA_VERDICT = 0xffffff00;

function putSet(to: RecordWriter, set: AddSet | AddMap, id: number, { setFlags }: Binding): void {
  const { key, interval = false, anonymous = false, timeout = false } = set;
  const isMap = set.op === 'addMap';
  const concatenated = key.fields !== undefined && key.fields.length > 1;
  requireInteger(id, 'id', 1, 2 ** 32 - 1);
  requireInteger(key.type, 'type of the key', 0, 2 ** 32 - 1);
  requireInteger(key.length, 'length of the key', 1, 64);
  putName(to, 2, set.set, 'set');
  to.u32(
    3,
    (anonymous ? setFlags.anonymous | setFlags.constant : 0) |
      (interval ? setFlags.interval : 0) |
      (timeout ? setFlags.timeout : 0) |
      (isMap ? setFlags.map : 0) |
      (interval && concatenated ? setFlags.concat : 0),
  );
  to.u32(4, key.type);
  to.u32(5, key.length);
  if (isMap) {
    to.u32(6, NFT_DATA_VERDICT);
    to.u32(7, 0);
  }
  to.u32(10, id);
  putDescription(to, set, interval && concatenated);
  putSetUserdata(to, set, isMap, concatenated);
}

/** NFTA_SET_DESC: the size, and the fields of a concatenation of ranges. */
function putDescription(to: RecordWriter, { size, key }: SetStructure, withFields: boolean): void {
  if (size === undefined && !withFields) return;
  const nest = to.beginNest(9);
  if (size !== undefined) to.u32(1, size);
  if (withFields) {
    const fields = to.beginNest(2);
    for (const length of key.fields ?? []) {
      const field = to.beginNest(1);
      to.u32(1, length);
      to.endNest(field);
    }
    to.endNest(fields);
  }
  to.endNest(nest);
}

// Numbers are in the machine's byte order, as in all userdata.
const typeOf = (expression: number) =>
  Uint8Array.of(0, 4, ...new Uint8Array(Uint32Array.of(expression).buffer), 1, 0); // NFTNL_UDATA_SET_TYPEOF_EXPR; _DATA: none
const VERDICT = typeOf(1); // EXPR_VERDICT
const CONCATENATION = typeOf(13); // EXPR_CONCAT
const BYTE_ORDER = { machine: 1, network: 2 } as const; // enum byteorder of nft's datatype.h

/**
 * Writes the data that nft stores for itself: enum nftnl_udata_set_types of libnftnl/udata.h, in
 * the order of libnftables 1.0.6 (src/mnl.c).
 */
function putSetUserdata(to: RecordWriter, set: SetStructure, isMap: boolean, concatenated: boolean): void {
  const { key, interval, anonymous, comment } = set;
  const byteOrder = key.byteOrder === undefined ? (concatenated ? null : 'network') : key.byteOrder;
  const keyTypeOf = key.typeOf ?? (concatenated ? CONCATENATION : undefined);
  const userdata = to.beginUserdata(13);
  to.userdata32(0, byteOrder === null ? 0 : BYTE_ORDER[byteOrder]);
  if (isMap) to.userdata32(1, 0);
  if (interval && anonymous) to.userdata32(2, 1); // ranges that touch were merged
  if (keyTypeOf) to.userdata(3, keyTypeOf);
  if (isMap && (anonymous || key.typeOf !== undefined)) to.userdata(4, VERDICT);
  if (isMap) to.userdata32(6, 0);
  if (comment !== undefined) putComment(to, 7, comment);
  to.endUserdata(userdata);
}

function putComment(to: RecordWriter, type: number, comment: string): void {
  if (typeof comment !== 'string') throw new TypeError(`comment must be a string, not ${typeof comment}`);
  if (comment.includes('\0')) throw new RangeError('a comment must not contain NUL');
  to.userdataText(type, comment);
}
