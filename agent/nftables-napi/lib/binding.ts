import { createRequire } from 'node:module';
import path from 'node:path';

/** The address family of a table, by nft's names. */
export type TableFamily = 'ip' | 'ip6' | 'inet' | 'arp' | 'bridge' | 'netdev';

/** The answer of Context.run(): libnftables' exit state, and both of its buffers. */
export interface NativeRun {
  succeeded: boolean;
  output: string;
  errors: string;
}

/** A libnftables context. */
export interface NativeContext {
  run(text: string, outputFlags: number): Promise<NativeRun>;
  close(): Promise<void>;
}

/** The answer of Socket.batch(); `build` and `kernel` in microseconds. */
interface NativeBatch {
  before: number;
  after: number;
  build: number;
  kernel: number;
  lastCounts: { operation: number; packets: bigint; bytes: bigint }[];
}

/** The answer of Socket.elements(). */
export interface NativeElements {
  keyLength: number;
  flags: number;
  keys: Uint8Array;
  ranges: Uint8Array;
  catchAll: boolean;
  isVerdictMap: boolean;
  verdictOf: Uint32Array;
  verdictCodes: Int32Array;
  verdictChains: string[];
}

/** A netlink socket. */
export interface NativeSocket {
  /** Packed records, see lib/record.ts. */
  batch(records: Uint8Array): Promise<NativeBatch>;
  elements(family: number, table: string, set: string): Promise<NativeElements | null>;
  /** JSON text; lib/snapshot.ts has its type. */
  snapshot(family: number, table: string): Promise<string>;
  /** The same for these chains, without sets. */
  chains(family: number, table: string, names: string[]): Promise<string>;
  generation(): Promise<number>;
  close(): Promise<void>;
}

/** The argument of an EventMonitor's listener. `kind`: 0 change, 1 overrun, 2 error. */
export interface NativeEvent {
  kind: number;
  errno: number;
  generation: number;
  processName: string | null;
}

/** A thread that listens on a netlink socket. */
export interface NativeMonitor {
  close(): Promise<void>;
  ref(): void;
  unref(): void;
}

/** An rtnetlink socket that sets groups of links. */
export interface NativeLinkSocket {
  /**
   * Returns the errno of each change, 0 for success. `from`: the group that the link must be in, or
   * -1.
   */
  setGroups(indices: Uint32Array, groups: Uint32Array, from: Float64Array): Promise<Uint32Array>;
  close(): Promise<void>;
}

/** The addon's `PacketSocket`. */
export interface NativePacketSocket {
  send(frame: Uint8Array): void;
  receive(): Uint8Array[];
  close(): Promise<void>;
}

/** A netlink socket of any protocol; the messages are as in the kernel's headers. */
export interface NativeRawSocket {
  dump(request: Uint8Array): Promise<void>;
  /** Empty at the end of the dump. */
  next(limit: number): Promise<Uint8Array>;
  /** The sequence number of each answer is the index of its request. */
  exchange(requests: Uint8Array): Promise<Uint8Array>;
  close(): Promise<void>;
}

/** A raw or datagram socket of ICMP or ICMPv6; messages are as on the wire, without IP header. */
export interface NativeEchoSocket {
  send(address: Uint8Array, message: Uint8Array): void;
  receive(): { source: Uint8Array; message: Uint8Array; age: number }[];
  close(): void;
}

/** A raw socket for whole IP packets. */
export interface NativeIpSocket {
  send(packet: Uint8Array): void;
  close(): void;
}

/** The argument of a RouteMonitor's listener. */
export interface NativeRouteBatch {
  /** Whole messages, as the kernel sent them. */
  messages: Uint8Array;
  overrun: boolean;
  /** 0, or the error after which no more messages come. */
  errno: number;
}

/** The argument of an Nflog's listener; lib/nflog.ts parses the records. */
export interface NativeNflogBatch {
  /**
   * Concatenated records: 12 words in the machine's byte order, then bytes; see src/core/nflog.h.
   */
  records: Uint8Array<ArrayBuffer>;
  /** The distinct prefixes of the records; a record has the index of its own. */
  prefixes: string[];
  lost: number;
  /** 0, or the error after which no more records come. */
  errno: number;
}

/** The addon's exports. The constants come from the system's headers. */
export interface Binding {
  Context: new () => NativeContext;
  Socket: new () => NativeSocket;
  EventMonitor: new (
    family: number,
    table: string,
    quietSets: readonly string[],
    receiveBuffer: number,
    listener: (event: NativeEvent) => void,
  ) => NativeMonitor;
  /** `device` and `peer` are empty for none. */
  EchoSocket: new (
    family: number,
    device: string,
    peer: Uint8Array,
    datagram: boolean,
  ) => NativeEchoSocket;
  IpSocket: new (family: number) => NativeIpSocket;
  LinkSocket: new () => NativeLinkSocket;
  Nflog: new (
    group: number,
    copyRange: number,
    queueThreshold: number,
    /** Unit: 1/100 s. */
    timeout: number,
    receiveBuffer: number,
    listener: (batch: NativeNflogBatch) => void,
  ) => NativeMonitor;
  /** Index of a link, and ETH_P_*. */
  PacketSocket: new (
    link: number,
    protocol: number,
  ) => NativePacketSocket;
  RawSocket: new (protocol: number) => NativeRawSocket;
  RouteMonitor: new (
    /** One bit for each multicast group, the first for group 1. */
    groups: number,
    receiveBuffer: number,
    /** NETLINK_*. */
    protocol: number,
    /** Milliseconds between two batches, at least. */
    pause: number,
    listener: (batch: NativeRouteBatch) => void,
  ) => NativeMonitor;
  families: Record<TableFamily, number>;
  outputFlags: Record<'json' | 'numeric', number>;
  verdicts: Record<'accept' | 'drop' | 'continue' | 'return' | 'jump' | 'goto', number>;
  setFlags: Record<
    'anonymous' | 'constant' | 'interval' | 'map' | 'timeout' | 'eval' | 'object' | 'concat',
    number
  >;
  /** All errors of this C library: errno, name and message. */
  errors: [errno: number, name: string, message: string][];
}

const root = path.join(import.meta.dirname, '..');

/** The paths at which the addon is looked for, in order of preference. */
export const addonPaths: readonly string[] = ['Release', 'Debug'].map((kind) =>
  path.join(root, 'build', kind, 'nftables_napi.node'),
);

/**
 * Loads the addon. Throws an Error that lists the paths tried and what to install; its `cause` is
 * the loader's error of a file that exists but does not load, else that of the first path.
 */
export function loadBinding(paths: readonly string[] = addonPaths): Binding {
  const require = createRequire(import.meta.url);
  const failures: Error[] = [];
  for (const file of paths) {
    try {
      return require(file);
    } catch (error) {
      failures.push(error instanceof Error ? error : new Error(String(error)));
    }
  }
  // A file that exists but does not load (a missing library, another machine) is more informative
  // than a missing file.
  const cause = failures.find((failure) => !isNotFound(failure)) ?? failures[0];
  const tried = paths.map((file, index) => `  ${file}: ${failures[index]?.message.split('\n')[0]}`);
  throw new Error(
    [
      'nftables-napi: the addon could not be loaded. Tried:',
      ...tried,
      'Build it with `npm run build -w nftables-napi`. On Debian and Ubuntu that needs',
      '`apt-get install g++ cmake ninja-build pkg-config libnftables-dev libnftnl-dev libmnl-dev`.',
    ].join('\n'),
    { cause },
  );
}

function isNotFound(error: Error): boolean {
  return 'code' in error && error.code === 'MODULE_NOT_FOUND';
}

/** The kernel's number of a family. Throws a TypeError for an unknown one. */
export function toFamilyNumber(family: TableFamily, binding: Binding): number {
  if (!Object.hasOwn(binding.families, family)) throw new TypeError(`unknown family ${String(family)}`);
  return binding.families[family];
}

/**
 * Checks a name: 1 to 255 bytes without NUL (NFT_NAME_MAXLEN is 256 with its NUL). Throws a
 * TypeError if it is not a string, else a RangeError.
 */
export function requireName(name: unknown, what: string): asserts name is string {
  if (typeof name !== 'string') throw new TypeError(`${what} must be a string, not ${typeof name}`);
  if (name === '' || (name.length > 85 && Buffer.byteLength(name) > 255) || name.includes('\0')) {
    throw new RangeError(`${what} must have 1 to 255 bytes and no NUL`);
  }
}

/** Maximum of SO_RCVBUF in bytes: the kernel doubles the value and must not overflow. */
export const maximumReceiveBuffer = 2 ** 30 - 1;

/**
 * Throws a TypeError if the value is not a number, a RangeError if it is not an integer from
 * `least` to `most`.
 */
export function requireInteger(value: unknown, what: string, least: number, most: number): void {
  if (typeof value !== 'number') throw new TypeError(`${what} must be a number, not ${typeof value}`);
  if (!Number.isInteger(value) || value < least || value > most) {
    throw new RangeError(`${what} must be an integer from ${least} to ${most}, not ${value}`);
  }
}
