import type { ConntrackEvent } from 'nftables-napi';
import type {
  DestinationRange,
  EgressOutcome,
  EgressPolicyName,
  NodeEgress,
} from '../../../apis/egress/node-egress.ts';
import { type Address, formatAddress } from '../../../lib/net/address.ts';
import { compareText } from '../../../lib/sharing/lists.ts';
import { present } from '../../../lib/sharing/present.ts';
import { addressOfBytes } from '../../connections/connection-flows.ts';
import { microsecondsText, type Protocol, protocolName } from '../../record/record.ts';
import { qualifiedPolicyText } from '../render/counted.ts';

/** The file in the state directory. */
export const EGRESS_RECORDS = 'egress-records.jsonl';

/** A line of it. */
export type EgressRecord = BindingRecord | GapRecord;

/** A connection began to leave by this gateway, or has ended. */
interface BindingRecord {
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

/** Fates of records, for the metrics. */
export type RecordOutcome = 'begun' | 'ended' | 'lost';

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

/** A connection that left by a gateway, from its two lines. */
export interface GatewayBinding extends Omit<BindingRecord, 'time' | 'event'> {
  /** Null: before the first line that there is. */
  readonly begun: string | null;
  /** Null: it goes on, or its end was not recorded. */
  readonly ended: string | null;
}

interface BindingQuery {
  /** As the destination saw it, in its canonical form. */
  readonly address: string;
  /** Undefined: any. */
  readonly port: number | undefined;
  /** Milliseconds since 1970, both inclusive; null: any time. */
  readonly during: { readonly from: number; readonly to: number } | null;
}

export interface Found {
  /** In the order in which they began. */
  readonly bindings: readonly GatewayBinding[];
  /** Where connections may be missing. */
  readonly gaps: readonly GapRecord[];
  /** Lines that are no records. */
  readonly bad: number;
}

/**
 * The connections that had an address and port at a time. Memory grows with those that had the
 * address, and with gaps, not with the records.
 */
export async function findBindings(
  lines: AsyncIterable<string | null>,
  { address, port, during }: BindingQuery,
): Promise<Found> {
  const bindings = new Map<string, GatewayBinding>();
  const done: GatewayBinding[] = [];
  const gaps: GapRecord[] = [];
  let bad = 0;
  for await (const line of lines) {
    if (line === null) continue;
    const record = toRecord(line);
    if (record === null) bad++;
    else if (record.event === 'gap') gaps.push(record);
    else if (record.address === address && (port === undefined || record.port === port)) {
      const { time, event, ...rest } = record;
      const key = keyOf(record);
      const open = bindings.get(key);
      if (event === 'begun') bindings.set(key, { ...rest, begun: time, ended: null });
      else {
        bindings.delete(key);
        done.push({ ...open, ...rest, begun: open?.begun ?? null, ended: time });
      }
    }
  }
  const all = [...done, ...bindings.values()].filter((one) => during === null || overlaps(one, during));
  return { bindings: all.sort((a, b) => compareText(startOf(a), startOf(b))), gaps, bad };
}

function overlaps({ begun, ended }: GatewayBinding, { from, to }: { from: number; to: number }): boolean {
  return (begun === null || Date.parse(begun) <= to) && (ended === null || Date.parse(ended) >= from);
}

function startOf({ begun, ended }: GatewayBinding): string {
  return begun ?? ended ?? '';
}

/** The kernel may give an id again; not to the same addresses and ports at one time. */
function keyOf({ id, protocol, src, srcPort, port, dst, dstPort }: BindingRecord): string {
  return [id, protocol, src, srcPort, port, dst, dstPort].join(' ');
}

const EVENTS: ReadonlySet<unknown> = new Set(['begun', 'ended', 'gap']);

function toRecord(line: string): EgressRecord | null {
  try {
    const value: unknown = JSON.parse(line);
    if (typeof value !== 'object' || value === null || !('event' in value)) return null;
    return EVENTS.has(value.event) ? (value as EgressRecord) : null;
  } catch {
    return null; // counted as bad: half a line after a crash, or a line of another program
  }
}

/** The policy that decides about new connections, and what it does. */
export interface PolicyOfConnection {
  readonly policy: EgressPolicyName;
  readonly action: EgressOutcome['action'];
  /** Whether it ends what began before it by another way. */
  readonly rechecks: boolean;
}

/**
 * The policy by which a node steers new connections of a local source to a destination outside of
 * the cluster. Null: none, or the source is not on this node.
 */
export function policyOfConnection(
  { sources, subnets, classes, outcomes }: NodeEgress,
  source: Address,
  destination: Address,
): PolicyOfConnection | null {
  const known = sources.get(formatAddress(source));
  if (known === null) return null;
  const id = known ?? subnets.find((subnet) => isWithin(source, subnet))?.class;
  const found = classes.get(id ?? '');
  if (found === undefined) return null;
  const ranges = destination.family === 4 ? found.ipv4 : found.ipv6;
  const outcome = outcomes.get(rangeOf(ranges, destination.value)?.outcome ?? '');
  if (outcome === undefined || outcome.policy === null) return null;
  const { policy, action, established } = outcome;
  return { policy, action, rechecks: established === 'Recheck' };
}

function isWithin({ family, value }: Address, subnet: NodeEgress['subnets'][number]): boolean {
  return family === subnet.family && subnet.range.first <= value && value <= subnet.range.last;
}

/** Ranges are disjoint and sorted. */
function rangeOf(ranges: readonly DestinationRange[], value: bigint): DestinationRange | undefined {
  let [low, high] = [0, ranges.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    const range = ranges[middle]?.range;
    if (range === undefined || value < range.first) high = middle;
    else if (value > range.last) low = middle + 1;
    else return ranges[middle];
  }
  return undefined;
}
