import { type Binding, loadBinding, type NativeEvent } from './binding.ts';
import { type ErrnoTable, plainError, toErrnoTable, toNftError } from './errno.ts';
import type { NftError } from './errors.ts';
import type { Family } from './family.ts';
import { maximumReceiveBuffer, requireInteger } from './integer.ts';
import { Listening } from './listening.ts';
import { requireName, toFamilyNumber } from './name.ts';

/** The kinds of object a commit can touch. */
export type ObjectKind = 'table' | 'chain' | 'rule' | 'set' | 'element' | 'object' | 'flowtable';

/** What a monitor tells. */
export type MonitorEvent =
  | {
      /** One commit that touched the table. */
      kind: 'change';
      /** The generation it made. */
      generation: number;
      /**
       * Name of the thread that committed ('nft'; a libuv worker of ours has the name Node.js gave
       * it).
       */
      processName: string | null;
      /**
       * The kernel's id of that thread, in the first pid namespace: for nft it is the process, for
       * us it is not process.pid.
       */
      pid: number | null;
      /** Messages about the table. */
      touches: number;
      /** How many of each kind were added, changed or deleted; kinds without any are missing. */
      objects: Partial<Record<ObjectKind, number>>;
    }
  /** The socket's buffer was full: an unknown number of events is lost. Compare everything. */
  | { kind: 'overrun' }
  /** The socket failed; nothing more comes. */
  | { kind: 'error'; error: NftError };

/** What to listen to. */
export interface MonitorOptions {
  family: Family;
  table: string;
  /**
   * Bytes the socket may hold back for a slow reader. Default 64 MiB; memory is only used when
   * there is something to hold.
   */
  receiveBuffer?: number;
}

const defaultReceiveBuffer = 64 * 1024 * 1024;

/**
 * Tells of every commit that touched one table, ours and others'. Listens to the multicast group
 * NFNLGRP_NFTABLES on a thread of its own, in the network namespace the process is in when it is
 * made; a commit of any size is one call of the listener. Runs until close(), and keeps the process
 * alive unless unref() was called.
 *
 * Creating it throws TypeError or RangeError for wrong options, NftError when no socket can be had
 * (EPERM without CAP_NET_ADMIN). What the listener throws is an uncaught exception.
 */
export class Monitor extends Listening {
  /** `binding` is only given by tests. */
  constructor(
    options: MonitorOptions,
    listener: (event: MonitorEvent) => void,
    binding: Binding = loadBinding(),
  ) {
    const { family, table, receiveBuffer = defaultReceiveBuffer } = options;
    const number = toFamilyNumber(family, binding);
    requireName(table, 'table');
    requireInteger(receiveBuffer, 'receiveBuffer', 1, maximumReceiveBuffer);
    if (typeof listener !== 'function') throw new TypeError('listener must be a function');
    const errnos = toErrnoTable(binding.errors);
    const tell = (event: NativeEvent): void => listener(toMonitorEvent(event, errnos));
    super(
      (whileOpen) => new binding.EventMonitor(number, table, receiveBuffer, whileOpen(tell)),
      (error) => toNftError(error, errnos),
    );
  }
}

function toMonitorEvent(event: NativeEvent, errnos: ErrnoTable): MonitorEvent {
  const { kind, errno, ...change } = event;
  if (kind === 0) return { kind: 'change', ...change };
  if (kind === 1) return { kind: 'overrun' };
  return { kind: 'error', error: plainError(errno, 'monitor', errnos) };
}
