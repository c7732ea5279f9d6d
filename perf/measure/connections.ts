import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { setTimeout as pause } from 'node:timers/promises';
import type { Namespace } from '../../test/netns/namespace.ts';
import { addressPlan, createTopology } from '../../test/netns/topology.ts';
import { probeProgram } from '../../test/probe/probe.ts';
import type { Connection } from '../generate/ruleset.ts';

/** On one processor, before others that want it. */
export const ALONE = ['nice', '-n', '-20', 'taskset', '-c', '1'] as const;

export interface Rate {
  readonly perSecond: number;
  /** Processor time of the whole machine a connection, µs; other work on the machine included. */
  readonly busy: number;
  /**
   * Processor time of client and server a connection, µs, the packets' way through the kernel
   * included, since it runs on their account; other work is not in it. (A kernel with
   * IRQ_TIME_ACCOUNTING books soft interrupts apart: there `busy` alone has them.)
   */
  readonly own: number;
}

export interface Place {
  readonly connection: Pick<Connection, 'destination' | 'port'>;
  /** Loads the firewall. */
  load(node: Namespace): Promise<void>;
}

/** A client and a node with a firewall, in namespaces of their own, ready to be measured. */
export interface Bench {
  /**
   * Connections one after the other (`test/probe crr`), client and server on one processor. Throws
   * where one failed, or where connection tracking came near its limit (measurements.md: then the
   * figures collapse); the limit is the machine's, and is left alone.
   */
  measure(seconds: number): Promise<Rate>;
  close(): Promise<void>;
}

/** Loads the firewall, starts the server, and opens the first connections. */
export async function openBench({ connection, load }: Place): Promise<Bench> {
  const topology = await createTopology(addressPlan({ clients: 1, nodeAddresses: 1, addressesPerClient: 1 }));
  try {
    const [client] = topology.clients;
    if (client === undefined) throw new Error('no client');
    await load(topology.node);
    const measure = await openConnections({ connection, client, server: topology.node, on: [topology.node] });
    return { measure, close: topology.close };
  } catch (error) {
    await topology.close();
    throw error;
  }
}

interface Between {
  readonly connection: Pick<Connection, 'destination' | 'port'>;
  readonly client: Namespace;
  readonly server: Namespace;
  /** Where connections are tracked. */
  readonly on: readonly Namespace[];
}

/** Starts a server and opens the first connections. The server ends with its namespace. */
export async function openConnections({
  connection,
  client,
  server: place,
  on,
}: Between): Promise<Bench['measure']> {
  const probe = await probeProgram();
  const port = String(connection.port);
  const server = place.spawn([...ALONE, probe, 'serve', '--port', port]);
  await once(server.stdout, 'data');
  const target = ['--dst', connection.destination, '--port', port];
  const crr = (time: number) => client.run([...ALONE, probe, 'crr', ...target, '--seconds', String(time)]);
  await crr(0.2);
  await pause(100);
  return async (seconds) => {
    for (const one of on) await one.run(['conntrack', '-F']);
    const before = await runTime(server.pid);
    const { stdout } = await crr(seconds);
    const served = (await runTime(server.pid)) - before;
    for (const one of on) await checkTracked(one);
    return rateOf(stdout, served);
  };
}

/** One measurement in namespaces of its own. */
export async function rateTrial({ seconds, ...place }: Place & { readonly seconds: number }): Promise<Rate> {
  const bench = await openBench(place);
  try {
    return await bench.measure(seconds);
  } finally {
    await bench.close();
  }
}

export interface Turns<Name extends string> {
  readonly connection: Place['connection'];
  /** A firewall each. */
  readonly names: readonly Name[];
  load(node: Namespace, name: Name): Promise<void>;
  /** Fresh namespaces and firewalls. */
  readonly rounds: number;
  /** In each of them, short and by turns: what else the machine does changes slower than that. */
  readonly bursts: number;
  /** Of a burst. */
  readonly seconds: number;
}

/**
 * All firewalls stand beside each other, and each is measured `rounds` × `bursts` times; equal
 * places in the lists are measured one after the other.
 */
export async function ratesByTurns<Name extends string>({
  connection,
  names,
  load,
  rounds,
  bursts,
  seconds,
}: Turns<Name>): Promise<Record<Name, Rate[]>> {
  const rates = Object.fromEntries(names.map((name) => [name, []])) as unknown as Record<Name, Rate[]>;
  for (let round = 0; round < rounds; round++) {
    const benches = new Map<Name, Bench>();
    try {
      for (const name of rotated(names, round))
        benches.set(name, await openBench({ connection, load: (node) => load(node, name) }));
      for (let burst = 0; burst < bursts; burst++)
        for (const [name, bench] of rotated([...benches], burst))
          rates[name].push(await bench.measure(seconds));
    } finally {
      for (const bench of benches.values()) await bench.close();
    }
  }
  return rates;
}

/** In another order each round: each is first as often as last. */
export function rotated<T>(all: readonly T[], round: number): T[] {
  const first = round % Math.max(1, all.length);
  return [...all.slice(first), ...all.slice(0, first)];
}

/** proc(5), /proc/PID/schedstat: time on a processor, here in µs. */
async function runTime(pid: number | undefined): Promise<number> {
  const [nanoseconds] = (await readFile(`/proc/${pid}/schedstat`, 'utf8')).split(' ');
  return Number(nanoseconds) / 1000;
}

/** `served`: of the server, µs. */
function rateOf(stdout: string, served: number): Rate {
  const { transactions, failed, perSecond, busySeconds, userSeconds, systemSeconds } = JSON.parse(
    stdout,
  ) as Record<string, number>;
  if (transactions === undefined || perSecond === undefined || failed !== 0)
    throw new Error(`failed: ${stdout}`);
  const client = 1e6 * ((userSeconds ?? Number.NaN) + (systemSeconds ?? Number.NaN));
  return {
    perSecond,
    busy: (1e6 * (busySeconds ?? Number.NaN)) / transactions,
    own: (client + served) / transactions,
  };
}

async function checkTracked(node: Namespace): Promise<void> {
  const keys = ['net.netfilter.nf_conntrack_count', 'net.netfilter.nf_conntrack_max'];
  const { stdout } = await node.run(['sysctl', '-n', ...keys]);
  const [count = 0, limit = 0] = stdout.trim().split('\n').map(Number);
  if (count > 0.8 * limit)
    throw new Error(`${count} of ${limit} tracked connections: raise net.netfilter.nf_conntrack_max`);
}
