import { maximumReceiveBuffer, requireInteger } from './arguments.ts';
import { type Binding, loadBinding, type NativeRouteBatch } from './binding.ts';
import { ConntrackScan, type ScannedConnection } from './conntrack-scan.ts';
import { plainError, toErrnoTable, toNftError } from './errno.ts';
import type { NftError } from './errors.ts';
import { Listening } from './listening.ts';

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

const defaultReceiveBuffer = 8 * 1024 * 1024;
const LONGEST_PAUSE = 60_000;
/** NETLINK_NETFILTER of linux/netlink.h, and NFNLGRP_CONNTRACK_NEW as a bit. */
const NETFILTER = 12;
const GROUPS = 1 << (1 - 1);

/**
 * Reports all connections that begin (ctnetlink), for those who look at very many: the kernel makes
 * no messages of those that end, the thread wakes once in `pause`, and no object is made for an
 * event. What else is said of ConntrackMonitor is true here.
 */
export class BegunMonitor extends Listening {
  /** `binding` is for tests only. */
  constructor(
    options: BegunMonitorOptions,
    listener: (batch: BegunBatch) => void,
    binding: Binding = loadBinding(),
  ) {
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
      (whileOpen) => new binding.RouteMonitor(GROUPS, receiveBuffer, NETFILTER, pause, whileOpen(tell)),
      (error) => toNftError(error, errnos),
    );
  }
}
