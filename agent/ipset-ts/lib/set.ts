/**
 * What every type of set may be created with. Entries may use only what their set was created with.
 */
export interface Extensions {
  /**
   * Seconds until an entry goes, unless it says otherwise; 0: never. At most 2,147,483 (ipset
   * counts milliseconds in 31 bits).
   */
  readonly timeout?: number;
  readonly counters?: boolean;
  readonly comment?: boolean;
  readonly skbinfo?: boolean;
}

/** What every hash type may be created with. */
export interface HashOptions extends Extensions {
  /**
   * Buckets to start with, 1024 by default; the kernel rounds up to a power of two, 64 at least.
   * Adding with ipset doubles it when buckets overflow, so save and list tell the present size.
   */
  readonly hashsize?: number;
  /**
   * Entries at most, 65,536 by default. One more is refused with FULL; the set never grows beyond
   * it.
   */
  readonly maxelem?: number;
  /** Entries in a bucket. The kernel makes it even, and 2 to 12 (the manual page says 14). */
  readonly bucketsize?: number;
  /** Of the hash function; random by default. */
  readonly initval?: number;
  /**
   * A full set drops an entry for a new one. Neither save nor list shows it with ipset 7.17, so it
   * is lost in a copy.
   */
  readonly forceadd?: boolean;
}

export type Family = 'inet' | 'inet6';

interface OfFamily {
  /** inet by default. */
  readonly family?: Family;
}

/** Entries are masked before they are stored or looked up, by one or the other. */
type Masked =
  | { readonly netmask?: number; readonly bitmask?: never }
  | { readonly netmask?: never; readonly bitmask?: string };

/** What each type may be created with, as in ipset(8). */
export interface Options {
  /** Addresses `from-to` or `ip/cidr`, IPv4 only, 65,536 of them at most. */
  'bitmap:ip': Extensions & { readonly range: string; readonly netmask?: number };
  'bitmap:ip,mac': Extensions & { readonly range: string };
  /** Ports `from-to`. */
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
  /** `size` is what it starts with, 8 by default and 4 at least; it grows. */
  'list:set': Extensions & { readonly size?: number };
}

export type SetType = keyof Options;

/**
 * Which set is meant, and of what type its entries are. Every definition and every saved set is
 * one, too.
 */
export interface SetRef<T extends SetType = SetType> {
  /** At most 31 bytes. */
  readonly name: string;
  readonly type: T;
}

/** What create makes: a union, discriminated by `type`. */
export type SetDefinition<T extends SetType = SetType> = { [K in T]: SetRef<K> & Options[K] }[T];

type OptionName = { [K in SetType]: keyof UnionToAll<Options[K]> }[SetType];
type UnionToAll<U> = U extends unknown ? { [P in keyof U]: U[P] } : never;

const EXTENSIONS = ['timeout', 'counters', 'comment'] as const;
// In the order in which ipset 7.17 prints them, so that a saved text comes out as it went in.
const OF_BITMAP = [...EXTENSIONS, 'skbinfo'] as const;
const SIZES = ['hashsize', 'maxelem'] as const;
const OF_HASH = [...EXTENSIONS, 'forceadd', 'skbinfo', 'bucketsize', 'initval'] as const;
const FAMILY_SIZES = ['family', ...SIZES] as const;

/** The create options of each type, in the order in which they are printed. */
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

/** Every type of set that ipset 7.17 knows. The kernel may know fewer: NO_KERNEL_SUPPORT. */
export const SET_TYPES = Object.keys(CREATE_OPTIONS) as readonly SetType[];
