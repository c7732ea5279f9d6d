import assert from 'node:assert/strict';
import type { ScannedConnection } from 'nftables-napi';
import { parseAddress } from '../../lib/net/address.ts';
import { packAddress } from '../../lib/net/member-set.ts';

/** A connection as a test says it; without ports it has none. */
export interface Ends {
  readonly src: string;
  readonly dst: string;
  readonly port?: number;
  /** After destination NAT. */
  readonly to?: string;
  readonly toPort?: number;
  readonly protocol?: number;
  readonly status?: number;
  readonly tcpState?: number;
  readonly icmpType?: number;
}

/** As the kernel's table has it. */
export function scannedConnection(ends: Ends): ScannedConnection {
  const { src, dst, port = -1, to = dst, toPort = port, protocol = 6, icmpType = -1 } = ends;
  const packed = [src, dst, to].map((text) => {
    const address = parseAddress(text);
    assert.ok(address !== null);
    return packAddress(address);
  });
  const width = packed[0]?.length ?? 0;
  return {
    bytes: Buffer.concat(packed),
    family: width === 4 ? 4 : 6,
    protocol,
    status: ends.status ?? 0,
    tcpState: ends.tcpState ?? (protocol === 6 ? 3 : -1),
    source: 0,
    destination: width,
    sourcePort: port < 0 ? -1 : 40_000,
    destinationPort: port,
    icmpType,
    icmpCode: icmpType < 0 ? -1 : 0,
    replySource: 2 * width,
    replySourcePort: toPort,
  };
}
