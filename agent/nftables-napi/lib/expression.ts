import { requireInteger } from './integer.ts';
import { requireName } from './name.ts';
import type { RecordWriter } from './record.ts';
import type { Verdict } from './verdict.ts';

/**
 * One expression of a rule, as in the kernel (linux/netfilter/nf_tables.h). A rule loads a value
 * into a register, compares it, and so on; the first expression that does not match ends the rule.
 * `nft --debug=netlink` shows the expressions of any text.
 *
 * Registers 1 to 4 have 16 bytes each; 8 to 23 are the same memory in units of 4 bytes (register 1
 * begins at 8, register 2 at 12). The fields of a concatenation are loaded into adjacent registers.
 * Values have the byte order of the loaded field: network order for payload and for addresses and
 * ports of ct, the machine's order for meta and most of ct.
 */
export type Expression =
  | { kind: 'meta'; key: MetaKey; register: number }
  | { kind: 'payload'; base: PayloadBase; offset: number; length: number; register: number }
  | { kind: 'ct'; key: CtKey; register: number; direction?: 'original' | 'reply' }
  | { kind: 'cmp'; register: number; operator: CmpOperator; value: Uint8Array }
  /** Matches inside (eq) or outside (neq) of a range, both ends included. */
  | { kind: 'range'; register: number; operator: 'eq' | 'neq'; from: Uint8Array; to: Uint8Array }
  /** `(register & mask) ^ xor`, in place. */
  | { kind: 'bitwise'; register: number; mask: Uint8Array; xor: Uint8Array }
  /** Converts the byte order of `length` bytes, in units of `size`, in place. */
  | { kind: 'byteorder'; register: number; operation: 'ntoh' | 'hton'; length: number; size: number }
  | {
      kind: 'lookup';
      register: number;
      set: string;
      /** Id of a set created in the same batch; required for an anonymous one. */
      setId?: number;
      /** Matches values that are not in the set. Default false. */
      inverted?: boolean;
      /** The set is a verdict map, and its verdict is applied. Default false. */
      verdict?: boolean;
    }
  /** Starts at 0, or at the given values. */
  | { kind: 'counter'; packets?: number | bigint; bytes?: number | bigint }
  | { kind: 'verdict'; verdict: Verdict }
  /**
   * `rate` packets per `seconds` (1: second, 60: minute ...), after a burst. `over`: matches the
   * packets above the limit.
   */
  | { kind: 'limit'; rate: number; seconds: number; burst: number; over?: boolean }
  /** Logs to an NFLOG group. `snapLength` in bytes. */
  | { kind: 'log'; prefix: string; group: number; snapLength: number; queueThreshold: number }
  /** `code`: of ICMP, ICMPv6 or (icmpx) NFT_REJECT_ICMPX_*; 0 for a reset. */
  | { kind: 'reject'; type: 'icmp' | 'tcp reset' | 'icmpx'; code: number }
  /** `flags`: NF_NAT_RANGE_* of linux/netfilter/nf_nat.h; 16 is fully random. */
  | { kind: 'masq'; flags: number }
  /** Looks up the packet's address in the routing tables; `type` loads its RTN_*, 4 bytes. */
  | { kind: 'fib'; result: FibResult; flags: readonly FibFlag[]; register: number };

/** Keys of a meta expression, by the kernel's NFT_META_*. */
export type MetaKey = keyof typeof metaKeys;
/** Headers that a payload expression is relative to, by the kernel's NFT_PAYLOAD_*. */
export type PayloadBase = keyof typeof payloadBases;
/** Keys of a ct expression, by the kernel's NFT_CT_*. */
export type CtKey = keyof typeof ctKeys;
/** Results of a fib expression, by the kernel's NFT_FIB_RESULT_*. */
export type FibResult = keyof typeof fibResults;
/** What a fib expression looks up, by the kernel's NFTA_FIB_F_*. */
export type FibFlag = keyof typeof fibFlags;
/** Operators of cmp and range, by the kernel's NFT_CMP_*. */
export type CmpOperator = keyof typeof cmpOperators;

// All numbers are from linux/netfilter/nf_tables.h and never change: they are the kernel's ABI.
const metaKeys = {
  length: 0,
  protocol: 1,
  priority: 2,
  mark: 3,
  iif: 4,
  oif: 5,
  iifname: 6,
  oifname: 7,
  iiftype: 8,
  oiftype: 9,
  skuid: 10,
  skgid: 11,
  nfproto: 15,
  l4proto: 16,
  pkttype: 19,
  cpu: 20,
  iifgroup: 21,
  oifgroup: 22,
  iifkind: 26,
  oifkind: 27,
} as const;
const payloadBases = { link: 0, network: 1, transport: 2, inner: 3 } as const;
const ctKeys = {
  state: 0,
  direction: 1,
  status: 2,
  mark: 3,
  l3protocol: 7,
  protocol: 10,
  protoSource: 11,
  protoDestination: 12,
  zone: 17,
  sourceIp: 19,
  destinationIp: 20,
  sourceIp6: 21,
  destinationIp6: 22,
  id: 23,
} as const;
const cmpOperators = { eq: 0, neq: 1, lt: 2, lte: 3, gt: 4, gte: 5 } as const;
const directions = { original: 0, reply: 1 } as const;
const byteorders = { ntoh: 0, hton: 1 } as const;
const fibResults = { oif: 1, oifname: 2, type: 3 } as const;
const fibFlags = { saddr: 1, daddr: 2, mark: 4, iif: 8, oif: 16 } as const;
const rejects = { icmp: 0, 'tcp reset': 1, icmpx: 2 } as const;

const NFTA_LIST_ELEM = 1;
const NFTA_EXPR_NAME = 1;
const NFTA_EXPR_DATA = 2;
const NFTA_DATA_VALUE = 1;
const NFTA_DATA_VERDICT = 2;
const NFT_REG_VERDICT = 0;
const NFT_LOOKUP_F_INV = 1;
const NFT_LIMIT_F_INV = 1;

/**
 * Writes a verdict as an attribute of the given type. `codes` are the kernel's numbers. Throws a
 * TypeError for an unknown verdict, or a chain that is missing or out of place; a RangeError for an
 * invalid chain name.
 */
export function putVerdict(
  to: RecordWriter,
  type: number,
  verdict: Verdict,
  codes: Readonly<Record<string, number>>,
): void {
  const data = to.beginNest(type);
  const nest = to.beginNest(NFTA_DATA_VERDICT);
  if (!Object.hasOwn(codes, verdict.kind)) throw new TypeError(`unknown verdict ${String(verdict.kind)}`);
  to.u32(1, codes[verdict.kind] as number);
  const jumps = verdict.kind === 'jump' || verdict.kind === 'goto';
  const chain = 'chain' in verdict ? verdict.chain : undefined;
  if (jumps !== (chain !== undefined && chain !== '')) {
    throw new TypeError(`verdict ${verdict.kind} ${jumps ? 'needs a chain' : 'has no chain'}`);
  }
  if (chain) {
    requireName(chain, 'chain');
    to.text(2, chain);
  }
  to.endNest(nest);
  to.endNest(data);
}

/**
 * Writes one expression of a rule. Throws a TypeError or RangeError for values that no kernel could
 * take.
 */
export function putExpression(
  to: RecordWriter,
  expression: Expression,
  verdicts: Readonly<Record<string, number>>,
): void {
  const element = to.beginNest(NFTA_LIST_ELEM);
  to.text(NFTA_EXPR_NAME, expression.kind === 'verdict' ? 'immediate' : expression.kind);
  const data = to.beginNest(NFTA_EXPR_DATA);
  putData(to, expression, verdicts);
  to.endNest(data);
  to.endNest(element);
}

/** Writes attributes in libnftnl's order (src/expr), so that the bytes are those that nft sends. */
function putData(to: RecordWriter, it: Expression, verdicts: Readonly<Record<string, number>>): void {
  switch (it.kind) {
    case 'meta':
      putMeta(to, it);
      break;
    case 'payload':
      to.u32(1, register(it.register));
      to.u32(2, number(payloadBases, it.base, 'payload base'));
      to.u32(3, it.offset);
      to.u32(4, it.length);
      break;
    case 'ct':
      to.u32(2, number(ctKeys, it.key, 'ct key'));
      to.u32(1, register(it.register));
      if (it.direction !== undefined) to.u8(3, number(directions, it.direction, 'direction'));
      break;
    case 'cmp':
      to.u32(1, register(it.register));
      to.u32(2, number(cmpOperators, it.operator, 'operator'));
      putValue(to, 3, it.value);
      break;
    case 'range':
      to.u32(1, register(it.register));
      to.u32(2, number(cmpOperators, it.operator, 'operator'));
      putValue(to, 3, it.from);
      putValue(to, 4, it.to);
      break;
    case 'bitwise':
      to.u32(1, register(it.register));
      to.u32(2, register(it.register));
      to.u32(3, it.mask.length);
      putValue(to, 4, it.mask);
      putValue(to, 5, it.xor);
      break;
    case 'byteorder':
      to.u32(1, register(it.register));
      to.u32(2, register(it.register));
      to.u32(3, number(byteorders, it.operation, 'byte order'));
      to.u32(4, it.length);
      to.u32(5, it.size);
      break;
    case 'lookup':
      requireName(it.set, 'set');
      to.u32(2, register(it.register));
      if (it.verdict === true) to.u32(3, NFT_REG_VERDICT);
      to.text(1, it.set);
      if (it.setId !== undefined) to.u32(4, it.setId);
      if (it.inverted === true) to.u32(5, NFT_LOOKUP_F_INV);
      break;
    case 'counter':
      if (it.bytes !== undefined) to.u64(1, it.bytes);
      if (it.packets !== undefined) to.u64(2, it.packets);
      break;
    case 'verdict':
      to.u32(1, NFT_REG_VERDICT);
      putVerdict(to, 2, it.verdict, verdicts);
      break;
    case 'limit':
      putLimit(to, it);
      break;
    case 'log':
      to.text(2, it.prefix);
      to.u16(1, it.group);
      to.u32(3, it.snapLength);
      to.u16(4, it.queueThreshold);
      break;
    case 'reject':
      to.u32(1, number(rejects, it.type, 'reject type'));
      to.u8(2, it.code);
      break;
    case 'masq':
      to.u32(1, it.flags);
      break;
    case 'fib':
      putFib(to, it);
      break;
    default:
      throw new TypeError(`unknown expression ${String((it as { kind: unknown }).kind)}`);
  }
}

function putLimit(to: RecordWriter, it: Extract<Expression, { kind: 'limit' }>): void {
  requireInteger(it.rate, 'rate', 1, Number.MAX_SAFE_INTEGER);
  requireInteger(it.seconds, 'seconds', 1, Number.MAX_SAFE_INTEGER);
  to.u64(1, it.rate);
  to.u64(2, it.seconds);
  to.u32(3, it.burst);
  to.u32(4, 0); // NFT_LIMIT_PKTS
  to.u32(5, it.over === true ? NFT_LIMIT_F_INV : 0);
}

function putFib(to: RecordWriter, it: Extract<Expression, { kind: 'fib' }>): void {
  to.u32(
    3,
    it.flags.reduce((all, flag) => all | number(fibFlags, flag, 'fib flag'), 0),
  );
  to.u32(2, number(fibResults, it.result, 'fib result'));
  to.u32(1, register(it.register));
}

function putMeta(to: RecordWriter, it: Extract<Expression, { kind: 'meta' }>): void {
  to.u32(2, number(metaKeys, it.key, 'meta key'));
  to.u32(1, register(it.register));
}

function putValue(to: RecordWriter, type: number, value: Uint8Array): void {
  if (!(value instanceof Uint8Array)) throw new TypeError('a value must be a Uint8Array');
  const nest = to.beginNest(type);
  to.bytes(NFTA_DATA_VALUE, value);
  to.endNest(nest);
}

function number<Table extends Readonly<Record<string, number>>>(
  table: Table,
  key: keyof Table & string,
  what: string,
): number {
  const found = Object.hasOwn(table, key) ? table[key] : undefined;
  if (found === undefined) throw new TypeError(`unknown ${what} ${String(key)}`);
  return found;
}

function register(value: number): number {
  const known = Number.isInteger(value) && ((value >= 1 && value <= 4) || (value >= 8 && value <= 23));
  if (!known) throw new RangeError(`register must be 1 to 4 or 8 to 23, not ${value}`);
  return value;
}
