/** Packets that enter a namespace at an interface without a sender: inject.c. */
import type { Namespace } from '../../test/netns/namespace.ts';
import { cProgram } from '../../test/probe/c-program.ts';
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

export interface Injected {
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
 * `perSecond` packets for so many seconds, on the processor that `ALONE` names: as interrupts do,
 * they take it from every process there. The result is known at the end.
 */
export async function injectAtRate(
  node: Namespace,
  flood: Flood,
  { perSecond, seconds }: { readonly perSecond: number; readonly seconds: number },
): Promise<Injected> {
  const argv = [...(await command(flood, 0)), String(perSecond), String(seconds)];
  const { stdout } = await node.run(['chrt', '-f', '50', 'taskset', '-c', '1', ...argv]);
  return JSON.parse(stdout) as Injected;
}

async function command({ protocol, destination, port, way }: Flood, count: number): Promise<string[]> {
  const program = await cProgram(import.meta.dirname, 'inject');
  const number = port === 'any' ? 0 : port;
  return [program, INTERFACE, protocol, destination, String(number), way, String(count)];
}
