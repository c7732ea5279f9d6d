import { requireInteger, requireName } from './binding.ts';
import {
  byteorders,
  cmpOperators,
  ctKeys,
  directions,
  type Expression,
  fibFlags,
  fibResults,
  type MapVerdict,
  metaKeys,
  natFamilies,
  natTypes,
  payloadBases,
  rejects,
  rtKeys,
} from './expression.ts';
import type { RecordWriter } from './record.ts';

const NFTA_LIST_ELEM = 1;
const NFTA_EXPR_NAME = 1;
const NFTA_EXPR_DATA = 2;
const NFTA_DATA_VALUE = 1;
const NFTA_DATA_VERDICT = 2;
const NFT_REG_VERDICT = 0;
const NFT_LOOKUP_F_INV = 1;
const NFT_HASH_JENKINS = 0;
const NFT_EXTHDR_OP_TCPOPT = 1;

/**
 * Writes a verdict as an attribute of the given type. `codes` are the kernel's numbers. Throws a
 * TypeError for an unknown verdict, or a chain that is missing or out of place; a RangeError for an
 * invalid chain name.
 */
export function putVerdict(
  to: RecordWriter,
  type: number,
  verdict: MapVerdict,
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
      to.u32(it.set === true ? 4 : 1, register(it.register));
      if (it.direction !== undefined) to.u8(3, number(directions, it.direction, 'direction'));
      break;
    case 'cmp':
      to.u32(1, register(it.register));
      to.u32(2, number(cmpOperators, it.operator, 'operator'));
      putValue(to, 3, it.value);
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
    case 'immediate':
      to.u32(1, register(it.register));
      putValue(to, 2, it.value);
      break;
    case 'hash':
      putHash(to, it);
      break;
    case 'rt':
      to.u32(2, number(rtKeys, it.key, 'rt key'));
      to.u32(1, register(it.register));
      break;
    case 'fib':
      putFib(to, it);
      break;
    default:
      putEffect(to, it, verdicts);
  }
}

type Effect = Extract<
  Expression,
  { kind: 'counter' | 'verdict' | 'limit' | 'log' | 'reject' | 'masq' | 'nat' | 'notrack' | 'exthdr' }
>;

/** Expressions that do something to the packet or the walk. */
function putEffect(to: RecordWriter, it: Effect, verdicts: Readonly<Record<string, number>>): void {
  switch (it.kind) {
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
      if (it.flags !== 0) to.u32(1, it.flags);
      break;
    case 'nat':
      to.u32(1, number(natTypes, it.type, 'nat type'));
      to.u32(2, number(natFamilies, it.family, 'nat family'));
      to.u32(3, register(it.register));
      break;
    case 'notrack':
      break;
    case 'exthdr':
      to.u32(7, register(it.register));
      to.u8(2, it.option);
      to.u32(3, it.offset);
      to.u32(4, it.length);
      to.u32(6, NFT_EXTHDR_OP_TCPOPT);
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
  to.u32(5, 0);
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
  to.u32(it.set === true ? 3 : 1, register(it.register));
}

function putHash(to: RecordWriter, it: Extract<Expression, { kind: 'hash' }>): void {
  requireInteger(it.modulus, 'modulus', 1, 2 ** 32 - 1);
  requireInteger(it.seed, 'seed', 0, 2 ** 32 - 1);
  to.u32(1, register(it.source));
  to.u32(2, register(it.register));
  to.u32(3, it.length);
  to.u32(4, it.modulus);
  to.u32(5, it.seed);
  to.u32(7, NFT_HASH_JENKINS);
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
