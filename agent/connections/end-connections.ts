import type { Conntrack, NftError, TcpSocketName, TcpSockets } from 'nftables-napi';
import { formatAddress } from '../../lib/net/address.ts';
import { present } from '../../lib/sharing/present.ts';
import { ruleFields } from '../record/reader.ts';
import {
  type ConnectionRecord,
  type EndReason,
  microsecondsText,
  type Protocol,
  protocolName,
} from '../record/record.ts';
import { addressOfBytes } from './connection-flows.ts';
import type { ConnectionJudge, Denial } from './connection-judge.ts';

export interface EndOptions {
  readonly conntrack: Pick<Conntrack, 'entries' | 'delete'>;
  /** Null: sockets stay; a program that sends may go on with what the rules let out. */
  readonly sockets: Pick<TcpSockets, 'destroy'> | null;
  readonly judge: ConnectionJudge;
  /** Nothing is ended; `ended` is called for what would be. */
  readonly isDryRun: boolean;
  /** Called for the connections that were ended, at most a chunk's at a time. */
  readonly ended: (denials: readonly Denial[]) => void | Promise<void>;
  /** Called after each chunk. */
  readonly progress?: (so: EndSummary) => void | Promise<void>;
  readonly signal: AbortSignal;
}

export interface EndSummary {
  /** Connections that the kernel tracks. */
  examined: number;
  ended: number;
  /** Connections that the kernel refused to end. */
  failed: number;
  /** The first refusal; null: none. */
  error: Error | null;
}

/** A connection of a pod that was ended because of its egress policy. */
export interface ResetConnection {
  readonly protocol: Protocol;
  readonly src: string;
  readonly srcPort: number | null;
  readonly dst: string;
  readonly dstPort: number | null;
  /** Whether it left by a gateway; false: it began before its policy, or while rules were away. */
  readonly steered: boolean;
}

/**
 * Reads the kernel's table of connections once, and ends those that the rules deny: first their TCP
 * sockets on this node, which reset the other end, then their entries. Without the first step, a
 * program that goes on sending would make its connection a new one in the other direction
 * (nf_conntrack_tcp_loose), which other rules judge. The caller's other work runs between chunks.
 * Throws if the table cannot be read, or the signal is aborted.
 */
export async function endConnections(options: EndOptions): Promise<EndSummary> {
  const { conntrack, judge, isDryRun, ended, progress, signal } = options;
  const summary: EndSummary = { examined: 0, ended: 0, failed: 0, error: null };
  for await (const entries of conntrack.entries()) {
    signal.throwIfAborted();
    summary.examined += entries.length;
    const denials = entries.flatMap((entry) => judge(entry) ?? []);
    const done = isDryRun || denials.length === 0 ? denials : await endAll(denials, options, summary);
    summary.ended += done.length;
    if (done.length > 0) await ended(done);
    await progress?.(summary);
  }
  return summary;
}

async function endAll(
  denials: readonly Denial[],
  { conntrack, sockets }: EndOptions,
  summary: EndSummary,
): Promise<readonly Denial[]> {
  const names = denials.flatMap(socketNames);
  if (names.length > 0) {
    const refused = (await sockets?.destroy(names))?.find(
      (error) => error !== null && error.code !== 'ENOENT',
    );
    summary.error ??= refused ?? null;
  }
  const results = await conntrack.delete(denials.map(({ entry }) => entry));
  return endedOf(denials, results, summary);
}

/** The items that were ended, by the kernel's results; counts those that it refused to end. */
export function endedOf<Item>(
  items: readonly Item[],
  results: readonly (NftError | null)[],
  summary: EndSummary,
): Item[] {
  return items.filter((_, i) => {
    const error = results[i] ?? null;
    // It has ended meanwhile.
    if (error === null || error.code === 'ENOENT') return error === null;
    summary.failed++;
    summary.error ??= error;
    return false;
  });
}

const TCP = 6;

/**
 * The sockets that this node may have for a connection: it sees addresses as its direction does.
 */
function socketNames({ entry: { protocol, original, reply }, flow }: Denial): TcpSocketName[] {
  if (protocol !== TCP || flow.traffic === 'NodePort') return [];
  const { source, destination, sourcePort, destinationPort } = flow.direction === 'egress' ? original : reply;
  if (sourcePort === null || destinationPort === null) return [];
  return [{ local: source, localPort: sourcePort, remote: destination, remotePort: destinationPort }];
}

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
