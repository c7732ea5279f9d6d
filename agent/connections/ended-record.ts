import { formatAddress } from '../../lib/net/address.ts';
import { present } from '../../lib/sharing/present.ts';
import { protocolName } from '../record/packet.ts';
import { ruleFields } from '../record/reader.ts';
import { type ConnectionRecord, type EndReason, microsecondsText } from '../record/record.ts';
import { addressOfBytes } from './connection-flows.ts';
import type { Denial } from './connection-judge.ts';

/** Why connections are ended, and at whose command. */
export interface EndCause {
  readonly reason: EndReason;
  /** The user; absent without one. */
  readonly by?: string;
}

/**
 * The flow log's record of a connection that was ended, with the fields that the record of its
 * first packet had. `wall`: microseconds since 1970.
 */
export function endedRecord(
  { entry: { protocol, original, reply }, rule }: Denial,
  node: string,
  cause: EndCause,
  wall: number,
): ConnectionRecord {
  const [src, dst, originalDst] = [original.source, reply.source, original.destination].map((bytes) =>
    formatAddress(addressOfBytes(bytes)),
  );
  const { sourcePort: srcPort, destinationPort: originalDstPort, icmpType, icmpCode } = original;
  const dstPort = reply.sourcePort;
  const isTranslated = originalDst !== dst || originalDstPort !== dstPort;
  return {
    time: microsecondsText(wall),
    node,
    event: 'ended',
    ...cause,
    verdict: rule.action,
    ...ruleFields(rule),
    ...present({ src, dst }),
    protocol: protocolName(protocol),
    ...(srcPort === null || dstPort === null ? {} : { srcPort, dstPort }),
    ...(icmpType === null ? {} : { icmpType }),
    ...(icmpCode === null ? {} : { icmpCode }),
    ...(isTranslated && originalDst !== undefined ? { originalDst } : {}),
    ...(isTranslated && originalDstPort !== null ? { originalDstPort } : {}),
  };
}
