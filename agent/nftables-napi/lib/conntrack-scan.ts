import { CT_NEW, CTA, NFGENMSG_LENGTH } from './conntrack-entry.ts';
import { IS_LITTLE_ENDIAN } from './netlink-message.ts';

/**
 * A connection while it is visited: the object is the same for all of them, and the places are
 * those of `bytes`. It costs a tenth of a ConntrackEntry, for those who look at very many.
 */
export interface ScannedConnection {
  readonly bytes: Buffer;
  readonly family: 4 | 6;
  /** IP protocol number. */
  readonly protocol: number;
  /** IPS_* of linux/netfilter/nf_conntrack_common.h. */
  readonly status: number;
  /** TCP_CONNTRACK_* of linux/netfilter/nf_conntrack_tcp.h; -1 for other protocols. */
  readonly tcpState: number;
  /** Places of addresses (4 or 16 bytes), of the first packet. */
  readonly source: number;
  readonly destination: number;
  /** The source port of the first packet; -1: the protocol has none. */
  readonly sourcePort: number;
  readonly destinationPort: number;
  readonly icmpType: number;
  readonly icmpCode: number;
  /** Whom answers come from: after NAT, that is not `destination`. */
  readonly replySource: number;
  readonly replySourcePort: number;
}

/** enum ctattr_tuple, ctattr_protoinfo and ctattr_protoinfo_tcp. */
const TUPLE = { addresses: 1, protocol: 2 } as const;
const TCP_INFO = 1;
const TCP_STATE = 1;
/** NLMSG header: length and type. */
const HEADER = 16;
const ATTRIBUTE_HEADER = 4;
/** Without the flags for nests and byte order. */
const TYPE_MASK = 0x3fff;
const AF_INET = 2;

/** Visits connections in buffers of netlink messages, of a dump or of events. */
export class ConntrackScan {
  bytes: Buffer = Buffer.alloc(0);
  family: 4 | 6 = 4;
  protocol = 0;
  status = 0;
  tcpState = -1;
  source = -1;
  destination = -1;
  sourcePort = -1;
  destinationPort = -1;
  icmpType = -1;
  icmpCode = -1;
  replySource = -1;
  replySourcePort = -1;
  #view: DataView = new DataView(new ArrayBuffer(0));

  /**
   * Visits those of a buffer, at most `most` messages; returns how many messages it read. A part
   * that is no whole message ends it; a message without all addresses is not visited.
   */
  each(messages: Uint8Array, visit: (connection: ScannedConnection) => void, most = Infinity): number {
    const { buffer, byteOffset, length } = messages;
    this.bytes = Buffer.from(buffer, byteOffset, length);
    const view = new DataView(buffer, byteOffset, length);
    this.#view = view;
    let count = 0;
    for (let at = 0; at + HEADER <= length && count < most; count++) {
      const size = view.getUint32(at, IS_LITTLE_ENDIAN);
      if (size < HEADER || at + size > length) break;
      const type = view.getUint16(at + 4, IS_LITTLE_ENDIAN);
      if (type === CT_NEW && this.#read(at + HEADER, at + size)) visit(this);
      at += (size + 3) & ~3;
    }
    return count;
  }

  #read(start: number, end: number): boolean {
    if (end - start < NFGENMSG_LENGTH) return false;
    const view = this.#view;
    this.family = view.getUint8(start) === AF_INET ? 4 : 6;
    this.status = 0;
    this.tcpState = -1;
    this.protocol = 0;
    this.source = this.destination = this.replySource = -1;
    this.sourcePort = this.destinationPort = this.icmpType = this.icmpCode = this.replySourcePort = -1;
    for (let at = start + NFGENMSG_LENGTH; at + ATTRIBUTE_HEADER <= end; ) {
      const length = view.getUint16(at, IS_LITTLE_ENDIAN);
      if (length < ATTRIBUTE_HEADER || at + length > end) break;
      const [from, to] = [at + ATTRIBUTE_HEADER, at + length];
      switch (view.getUint16(at + 2, IS_LITTLE_ENDIAN) & TYPE_MASK) {
        case CTA.original:
          this.#readTuple(from, to, true);
          break;
        case CTA.reply:
          this.#readTuple(from, to, false);
          break;
        case CTA.status:
          if (to - from === 4) this.status = view.getUint32(from);
          break;
        case CTA.protocolInfo:
          this.#readTcpState(from, to);
          break;
      }
      at += (length + 3) & ~3;
    }
    return this.source >= 0 && this.destination >= 0 && this.replySource >= 0;
  }

  #readTuple(start: number, end: number, isOriginal: boolean): void {
    const view = this.#view;
    for (let at = start; at + ATTRIBUTE_HEADER <= end; ) {
      const length = view.getUint16(at, IS_LITTLE_ENDIAN);
      if (length < ATTRIBUTE_HEADER || at + length > end) return;
      const part = view.getUint16(at + 2, IS_LITTLE_ENDIAN) & TYPE_MASK;
      if (part === TUPLE.addresses) this.#readAddresses(at + ATTRIBUTE_HEADER, at + length, isOriginal);
      else if (part === TUPLE.protocol) this.#readProtocol(at + ATTRIBUTE_HEADER, at + length, isOriginal);
      at += (length + 3) & ~3;
    }
  }

  /** enum ctattr_ip: 1 and 2 for IPv4, 3 and 4 for IPv6. */
  #readAddresses(start: number, end: number, isOriginal: boolean): void {
    const view = this.#view;
    const width = this.family === 4 ? 4 : 16;
    for (let at = start; at + ATTRIBUTE_HEADER <= end; ) {
      const length = view.getUint16(at, IS_LITTLE_ENDIAN);
      if (length < ATTRIBUTE_HEADER || at + length > end) return;
      const type = view.getUint16(at + 2, IS_LITTLE_ENDIAN) & TYPE_MASK;
      const place = length - ATTRIBUTE_HEADER === width ? at + ATTRIBUTE_HEADER : -1;
      if (type === 1 || type === 3) {
        if (isOriginal) this.source = place;
        else this.replySource = place;
      } else if (isOriginal && (type === 2 || type === 4)) this.destination = place;
      at += (length + 3) & ~3;
    }
  }

  /** enum ctattr_l4proto. */
  #readProtocol(start: number, end: number, isOriginal: boolean): void {
    const view = this.#view;
    for (let at = start; at + ATTRIBUTE_HEADER < end; ) {
      const length = view.getUint16(at, IS_LITTLE_ENDIAN);
      if (length <= ATTRIBUTE_HEADER || at + length > end) return;
      const from = at + ATTRIBUTE_HEADER;
      const port = length - ATTRIBUTE_HEADER < 2 ? -1 : view.getUint16(from);
      switch (view.getUint16(at + 2, IS_LITTLE_ENDIAN) & TYPE_MASK) {
        case 1:
          if (isOriginal) this.protocol = view.getUint8(from);
          break;
        case 2:
          if (isOriginal) this.sourcePort = port;
          else this.replySourcePort = port;
          break;
        case 3:
          if (isOriginal) this.destinationPort = port;
          break;
        case 5:
        case 8:
          if (isOriginal) this.icmpType = view.getUint8(from);
          break;
        case 6:
        case 9:
          if (isOriginal) this.icmpCode = view.getUint8(from);
          break;
      }
      at += (length + 3) & ~3;
    }
  }

  #readTcpState(start: number, end: number): void {
    const view = this.#view;
    // CTA_PROTOINFO has CTA_PROTOINFO_TCP, which begins with its state.
    if (end - start < 2 * ATTRIBUTE_HEADER + 1) return;
    if ((view.getUint16(start + 2, IS_LITTLE_ENDIAN) & TYPE_MASK) !== TCP_INFO) return;
    const inner = start + ATTRIBUTE_HEADER;
    if ((view.getUint16(inner + 2, IS_LITTLE_ENDIAN) & TYPE_MASK) !== TCP_STATE) return;
    this.tcpState = view.getUint8(inner + ATTRIBUTE_HEADER);
  }
}
