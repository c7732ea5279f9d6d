/**
 * Floods a port of the node while something happens, and counts what got past the firewall.
 *
 * Every packet opens a new connection (the source port changes), so the count is of packets that
 * the rules let through, not of what follows on a connection that leaked once.
 */
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import type { Namespace } from '../netns/namespace.ts';
import type { Topology } from '../netns/topology.ts';
import { probeProgram } from '../probe/probe.ts';
import { counterTable, deleteTable, loadTable, readCounters } from './nwprobe.ts';

/**
 * NODEWALL_LONG_FLOODS=1 makes floods ten times as long and as fast as they can be
 * (floods.long.ts).
 */
const isLong = (): boolean => process.env.NODEWALL_LONG_FLOODS === '1';
/**
 * Packets a second. Other tests run beside: this leaves them the processors, and no gap of 0.1 ms
 * is missed.
 */
const DEFAULT_RATE = 10_000;

/** How long (milliseconds) a flood lasts that takes so long in `npm test`. */
export function floodTime(milliseconds: number): number {
  return isLong() ? 10 * milliseconds : milliseconds;
}

/** The node, and who floods it. */
export type Flooded = Pick<Topology, 'node' | 'clients' | 'plan'>;

export interface FloodTarget {
  readonly protocol: 'tcp' | 'udp';
  readonly port: number;
  readonly family: 4 | 6;
  /** Index of the client that sends; default 0. */
  readonly client?: number;
  /** Packets a second; default DEFAULT_RATE, or as fast as possible in long floods. */
  readonly rate?: number;
  /** Destination NAT hands it to a pod. */
  readonly forwarded?: boolean;
}

export interface FloodCount {
  /** Packets sent while the action ran. */
  readonly sent: number;
  /** Those that reached the node's input hook; of forwarded ones, its prerouting hook. */
  readonly arrived: number;
  /** Those that passed every chain of the node's firewall. */
  readonly passed: number;
}

/** Floods a port that must be closed throughout: `leaked` must be 0. */
export async function leakedDuring(
  topology: Flooded,
  target: FloodTarget,
  action: () => Promise<void>,
): Promise<{ sent: number; leaked: number }> {
  const [count] = await passedDuring(topology, [target], action);
  if (count === undefined) throw new Error('no flood');
  return { sent: count.sent, leaked: count.passed };
}

/** Floods several ports at once; the counts are in the order of the targets. */
export async function passedDuring(
  topology: Flooded,
  targets: readonly FloodTarget[],
  /** Is given a function that reads how many packets have passed so far, per target. */
  action: (passed: () => Promise<number[]>) => Promise<void>,
): Promise<FloodCount[]> {
  const { node } = topology;
  await loadTable(node, 'nwflood', counterTable(targets));
  try {
    const floods = await Promise.all(targets.map((target) => startFlood(topology, target)));
    let sent: number[];
    try {
      await action(async () => (await readCounters(node, 'nwflood')).slice(targets.length));
    } finally {
      sent = await Promise.all(floods.map((finish) => finish()));
    }
    const counts = await readCounters(node, 'nwflood');
    const at = (index: number) => counts[index] ?? Number.NaN;
    return targets.map((_, i) => ({
      sent: sent[i] ?? Number.NaN,
      arrived: at(i),
      passed: at(targets.length + i),
    }));
  } finally {
    await deleteTable(node, 'nwflood');
  }
}

async function startFlood({ clients, plan }: Flooded, target: FloodTarget) {
  const index = target.client ?? 0;
  const client = clients[index];
  const from = plan.clientAddresses.find((address) => address.client === index);
  const to = plan.nodeAddresses[0];
  if (client === undefined || from === undefined || to === undefined) throw new Error(`no client ${index}`);
  const [src, dst] = target.family === 4 ? [from.v4, to.v4] : [from.v6, to.v6];
  const rate = target.rate ?? (isLong() ? null : DEFAULT_RATE);
  return await flood(client, { src, dst, protocol: PROTOCOLS[target.protocol], port: target.port, rate });
}

const PROTOCOLS = { tcp: 6, udp: 17 } as const;

interface SentFlood {
  readonly src: string;
  readonly dst: string;
  /** Its number. */
  readonly protocol: number;
  readonly port: number;
  /** Packets a second; null: as fast as possible. */
  readonly rate: number | null;
}

/**
 * Sends packets, each of a new connection, until the returned function is called, which gives their
 * number.
 */
export async function flood(from: Namespace, what: SentFlood): Promise<() => Promise<number>> {
  const { src, dst, protocol, port, rate } = what;
  const child = from.spawn([
    ...[await probeProgram(), 'flood', '--src', src, '--dst', dst, '--protocol', `${protocol}`],
    ...['--port', `${port}`, ...(rate === null ? [] : ['--rate', `${rate}`])],
  ]);
  const lines = createInterface({ input: child.stdout });
  let last = '';
  lines.on('line', (line) => {
    last = line;
  });
  const closed = once(child, 'close');
  await Promise.race([once(lines, 'line'), closed]);
  return async () => {
    child.kill('SIGTERM');
    await closed;
    const { sent }: { sent?: number } = JSON.parse(last);
    if (sent === undefined) throw new Error(`the flood ended early: ${last}`);
    return sent;
  };
}
