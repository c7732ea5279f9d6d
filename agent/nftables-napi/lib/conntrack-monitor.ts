import { loadBinding, maximumReceiveBuffer, type NativeRouteBatch, requireInteger } from './binding.ts';
import { Listening } from './closable.ts';
import {
  type ConntrackEntry,
  CT_DELETE,
  CT_NEW,
  CTA,
  type MarkFilter,
  NFGENMSG_LENGTH,
  readConntrackEntry,
} from './conntrack-entry.ts';
import { ConntrackScan, type ScannedConnection } from './conntrack-scan.ts';
import { type NftError, plainError, toErrnoTable } from './errors.ts';
import { eachAttribute, type NetlinkMessage, netlinkMessages } from './netlink-message.ts';

/** A connection that began or ended. Shares memory with its batch: copy it to keep it. */
export interface ConntrackEvent {
  readonly event: 'begun' | 'ended';
  readonly entry: ConntrackEntry;
  /** The kernel's number of the entry, the same in both events. */
  readonly id: number;
  /**
   * Bytes of all packets with their headers, of an ended connection; null: the kernel counts none
   * (net.netfilter.nf_conntrack_acct = 0).
   */
  readonly bytes: { readonly original: number; readonly reply: number } | null;
}

/** enum ctattr_type. */
const COUNTERS = { original: 9, reply: 10 } as const;
/** enum ctattr_counters. */
const BYTES = 2;

/**
 * Null if the message is no such event, or not of a connection that is meant: most are not, so the
 * mark is read before the rest.
 */
function toConntrackEvent(message: NetlinkMessage, { mark, mask }: MarkFilter): ConntrackEvent | null {
  const { type, view, start, end } = message;
  if ((type !== CT_NEW && type !== CT_DELETE) || end - start < NFGENMSG_LENGTH) return null;
  const found = { mark: 0, id: 0, original: -1, reply: -1 };
  eachAttribute(view, start + NFGENMSG_LENGTH, end, (attribute, from, to) => {
    if (attribute === CTA.mark && to - from === 4) found.mark = view.getUint32(from);
    else if (attribute === CTA.id && to - from === 4) found.id = view.getUint32(from);
    else if (attribute === COUNTERS.original) found.original = bytesIn(view, from, to);
    else if (attribute === COUNTERS.reply) found.reply = bytesIn(view, from, to);
  });
  if ((found.mark & mask) >>> 0 !== mark) return null;
  const entry = readConntrackEntry(message);
  if (entry === null) return null;
  const { id, original, reply } = found;
  const bytes = original < 0 || reply < 0 ? null : { original, reply };
  return { event: type === CT_NEW ? 'begun' : 'ended', entry, id, bytes };
}

/** -1: there is no such number. */
function bytesIn(view: DataView, start: number, end: number): number {
  let bytes = -1;
  eachAttribute(view, start, end, (counter, from, to) => {
    if (counter === BYTES && to - from === 8) bytes = Number(view.getBigUint64(from));
  });
  return bytes;
}

/** The argument of one call of a conntrack monitor's listener. */
export interface ConntrackBatch {
  readonly events: readonly ConntrackEvent[];
  /** The socket's buffer was full: an unknown number of events is lost. */
  readonly overrun: boolean;
  /** The socket failed; no more events come. */
  readonly error: NftError | null;
}

export interface ConntrackMonitorOptions extends MarkFilter {
  /** Bytes that the socket may buffer for a slow reader. Default 8 MiB. */
  receiveBuffer?: number;
}

const defaultReceiveBuffer = 8 * 1024 * 1024;
/** NETLINK_NETFILTER of linux/netlink.h. */
const NETFILTER = 12;
/** NFNLGRP_CONNTRACK_NEW and NFNLGRP_CONNTRACK_DESTROY as bits. */
const GROUP_NEW = 1 << (1 - 1);
const GROUP_DESTROY = 1 << (3 - 1);

/**
 * Reports connections that begin and that end (ctnetlink) in the network namespace in which it is
 * created, on a thread of its own, in batches of at most 256 KiB; while the listener is busy, the
 * socket's buffer keeps further events. Runs until close(), and keeps the process alive unless
 * unref() was called.
 *
 * With net.netfilter.nf_conntrack_events = 2, the kernel's default, connections that began while
 * nobody listened have no events at all; with 0 none has any.
 *
 * Needs CAP_NET_ADMIN (else EPERM). The constructor throws a TypeError or RangeError for wrong
 * options, an NftError if the socket cannot be opened. An exception of the listener is uncaught.
 */
export class ConntrackMonitor extends Listening {
  constructor(options: ConntrackMonitorOptions, listener: (batch: ConntrackBatch) => void) {
    const binding = loadBinding();
    const { mark, mask, receiveBuffer = defaultReceiveBuffer } = options;
    requireInteger(receiveBuffer, 'receiveBuffer', 1, maximumReceiveBuffer);
    requireInteger(mask, 'mask', 0, 0xffff_ffff);
    requireInteger(mark, 'mark', 0, 0xffff_ffff);
    if (typeof listener !== 'function') throw new TypeError('listener must be a function');
    const errnos = toErrnoTable(binding.errors);
    const tell = ({ messages, overrun, errno }: NativeRouteBatch): void => {
      const events: ConntrackEvent[] = [];
      for (const message of netlinkMessages(messages)) {
        const event = toConntrackEvent(message, { mark, mask });
        if (event !== null) events.push(event);
      }
      const error = errno === 0 ? null : plainError(errno, 'conntrack monitor', errnos);
      if (events.length > 0 || overrun || error !== null) listener({ events, overrun, error });
    };
    super(
      (whileOpen) =>
        new binding.RouteMonitor(GROUP_NEW | GROUP_DESTROY, receiveBuffer, NETFILTER, 0, whileOpen(tell)),
      errnos,
    );
  }
}

/** The argument of one call of the listener. */
export interface BegunBatch {
  /**
   * Visits the connections that have begun, at most `most` events, as long as the listener is being
   * called; returns how many events it read.
   */
  readonly each: (visit: (connection: ScannedConnection) => void, most?: number) => number;
  /** The socket's buffer was full: an unknown number of events is lost. */
  readonly overrun: boolean;
  /** The socket failed; no more events come. */
  readonly error: NftError | null;
}

export interface BegunMonitorOptions {
  /** Bytes that the socket may buffer. Default 8 MiB, which is at least 8,000 events. */
  receiveBuffer?: number;
  /** Milliseconds between two calls of the listener, at least. Default 0. */
  pause?: number;
}

const LONGEST_PAUSE = 60_000;

/**
 * Reports all connections that begin (ctnetlink), for those who look at very many: the kernel makes
 * no messages of those that end, the thread wakes once in `pause`, and no object is made for an
 * event. What else is said of ConntrackMonitor is true here.
 */
export class BegunMonitor extends Listening {
  constructor(options: BegunMonitorOptions, listener: (batch: BegunBatch) => void) {
    const binding = loadBinding();
    const { receiveBuffer = defaultReceiveBuffer, pause = 0 } = options;
    requireInteger(receiveBuffer, 'receiveBuffer', 1, maximumReceiveBuffer);
    requireInteger(pause, 'pause', 0, LONGEST_PAUSE);
    if (typeof listener !== 'function') throw new TypeError('listener must be a function');
    const errnos = toErrnoTable(binding.errors);
    const scan = new ConntrackScan();
    const tell = ({ messages, overrun, errno }: NativeRouteBatch): void => {
      const error = errno === 0 ? null : plainError(errno, 'conntrack monitor', errnos);
      listener({ each: (visit, most) => scan.each(messages, visit, most), overrun, error });
    };
    super(
      (whileOpen) => new binding.RouteMonitor(GROUP_NEW, receiveBuffer, NETFILTER, pause, whileOpen(tell)),
      errnos,
    );
  }
}
