import { once } from 'node:events';
import type { Namespace } from '../../test/netns/namespace.ts';
import { ALONE } from './connections.ts';

interface Transfer {
  readonly server: Namespace;
  readonly client: Namespace;
  readonly destination: string;
  readonly port: number;
  readonly seconds: number;
  /** Further ones of the client. */
  readonly options: readonly string[];
}

/** What the server receives of one run of iperf3, Mbit/s. */
export async function iperf3({
  server,
  client,
  destination,
  port,
  seconds,
  options,
}: Transfer): Promise<number> {
  const listener = server.spawn([
    ...ALONE,
    ...['iperf3', '--server', '--one-off', '--port', String(port), '--forceflush'],
  ]);
  const ended = once(listener, 'exit');
  // "Server listening on …": from then on a client gets in.
  await once(listener.stdout, 'data');
  listener.stdout.resume();
  const target = ['--client', destination, '--port', String(port), '--time', String(Math.max(1, seconds))];
  const { stdout } = await client.run([...ALONE, 'iperf3', '--json', ...target, ...options]);
  await ended;
  return receivedMegabits(stdout);
}

/** iperf3 --json: what arrived; of UDP `sum` is the sender's, less what got lost. */
function receivedMegabits(json: string): number {
  const { end } = JSON.parse(json) as {
    end: {
      sum_received?: { bits_per_second: number };
      sum?: { bits_per_second: number; lost_percent?: number };
    };
  };
  const { sum, sum_received: received } = end;
  const sent = (sum?.bits_per_second ?? Number.NaN) * (1 - (sum?.lost_percent ?? 0) / 100);
  const isUdp = sum?.lost_percent !== undefined;
  return (isUdp ? sent : (received?.bits_per_second ?? Number.NaN)) / 1e6;
}
