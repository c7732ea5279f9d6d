import {
  type ConntrackEntry,
  CT_DELETE,
  CT_NEW,
  CTA,
  GENERIC_HEADER,
  type MarkFilter,
  readEntry,
} from './conntrack-entry.ts';
import { eachAttribute, type NetlinkMessage } from './netlink-message.ts';

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
export function toConntrackEvent(message: NetlinkMessage, { mark, mask }: MarkFilter): ConntrackEvent | null {
  const { type, view, start, end } = message;
  if ((type !== CT_NEW && type !== CT_DELETE) || end - start < GENERIC_HEADER) return null;
  const found = { mark: 0, id: 0, original: -1, reply: -1 };
  eachAttribute(view, start + GENERIC_HEADER, end, (attribute, from, to) => {
    if (attribute === CTA.mark && to - from === 4) found.mark = view.getUint32(from);
    else if (attribute === CTA.id && to - from === 4) found.id = view.getUint32(from);
    else if (attribute === COUNTERS.original) found.original = bytesIn(view, from, to);
    else if (attribute === COUNTERS.reply) found.reply = bytesIn(view, from, to);
  });
  if ((found.mark & mask) >>> 0 !== mark) return null;
  const entry = readEntry(message);
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
