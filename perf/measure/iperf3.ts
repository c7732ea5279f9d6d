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

export interface Stream {
  /** What the server receives, Mbit/s. */
  readonly megabits: number;
  /**
   * Processor time of client and server a megabit, µs, the packets' way through the kernel
   * included, since it runs on their account; other work on the machine is not in it.
   */
  readonly own: number;
}

/** One run of iperf3. */
export async function iperf3({
  server,
  client,
  destination,
  port,
  seconds,
  options,
}: Transfer): Promise<Stream> {
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
  return streamOf(stdout);
}

/** iperf3 --json; of UDP `sum` is the sender's, less what got lost. */
function streamOf(json: string): Stream {
  const { end } = JSON.parse(json) as {
    end: {
      sum_received?: { bits_per_second: number };
      sum?: { bits_per_second: number; lost_percent?: number };
      /** Of one processor, in percent. */
      cpu_utilization_percent: { host_total: number; remote_total: number };
    };
  };
  const { sum, sum_received: received, cpu_utilization_percent: processor } = end;
  const sent = (sum?.bits_per_second ?? Number.NaN) * (1 - (sum?.lost_percent ?? 0) / 100);
  const isUdp = sum?.lost_percent !== undefined;
  const megabits = (isUdp ? sent : (received?.bits_per_second ?? Number.NaN)) / 1e6;
  return { megabits, own: (1e4 * (processor.host_total + processor.remote_total)) / megabits };
}
