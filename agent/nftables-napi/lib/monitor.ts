import {
  loadBinding,
  maximumReceiveBuffer,
  type NativeEvent,
  requireInteger,
  requireName,
  type TableFamily,
  toFamilyNumber,
} from './binding.ts';
import { Listening } from './closable.ts';
import { type ErrnoTable, type NftError, plainError, toErrnoTable } from './errors.ts';

/** An event of a monitor. */
export type MonitorEvent =
  | {
      /** One commit that changed the table. */
      kind: 'change';
      /** The generation that it created. */
      generation: number;
      /**
       * Name of the thread that committed ('nft'; libuv workers of this process have the name that
       * Node.js gave them).
       */
      processName: string | null;
    }
  /** The socket's buffer was full: an unknown number of events is lost. Compare the whole state. */
  | { kind: 'overrun' }
  /** The socket failed; no more events come. */
  | { kind: 'error'; error: NftError };

/** Options of a Monitor. */
export interface MonitorOptions {
  family: TableFamily;
  table: string;
  /**
   * Sets whose elements don't count: a commit that changed nothing else is not reported. Default:
   * none.
   */
  quietSets?: readonly string[];
  /**
   * Bytes that the socket may buffer for a slow reader. Default 64 MiB; memory is only used while
   * data waits.
   */
  receiveBuffer?: number;
}

const defaultReceiveBuffer = 64 * 1024 * 1024;

/**
 * Reports every commit that changes one table, by this process or any other. Listens to the
 * multicast group NFNLGRP_NFTABLES on a thread of its own, in the network namespace in which it is
 * created; a commit of any size is one call of the listener. Runs until close(), and keeps the
 * process alive unless unref() was called.
 *
 * The constructor throws a TypeError or RangeError for wrong options, an NftError if the socket
 * cannot be opened (EPERM without CAP_NET_ADMIN). An exception of the listener is uncaught.
 */
export class Monitor extends Listening {
  constructor(options: MonitorOptions, listener: (event: MonitorEvent) => void) {
    const binding = loadBinding();
    const { family, table, quietSets = [], receiveBuffer = defaultReceiveBuffer } = options;
    const number = toFamilyNumber(family, binding);
    requireName(table, 'table');
    if (!Array.isArray(quietSets)) throw new TypeError('quietSets must be an array');
    for (const set of quietSets) requireName(set, 'set');
    requireInteger(receiveBuffer, 'receiveBuffer', 1, maximumReceiveBuffer);
    if (typeof listener !== 'function') throw new TypeError('listener must be a function');
    const errnos = toErrnoTable(binding.errors);
    const tell = (event: NativeEvent): void => listener(toMonitorEvent(event, errnos));
    super(
      (whileOpen) => new binding.EventMonitor(number, table, quietSets, receiveBuffer, whileOpen(tell)),
      errnos,
    );
  }
}

function toMonitorEvent(event: NativeEvent, errnos: ErrnoTable): MonitorEvent {
  const { kind, errno, ...change } = event;
  if (kind === 0) return { kind: 'change', ...change };
  if (kind === 1) return { kind: 'overrun' };
  return { kind: 'error', error: plainError(errno, 'monitor', errnos) };
}
