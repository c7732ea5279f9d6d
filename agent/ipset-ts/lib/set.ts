/** Create options of every type of set. Entries may use only what their set was created with. */
export interface Extensions {
  /**
   * Default seconds until an entry expires; 0: never. At most 2,147,483 (ipset counts milliseconds
   * in 31 bits).
   */
  readonly timeout?: number;
  readonly counters?: boolean;
  readonly comment?: boolean;
  readonly skbinfo?: boolean;
}

/** Create options of every hash type. */
export interface HashOptions extends Extensions {
  /**
   * Initial number of buckets, 1,024 by default. The kernel rounds up to a power of two, at least
   * 64. Adding with ipset doubles it when buckets overflow; save and list give the current size.
   */
  readonly hashsize?: number;
  /** Limit of entries, 65,536 by default. An add beyond it is refused with FULL. */
  readonly maxelem?: number;
  /** Entries per bucket. The kernel makes it even, and 2 to 12 (the manual page says 14). */
  readonly bucketsize?: number;
  /** Initial value of the hash function; random by default. */
  readonly initval?: number;
  /**
   * A full set drops an entry for a new one. Neither save nor list of ipset 7.17 shows this option,
   * so a copy loses it.
   */
  readonly forceadd?: boolean;
}

/** Address family of a hash set: IPv4 (inet) or IPv6 (inet6). */
export type SetFamily = 'inet' | 'inet6';

interface OfFamily {
  /** Default: inet. */
  readonly family?: SetFamily;
}

/** Entries are masked with one of the two before they are stored or looked up. */
type Masked =
  | { readonly netmask?: number; readonly bitmask?: never }
  | { readonly netmask?: never; readonly bitmask?: string };

/** Create options of each type, as in ipset(8). */
export interface Options {
  /** `range`: addresses `from-to` or `ip/cidr`, IPv4 only, at most 65,536 of them. */
  'bitmap:ip': Extensions & { readonly range: string; readonly netmask?: number };
  'bitmap:ip,mac': Extensions & { readonly range: string };
  /** `range`: ports `from-to`. */
  'bitmap:port': Extensions & { readonly range: string };
  'hash:ip': HashOptions & OfFamily & Masked;
  'hash:mac': HashOptions;
  'hash:ip,mac': HashOptions & OfFamily;
  'hash:net': HashOptions & OfFamily;
  'hash:net,net': HashOptions & OfFamily & Masked;
  'hash:ip,port': HashOptions & OfFamily & Masked;
  'hash:net,port': HashOptions & OfFamily;
  'hash:ip,port,ip': HashOptions & OfFamily;
  'hash:ip,port,net': HashOptions & OfFamily;
  'hash:ip,mark': HashOptions & OfFamily & { readonly markmask?: number };
  'hash:net,port,net': HashOptions & OfFamily;
  'hash:net,iface': HashOptions & OfFamily;
  /** `size` is the initial size, 8 by default and at least 4; the list grows. */
  'list:set': Extensions & { readonly size?: number };
}

/** The name of a type of set, as in ipset(8). */
export type SetType = keyof Options;

/**
 * The name of a set and the type of its entries. Every definition and every saved set is also a
 * SetRef.
 */
export interface SetRef<T extends SetType = SetType> {
  /** At most 31 bytes. */
  readonly name: string;
  readonly type: T;
}

/** The argument of create: a union, discriminated by `type`. */
export type SetDefinition<T extends SetType = SetType> = { [K in T]: SetRef<K> & Options[K] }[T];

type OptionName = { [K in SetType]: keyof UnionToAll<Options[K]> }[SetType];
type UnionToAll<U> = U extends unknown ? { [P in keyof U]: U[P] } : never;

const EXTENSIONS = ['timeout', 'counters', 'comment'] as const;
// In the order in which ipset 7.17 prints them, so that a saved text round-trips.
const OF_BITMAP = [...EXTENSIONS, 'skbinfo'] as const;
const SIZES = ['hashsize', 'maxelem'] as const;
const OF_HASH = [...EXTENSIONS, 'forceadd', 'skbinfo', 'bucketsize', 'initval'] as const;
const FAMILY_SIZES = ['family', ...SIZES] as const;

/** The create options of each type, in print order. */
export const CREATE_OPTIONS = {
  'bitmap:ip': ['range', 'netmask', ...OF_BITMAP],
  'bitmap:ip,mac': ['range', ...OF_BITMAP],
  'bitmap:port': ['range', ...OF_BITMAP],
  'hash:ip': [...FAMILY_SIZES, 'netmask', 'bitmask', ...OF_HASH],
  'hash:mac': [...SIZES, ...OF_HASH],
  'hash:ip,mac': [...FAMILY_SIZES, ...OF_HASH],
  'hash:net': [...FAMILY_SIZES, ...OF_HASH],
  'hash:net,net': [...FAMILY_SIZES, ...OF_HASH, 'netmask', 'bitmask'],
  'hash:ip,port': [...FAMILY_SIZES, ...OF_HASH, 'netmask', 'bitmask'],
  'hash:net,port': [...FAMILY_SIZES, ...OF_HASH],
  'hash:ip,port,ip': [...FAMILY_SIZES, ...OF_HASH],
  'hash:ip,port,net': [...FAMILY_SIZES, ...OF_HASH],
  'hash:ip,mark': ['family', 'markmask', ...SIZES, ...OF_HASH],
  'hash:net,port,net': [...FAMILY_SIZES, ...OF_HASH],
  'hash:net,iface': [...FAMILY_SIZES, ...OF_HASH],
  'list:set': ['size', ...OF_BITMAP],
} as const satisfies { readonly [T in SetType]: readonly OptionName[] };

export type CreateOption = (typeof CREATE_OPTIONS)[SetType][number];

/** All types of sets of ipset 7.17. The kernel may know fewer: NO_KERNEL_SUPPORT. */
export const SET_TYPES = Object.keys(CREATE_OPTIONS) as readonly SetType[];
