import type { SetType } from './set.ts';

/**
 * A protocol and its port, `tcp:80`, `udp:5000-5010`, `icmp:8/0`, `icmpv6:echo-request`, `gre:0`. A
 * number alone is a TCP port; it comes back as `tcp:80`. Names of services are refused: what they
 * stand for depends on the machine.
 */
export type Port = number | `${string}:${string}`;

/**
 * An address, and where ipset takes more than one at once (IPv4), `from-to` or `ip/cidr`. Host
 * names are refused: ipset would ask DNS.
 */
type Ip = string;

/**
 * An address, `ip/cidr`, or `from-to` (IPv4), which becomes the networks that cover it. Host bits
 * are cleared; /0 only fits hash:net,iface.
 */
type Net = string;

type Member =
  | { readonly set: string; readonly before?: string; readonly after?: never }
  | { readonly set: string; readonly before?: never; readonly after?: string };

interface NetIface {
  readonly net: Net;
  /** 15 bytes at most. */
  readonly iface: string;
  /** The bridge port, not the bridge. */
  readonly physdev?: boolean;
}

/** What an entry is found by, for each type. */
export interface Keys {
  'bitmap:ip': { readonly ip: Ip };
  /** Without `mac` the kernel fills in that of the first packet that matches. */
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
 * What an entry carries. Each needs the option of the same kind on the set; without it ipset
 * refuses with NOT_ENABLED.
 */
export interface EntryOptions {
  /** Seconds; 0: stays. In what save and list give: seconds left. */
  readonly timeout?: number;
  /** At most 2^64 - 2. */
  readonly packets?: bigint;
  readonly bytes?: bigint;
  /**
   * 1 to 255 bytes, without `"` and line ends. A comment that is one word and starts with `-` would
   * be read as an option of ipset.
   */
  readonly comment?: string;
  /** `0x10` or `0x10/0xff`. */
  readonly skbmark?: `0x${string}`;
  /** Hexadecimal `major:minor`. */
  readonly skbprio?: `${string}:${string}`;
  readonly skbqueue?: number;
}

/** The types whose entries may be exceptions. */
export type NetType =
  | 'hash:net'
  | 'hash:net,net'
  | 'hash:net,port'
  | 'hash:ip,port,net'
  | 'hash:net,port,net'
  | 'hash:net,iface';

interface Nomatch {
  /**
   * An exception: what it covers is not in the set. One network is in a set once, as the rule or as
   * the exception.
   */
  readonly nomatch?: boolean;
}

interface Wildcard {
  /** `iface` is the beginning of a name. */
  readonly wildcard?: boolean;
}

type Flags<T extends SetType> = (T extends NetType ? Nomatch : unknown) &
  (T extends 'hash:net,iface' ? Wildcard : unknown);

/**
 * What del takes. Options of an entry are ignored, so that what save gave can be deleted as it is.
 */
export type Key<T extends SetType = SetType> = { [K in T]: Keys[K] }[T];

/** What test takes: an exception is found only with `nomatch`. */
export type TestKey<T extends SetType = SetType> = {
  [K in T]: Keys[K] & (K extends NetType ? Nomatch : unknown);
}[T];

/** What add takes, and save and list give. */
export type Entry<T extends SetType = SetType> = { [K in T]: Keys[K] & EntryOptions & Flags<K> }[T];

/** The parts of an entry in the order in which ipset joins them by commas. */
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
 * In the order in which ipset 7.17 prints them; what stands before the entry's position in a list
 * comes first.
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
