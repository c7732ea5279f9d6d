/** Packets that enter a namespace at an interface without a sender: inject.c. */

import { text } from 'node:stream/consumers';
import type { Namespace } from '../../test/netns/namespace.ts';
import { cProgram } from '../../test/probe/probe.ts';
import { ALONE } from '../measure/connections.ts';

/** `native` and `generic`: an XDP program drops them, in the driver's place or at the interface. */
export type Way = 'pass' | 'native' | 'generic';

export interface Flood {
  readonly protocol: 'udp' | 'syn';
  readonly destination: string;
  /** `any`: another one for each packet. */
  readonly port: number | 'any';
  readonly way: Way;
}

interface Injected {
  readonly packets: number;
  /** Of the receive path, seconds. */
  readonly processor: number;
}

/** Routes for the answers, and checksums as after a network card, which verifies them. */
export async function readyForFlood(node: Namespace): Promise<void> {
  await node.run(['ip', 'route', 'add', '198.18.0.0/16', 'dev', INTERFACE]);
  await node.run(['sysctl', '-q', '-w', 'net.netfilter.nf_conntrack_checksum=0']);
}

/** Of test/netns/topology.ts. */
const INTERFACE = 'c0';

/** So many packets, as fast as they are received. */
export async function inject(node: Namespace, flood: Flood, count: number): Promise<Injected> {
  const { stdout } = await node.run([...ALONE, ...(await command(flood, count))]);
  return JSON.parse(stdout) as Injected;
}

/**
 * `perSecond` packets, on the processor that `ALONE` names: as interrupts do, they take it from
 * every process there. Returns a function that ends the flood and gives the packets a second that
 * were received.
 */
export async function startFlood(
  node: Namespace,
  flood: Flood,
  perSecond: number,
): Promise<() => Promise<number>> {
  const argv = [...(await command(flood, 0)), String(perSecond)];
  const child = node.spawn(['chrt', '-f', '50', 'taskset', '-c', '1', ...argv]);
  const output = text(child.stdout);
  return async () => {
    child.kill('SIGTERM');
    const { packets, seconds } = JSON.parse(await output) as { packets: number; seconds: number };
    return packets / seconds;
  };
}

async function command({ protocol, destination, port, way }: Flood, count: number): Promise<string[]> {
  const program = await cProgram(import.meta.dirname, 'inject');
  const number = port === 'any' ? 0 : port;
  return [program, INTERFACE, protocol, destination, String(number), way, String(count)];
}
