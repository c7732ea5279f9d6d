import type { SetDefinition, SetRef, SetType } from './set.ts';

/**
 * A protocol and its port: `tcp:80`, `udp:5000-5010`, `icmp:8/0`, `icmpv6:echo-request`, `gre:0`. A
 * number alone is a TCP port; save and list give it as `tcp:80`. Names of services are refused,
 * since their meaning depends on the machine.
 */
export type Port = number | `${string}:${string}`;

/**
 * An address or, where ipset takes several at once (IPv4), `from-to` or `ip/cidr`. Host names are
 * refused: ipset would query DNS.
 */
type Ip = string;

/**
 * An address, `ip/cidr`, or `from-to` (IPv4), which becomes the networks that cover it. Host bits
 * are cleared; only hash:net,iface takes /0.
 */
type Net = string;

type Member =
  | { readonly set: string; readonly before?: string; readonly after?: never }
  | { readonly set: string; readonly before?: never; readonly after?: string };

interface NetIface {
  readonly net: Net;
  /** At most 15 bytes. */
  readonly iface: string;
  /** `iface` is the bridge port, not the bridge. */
  readonly physdev?: boolean;
}

/** The key of an entry, for each type. */
interface Keys {
  'bitmap:ip': { readonly ip: Ip };
  /** Without `mac`, the kernel fills in that of the first packet that matches. */
  'bitmap:ip,mac': { readonly ip: Ip; readonly mac?: string };
  /** A port, or `from-to`. */
  'bitmap:port': { readonly port: number | `${number}-${number}` };
  'hash:ip': { readonly ip: Ip };
  'hash:mac': { readonly mac: string };
  'hash:ip,mac': { readonly ip: Ip; readonly mac: string };
  'hash:net': { readonly net: Net };
  'hash:net,net': { readonly net: Net; readonly net2: Net };
  'hash:ip,port': { readonly ip: Ip; readonly port: Port };
  'hash:net,port': { readonly net: Net; readonly port: Port };
  'hash:ip,port,ip': { readonly ip: Ip; readonly port: Port; readonly ip2: Ip };
  'hash:ip,port,net': { readonly ip: Ip; readonly port: Port; readonly net: Net };
  'hash:ip,mark': { readonly ip: Ip; readonly mark: number };
  'hash:net,port,net': { readonly net: Net; readonly port: Port; readonly net2: Net };
  'hash:net,iface': NetIface;
  'list:set': Member;
}

/**
 * Optional data of an entry. Each needs the option of the same kind on the set; without it, ipset
 * refuses with NOT_ENABLED.
 */
export interface EntryOptions {
  /** Seconds; 0: does not expire. In the results of save and list: seconds left. */
  readonly timeout?: number;
  /** At most 2^64 - 2. */
  readonly packets?: bigint;
  readonly bytes?: bigint;
  /**
   * 1 to 255 bytes, without `"` and line ends. A comment of one word that starts with `-` is
   * refused: ipset would read it as an option.
   */
  readonly comment?: string;
  /** `0x10` or `0x10/0xff`. */
  readonly skbmark?: `0x${string}`;
  /** Hexadecimal `major:minor`. */
  readonly skbprio?: `${string}:${string}`;
  readonly skbqueue?: number;
}

/** The types whose entries can be exceptions. */
export type NetType =
  | 'hash:net'
  | 'hash:net,net'
  | 'hash:net,port'
  | 'hash:ip,port,net'
  | 'hash:net,port,net'
  | 'hash:net,iface';

interface Nomatch {
  /**
   * An exception: addresses that it covers are not in the set. A network is in a set only once,
   * either as an entry or as an exception.
   */
  readonly nomatch?: boolean;
}

interface Wildcard {
  /** `iface` is a prefix of a name. */
  readonly wildcard?: boolean;
}

type Flags<T extends SetType> = (T extends NetType ? Nomatch : unknown) &
  (T extends 'hash:net,iface' ? Wildcard : unknown);

/**
 * The argument of del. Options of an entry are ignored, so that an entry of save can be deleted
 * unchanged.
 */
export type Key<T extends SetType = SetType> = { [K in T]: Keys[K] }[T];

/** The argument of test. An exception is found only with `nomatch`. */
export type TestKey<T extends SetType = SetType> = {
  [K in T]: Keys[K] & (K extends NetType ? Nomatch : unknown);
}[T];

/** The argument of add, and the entries that save and list return. */
export type SetEntry<T extends SetType = SetType> = { [K in T]: Keys[K] & EntryOptions & Flags<K> }[T];

/** The fields of an entry, in the order in which ipset joins them with commas. */
export const FIELDS = {
  'bitmap:ip': ['ip'],
  'bitmap:ip,mac': ['ip', 'mac'],
  'bitmap:port': ['port'],
  'hash:ip': ['ip'],
  'hash:mac': ['mac'],
  'hash:ip,mac': ['ip', 'mac'],
  'hash:net': ['net'],
  'hash:net,net': ['net', 'net2'],
  'hash:ip,port': ['ip', 'port'],
  'hash:net,port': ['net', 'port'],
  'hash:ip,port,ip': ['ip', 'port', 'ip2'],
  'hash:ip,port,net': ['ip', 'port', 'net'],
  'hash:ip,mark': ['ip', 'mark'],
  'hash:net,port,net': ['net', 'port', 'net2'],
  'hash:net,iface': ['net', 'iface'],
  'list:set': ['set'],
} as const satisfies { readonly [T in SetType]: readonly string[] };

export type Field = (typeof FIELDS)[SetType][number];

/**
 * Options of an entry in the order in which ipset 7.17 prints them; the position in a list (before,
 * after) comes first.
 */
export const ENTRY_OPTIONS = [
  'before',
  'after',
  'timeout',
  'nomatch',
  'wildcard',
  'packets',
  'bytes',
  'comment',
  'skbmark',
  'skbprio',
  'skbqueue',
] as const;

export type EntryOption = (typeof ENTRY_OPTIONS)[number];

/** A set with all its entries, as returned by save. */
export type SavedSet<T extends SetType = SetType> = {
  [K in T]: SetDefinition<K> & { readonly entries: readonly SetEntry<K>[] };
}[T];

/** Information that list has beyond save. */
export interface SetStatus {
  /** Revision of the type in the kernel; later revisions have more features. */
  readonly revision: number;
  /** Kernel memory in bytes. */
  readonly memory: number;
  /**
   * References by rules and by sets of type list:set. With any, the set can be neither destroyed
   * nor renamed.
   */
  readonly references: number;
  /** May include expired entries until the kernel collects them. */
  readonly entryCount: number;
}

/** A set as returned by list; without entries if `terse`. */
export type ListedSet<T extends SetType = SetType> = { [K in T]: SavedSet<K> & SetStatus }[T];

/** Creates a set. */
export interface CreateOperation {
  readonly op: 'create';
  readonly set: SetDefinition;
}

/** Adds an entry to a set. */
export type AddOperation = {
  [T in SetType]: { readonly op: 'add'; readonly set: SetRef<T>; readonly entry: SetEntry<T> };
}[SetType];

/** Deletes an entry of a set, by its key. */
export type DelOperation = {
  [T in SetType]: { readonly op: 'del'; readonly set: SetRef<T>; readonly entry: Key<T> };
}[SetType];

/** Removes all entries of a set (flush), or the set itself (destroy). */
export interface NameOperation {
  readonly op: 'flush' | 'destroy';
  readonly name: string;
}

/** Exchanges two sets (swap), or renames one. */
export interface PairOperation {
  readonly op: 'swap' | 'rename';
  readonly from: string;
  readonly to: string;
}

/**
 * A line of `ipset restore`. Does not include tests: ipset accepts them there, but a failed one
 * ends everything without an error.
 */
export type RestoreOperation = CreateOperation | AddOperation | DelOperation | NameOperation | PairOperation;

/**
 * The operations that create saved sets. Lists come after the sets that they contain, since ipset
 * saves them in that order.
 */
export function toOperations(sets: readonly SavedSet[]): RestoreOperation[] {
  return sets.flatMap((set): RestoreOperation[] => [
    { op: 'create', set },
    ...set.entries.map((entry) => ({ op: 'add', set, entry }) as AddOperation),
  ]);
}
