import type { ConntrackTuple } from 'nftables-napi';
import { internetChecksum } from '../../lib/net/checksum.ts';

const TCP = 6;
const HOPS = 64;
/** Bytes. */
const HEADERS = { 4: 20, 6: 40 } as const;
const SEGMENT = 20;
/** SYN and ACK. */
const FLAGS = 0x12;
const AT = { offset: 12, flags: 13, checksum: 16 } as const;

/**
 * A SYN with ACK from a connection's server to its client, with sequence numbers of 0 (RFC 9293).
 * Null: the tuple has no ports.
 */
export function synAck(family: 4 | 6, tuple: ConntrackTuple): Uint8Array | null {
  const { source, destination, sourcePort, destinationPort } = tuple;
  if (sourcePort === null || destinationPort === null) return null;
  const segment = Buffer.alloc(SEGMENT);
  segment.writeUInt16BE(sourcePort, 0);
  segment.writeUInt16BE(destinationPort, 2);
  segment.writeUInt8((SEGMENT / 4) << 4, AT.offset);
  segment.writeUInt8(FLAGS, AT.flags);
  const covered = Buffer.concat([source, destination, Uint8Array.of(0, TCP, 0, SEGMENT), segment]);
  segment.writeUInt16BE(internetChecksum(covered), AT.checksum);
  const header = Buffer.alloc(HEADERS[family]);
  if (family === 4) {
    header.writeUInt8(0x45, 0);
    header.writeUInt16BE(header.length + SEGMENT, 2);
    header.writeUInt8(HOPS, 8);
    header.writeUInt8(TCP, 9);
    header.set(source, 12);
    header.set(destination, 16);
    header.writeUInt16BE(internetChecksum(header), 10);
  } else {
    header.writeUInt8(0x60, 0);
    header.writeUInt16BE(SEGMENT, 4);
    header.writeUInt8(TCP, 6);
    header.writeUInt8(HOPS, 7);
    header.set(source, 8);
    header.set(destination, 24);
  }
  return Buffer.concat([header, segment]);
}
