import type { Binding } from './binding.ts';

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
  /** Loads the value; with `set`, writes it from the register. */
  | { kind: 'meta'; key: MetaKey; register: number; set?: boolean }
  | { kind: 'payload'; base: PayloadBase; offset: number; length: number; register: number }
  /** Loads the value; with `set`, writes it from the register. */
  | { kind: 'ct'; key: CtKey; register: number; direction?: 'original' | 'reply'; set?: boolean }
  /** Loads a constant. */
  | { kind: 'immediate'; register: number; value: Uint8Array }
  /** Loads jhash of `length` bytes from register `source`, scaled to 0 to `modulus` - 1. */
  | { kind: 'hash'; source: number; length: number; register: number; modulus: number; seed: number }
  /** Loads what the packet's route says; tcpmss: the segment size for its MTU, 2 bytes. */
  | { kind: 'rt'; key: RtKey; register: number }
  | { kind: 'cmp'; register: number; operator: CmpOperator; value: Uint8Array }
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
  | { kind: 'verdict'; verdict: MapVerdict }
  /** `rate` packets per `seconds` (1: second, 60: minute ...), after a burst. */
  | { kind: 'limit'; rate: number; seconds: number; burst: number }
  /** Logs to an NFLOG group. `snapLength` in bytes. */
  | { kind: 'log'; prefix: string; group: number; snapLength: number; queueThreshold: number }
  /** `code`: of ICMP, ICMPv6 or (icmpx) NFT_REJECT_ICMPX_*; 0 for a reset. */
  | { kind: 'reject'; type: 'icmp' | 'tcp reset' | 'icmpx'; code: number }
  /** `flags`: NF_NAT_RANGE_* of linux/netfilter/nf_nat.h; 16 is fully random. */
  | { kind: 'masq'; flags: number }
  /** Translates the source to the address in the register. */
  | { kind: 'nat'; type: 'snat'; family: 'ip' | 'ip6'; register: number }
  /** The packet gets no conntrack entry. */
  | { kind: 'notrack' }
  /** Writes `length` bytes of a TCP option from the register. */
  | { kind: 'exthdr'; option: number; offset: number; length: number; register: number }
  /**
   * Looks up the packet's address in the routing tables; `type` loads its RTN_*, 4 bytes. With the
   * flag `present`: 1 if something was found, else 0, 4 bytes.
   */
  | { kind: 'fib'; result: FibResult; flags: readonly FibFlag[]; register: number };

/** Keys of a meta expression, by the kernel's NFT_META_*. */
export type MetaKey = keyof typeof metaKeys;
/** Headers that a payload expression is relative to, by the kernel's NFT_PAYLOAD_*. */
export type PayloadBase = keyof typeof payloadBases;
/** Keys of a ct expression, by the kernel's NFT_CT_*. */
export type CtKey = keyof typeof ctKeys;
/** Results of a fib expression, by the kernel's NFT_FIB_RESULT_*. */
type FibResult = keyof typeof fibResults;
/** The fields that a fib expression looks up, by the kernel's NFTA_FIB_F_*. */
type FibFlag = keyof typeof fibFlags;
/** Keys of an rt expression, by the kernel's NFT_RT_*. */
export type RtKey = keyof typeof rtKeys;
/** Operators of cmp, by the kernel's NFT_CMP_*. */
export type CmpOperator = keyof typeof cmpOperators;

// All numbers are from linux/netfilter/nf_tables.h and never change: they are the kernel's ABI.
export const metaKeys = {
  length: 0,
  protocol: 1,
  priority: 2,
  mark: 3,
  iif: 4,
  oif: 5,
  iifname: 6,
  oifname: 7,
  iiftype: 8,
  skuid: 10,
  nfproto: 15,
  l4proto: 16,
  pkttype: 19,
  iifgroup: 21,
  oifgroup: 22,
  iifkind: 26,
  oifkind: 27,
} as const;
export const payloadBases = { link: 0, network: 1, transport: 2 } as const;
export const ctKeys = {
  state: 0,
  direction: 1,
  status: 2,
  mark: 3,
  protocol: 10,
  protoSource: 11,
  protoDestination: 12,
  label: 13,
  sourceIp: 19,
  destinationIp: 20,
  sourceIp6: 21,
  destinationIp6: 22,
} as const;
export const cmpOperators = { eq: 0, neq: 1, lte: 3, gte: 5 } as const;
export const directions = { original: 0, reply: 1 } as const;
export const byteorders = { ntoh: 0, hton: 1 } as const;
export const fibResults = { oif: 1, oifname: 2, type: 3 } as const;
export const fibFlags = { saddr: 1, daddr: 2, mark: 4, iif: 8, oif: 16, present: 32 } as const;
export const rtKeys = { tcpmss: 3 } as const;
export const natTypes = { snat: 0 } as const;
export const natFamilies = { ip: 2, ip6: 10 } as const;
export const rejects = { icmp: 0, 'tcp reset': 1, icmpx: 2 } as const;

/** The value of an element of a verdict map. */
export type MapVerdict =
  | { kind: 'jump' | 'goto'; chain: string }
  | { kind: 'accept' | 'drop' | 'continue' | 'return' };

/**
 * Verdicts as the addon reads them: each distinct verdict once, and per element the index of its
 * verdict.
 */
interface VerdictTable {
  verdictOf: Uint32Array;
  verdictCodes: Int32Array;
  verdictChains: string[];
}

/**
 * Returns each distinct verdict once, and per element the index of its verdict. Throws a RangeError
 * if the number of verdicts and elements differs, or an index is out of range.
 */
export function toVerdictTable(
  verdicts: readonly MapVerdict[],
  verdictOf: Uint32Array | undefined,
  count: number,
): { distinct: readonly MapVerdict[]; verdictOf: Uint32Array } {
  const given = verdictOf ?? verdicts;
  if (given.length !== count) throw new RangeError(`${given.length} verdicts for ${count} elements`);
  if (verdictOf !== undefined) {
    for (const index of verdictOf) {
      if (index >= verdicts.length) throw new RangeError(`verdictOf: there is no verdict ${index}`);
    }
    return { distinct: verdicts, verdictOf };
  }
  const known = new Map<string, number>();
  const distinct: MapVerdict[] = [];
  const indices = Uint32Array.from(verdicts, (verdict) => {
    const key = `${verdict.kind} ${'chain' in verdict ? verdict.chain : ''}`;
    const index = known.get(key) ?? distinct.push(verdict) - 1;
    known.set(key, index);
    return index;
  });
  return { distinct, verdictOf: indices };
}

/**
 * The verdict of each element; equal verdicts are one object. Throws an Error for a code that
 * nf_tables does not use in maps.
 */
export function toVerdicts(table: VerdictTable, binding: Binding): MapVerdict[] {
  const kinds = new Map(Object.entries(binding.verdicts).map(([kind, code]) => [code | 0, kind]));
  const distinct = Array.from(table.verdictCodes, (code, index): MapVerdict => {
    const kind = kinds.get(code);
    switch (kind) {
      case 'jump':
      case 'goto':
        return { kind, chain: table.verdictChains[index] ?? '' };
      case 'accept':
      case 'drop':
      case 'continue':
      case 'return':
        return { kind };
      default:
        throw new Error(`unknown verdict code ${code} in a map`);
    }
  });
  return Array.from(table.verdictOf, (index) => {
    const verdict = distinct[index];
    if (!verdict) throw new Error(`verdict ${index} is missing`);
    return verdict;
  });
}
