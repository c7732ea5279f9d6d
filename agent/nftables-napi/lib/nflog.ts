import {
  type Binding,
  loadBinding,
  maximumReceiveBuffer,
  type NativeNflogBatch,
  requireInteger,
} from './binding.ts';
import { Listening } from './closable.ts';
import { type ErrnoTable, type NftError, plainError, toErrnoTable } from './errors.ts';

/** A packet that a rule with `log group N` logged. */
export interface NflogPacket {
  group: number;
  /** The rule's `log prefix`; empty without one. The kernel truncates it to 127 bytes. */
  prefix: string;
  /**
   * The packet from the network header on, up to copyRange bytes. Shares its memory with the batch:
   * copy it to keep it.
   */
  payload: Uint8Array;
  /**
   * Length of the whole packet in bytes if the kernel reports it; Linux 6.18 does not, so it is
   * payload.length. The IP header has the real length.
   */
  length: number;
  /**
   * 2 (NFPROTO_IPV4), 10 (NFPROTO_IPV6), or for other protocols (ARP in a bridge) the family of the
   * rule's hook.
   */
  family: number;
  /** NF_INET_*: 0 prerouting, 1 input, 2 forward, 3 output, 4 postrouting. */
  hook: number;
  /** Index of the link that it came in by; null if there is none. */
  inputInterface: number | null;
  /** Index of the link that it leaves by; null if there is none (yet). */
  outputInterface: number | null;
  /** When it arrived, in microseconds since 1970; null for packets of this host. */
  timestamp: number | null;
  /** The packet's number in this group, modulo 2 ** 32. */
  sequence: number | null;
  /** Its connection, in the original direction; null if the kernel does not report it. */
  original: NflogTuple | null;
}

/** The original direction of a connection. Addresses have 4 or 16 bytes. */
interface NflogTuple {
  source: Uint8Array;
  destination: Uint8Array;
  /** IPPROTO_*. */
  protocol: number;
  /** Null for protocols without ports. */
  sourcePort: number | null;
  destinationPort: number | null;
}

/** The packets that were readable at one time. */
export interface NflogBatch {
  /**
   * At most 1,024, in the order of logging. May be empty if packets were lost or the socket failed.
   */
  packets: readonly NflogPacket[];
  /** Packets known to be lost since the last batch, from gaps in their numbers. */
  lost: number;
  /**
   * The error if the socket failed and no more packets come, which is in the last batch only; else
   * null.
   */
  error: NftError | null;
}

/** Options of an Nflog. */
export interface NflogOptions {
  /** The number after `log group`, 0 to 65535. */
  group: number;
  /**
   * Bytes to copy of each packet, 1 to 65531. Default 128: the headers. A rule's own `snaplen` can
   * reduce it.
   */
  copyRange?: number;
  /**
   * Packets that the kernel collects before it passes them on, 1 to 1024. Default 64. Fewer if they
   * exceed 128 KiB (with 200 bytes for each besides its payload), or if a rule's own
   * `queue-threshold` says so.
   */
  queueThreshold?: number;
  /** Milliseconds after which it passes on fewer, rounded up to tens. Default 10. */
  flushInterval?: number;
  /** Bytes that the socket may buffer for a slow reader. Default 8 MiB. */
  receiveBuffer?: number;
}

const defaultReceiveBuffer = 8 * 1024 * 1024;

/**
 * Receives the packets of one group of nfnetlink_log, in the network namespace in which it is
 * created, on a thread of its own. All packets that are readable at one time, at most 1,024, go to
 * one call of the listener. While it is busy, the socket's buffer keeps further packets; when that
 * is full, the kernel drops packets (from the log, not from the network), and `lost` of a later
 * batch counts them. Runs until close(), and keeps the process alive unless unref() was called.
 *
 * The constructor throws a TypeError or RangeError for wrong options, an NftError if the group is
 * not available: EBUSY if another socket listens to it, EPERM without CAP_NET_ADMIN. An exception
 * of the listener is uncaught.
 */
export class Nflog extends Listening {
  /** `binding` is for tests only. */
  constructor(
    options: NflogOptions,
    listener: (batch: NflogBatch) => void,
    binding: Binding = loadBinding(),
  ) {
    const { group, copyRange = 128, queueThreshold = 64, flushInterval = 10 } = options;
    const { receiveBuffer = defaultReceiveBuffer } = options;
    requireInteger(group, 'group', 0, 65_535);
    requireInteger(copyRange, 'copyRange', 1, 65_531);
    requireInteger(queueThreshold, 'queueThreshold', 1, 1024);
    requireInteger(flushInterval, 'flushInterval', 1, 3_600_000);
    requireInteger(receiveBuffer, 'receiveBuffer', 1, maximumReceiveBuffer);
    if (typeof listener !== 'function') throw new TypeError('listener must be a function');
    const errnos = toErrnoTable(binding.errors);
    const timeout = Math.ceil(flushInterval / 10);
    const tell = (batch: NativeNflogBatch): void => listener(toNflogBatch(batch, group, errnos));
    super(
      (whileOpen) =>
        new binding.Nflog(group, copyRange, queueThreshold, timeout, receiveBuffer, whileOpen(tell)),
      errnos,
      () => `nflog group ${group}`,
    );
  }
}

function toNflogBatch(batch: NativeNflogBatch, group: number, errnos: ErrnoTable): NflogBatch {
  const { records, prefixes, lost, errno } = batch;
  const words = new Uint32Array(records.buffer, records.byteOffset, records.length >> 2);
  const packets: NflogPacket[] = [];
  let at = 0;
  while (at < words.length) {
    packets.push(toNflogPacket(words, at, records, prefixes, group));
    at += (words[at] ?? 0) >> 2;
  }
  const error = errno === 0 ? null : plainError(errno, `nflog group ${group}`, errnos);
  return { packets, lost, error };
}

// Flag bits of a record, and its length in bytes without addresses and payload, as in
// src/core/nflog.h.
const hasTimestamp = 1;
const hasSequence = 2;
const hasOriginal = 4;
const hasPorts = 8;
const headBytes = 48;

function toNflogPacket(
  words: Uint32Array,
  at: number,
  bytes: Uint8Array<ArrayBuffer>,
  prefixes: readonly string[],
  group: number,
): NflogPacket {
  const word = (index: number): number => words[at + index] ?? 0;
  const flags = word(4) >>> 16;
  const tuple = word(10);
  const addressLength = tuple >>> 8;
  const addresses = at * 4 + headBytes;
  const start = addresses + 2 * addressLength;
  const payload = bytes.subarray(start, start + word(1));
  const ports = (flags & hasPorts) !== 0;
  return {
    group,
    prefix: prefixes[word(2)] ?? '',
    payload,
    length: payload.length,
    family: toIpFamily(word(4) & 0xffff) ?? word(3) & 0xff,
    hook: word(3) >>> 8,
    inputInterface: word(5) || null,
    outputInterface: word(6) || null,
    timestamp: flags & hasTimestamp ? word(7) * 1_000_000 + word(8) : null,
    sequence: flags & hasSequence ? word(9) : null,
    original:
      flags & hasOriginal
        ? {
            source: bytes.subarray(addresses, addresses + addressLength),
            destination: bytes.subarray(addresses + addressLength, start),
            protocol: tuple & 0xff,
            sourcePort: ports ? word(11) >>> 16 : null,
            destinationPort: ports ? word(11) & 0xffff : null,
          }
        : null,
  };
}

/** The IP family by EtherType, since the hook's family is `bridge` or `netdev` for some packets. */
function toIpFamily(etherType: number): number | null {
  if (etherType === 0x0800) return 2;
  return etherType === 0x86dd ? 10 : null;
}
