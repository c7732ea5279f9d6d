import type { ConntrackEvent } from 'nftables-napi';
import type { NodeEgress } from '../../../apis/egress/node-egress.ts';
import { formatAddress } from '../../../lib/net/address.ts';
import { present } from '../../../lib/sharing/present.ts';
import { addressOfBytes } from '../../connections/connection-flows.ts';
import { microsecondsText, type Protocol, protocolName } from '../../record/record.ts';
import { qualifiedPolicyText } from '../render/counted.ts';
import { policyOfConnection } from './connection-policy.ts';

/** The file in the state directory. */
export const EGRESS_RECORDS = 'egress-records.jsonl';

/** A line of it. */
export type EgressRecord = BindingRecord | GapRecord;

/** A connection began to leave by this gateway, or has ended. */
export interface BindingRecord {
  /** When the agent received the event: ISO 8601, microseconds. */
  readonly time: string;
  /** The gateway. */
  readonly node: string;
  readonly event: 'begun' | 'ended';
  /** The kernel's number of the connection: the same in both lines. */
  readonly id: number;
  readonly protocol: Protocol;
  /** The pod's address and port. Ports are absent where the protocol has none. */
  readonly src: string;
  readonly srcPort?: number;
  /** The pod's node; absent if it is no more known. */
  readonly podNode?: string;
  /** The policy that steers such connections now; only of pods on the gateway itself. */
  readonly policy?: string;
  /** The source address that the destination sees. */
  readonly address: string;
  readonly port?: number;
  readonly dst: string;
  readonly dstPort?: number;
  /** Bytes from and to the pod, with headers; of an ended connection, if the kernel counts. */
  readonly bytesOut?: number;
  readonly bytesIn?: number;
}

/**
 * Before it, connections may be missing. `start`: those that began before the agent listened.
 * `overrun`: the kernel discarded events that the agent was too slow for. `lost`: so many lines
 * could not be written.
 */
export interface GapRecord {
  readonly time: string;
  readonly node: string;
  readonly event: 'gap';
  readonly reason: 'start' | 'overrun' | 'lost';
  readonly lost?: number;
}

/** `wall`: microseconds since 1970. */
export function toBinding(
  { event, entry, id, bytes }: ConntrackEvent,
  node: string,
  egress: NodeEgress,
  wall: number,
): BindingRecord {
  const { original, reply, protocol } = entry;
  const [source, destination] = [addressOfBytes(original.source), addressOfBytes(reply.source)];
  const src = formatAddress(source);
  const isOwn = egress.sources.has(src);
  const podNode = isOwn ? node : egress.arrivals.get(src)?.node;
  const found = isOwn ? policyOfConnection(egress, source, destination) : null;
  return {
    time: microsecondsText(wall),
    node,
    event,
    id,
    protocol: protocolName(protocol),
    src,
    ...port('srcPort', original.sourcePort),
    ...present({ podNode }),
    ...(found === null ? {} : { policy: qualifiedPolicyText(found.policy) }),
    address: formatAddress(addressOfBytes(reply.destination)),
    ...port('port', reply.destinationPort),
    dst: formatAddress(destination),
    ...port('dstPort', reply.sourcePort),
    ...(event === 'begun' || bytes === null ? {} : { bytesOut: bytes.original, bytesIn: bytes.reply }),
  };
}

function port<Name extends string>(name: Name, value: number | null): { readonly [N in Name]?: number } {
  return value === null ? {} : ({ [name]: value } as { readonly [N in Name]?: number });
}
