import { lookup } from 'node:dns/promises';
import { isIP } from 'node:net';
import type { FailsafeEntry } from '../../apis/config.ts';
import type { Endpoints } from '../../apis/stream.ts';
import { destinationOf } from '../receive/destinations.ts';

/** The port of https://HOST:PORT. */
export function portOf(url: URL): number {
  return destinationOf(url).port;
}

/** The URL's host if it is an address; empty if it is a name. */
export function addressOf(url: URL): readonly string[] {
  const { host } = destinationOf(url);
  return isIP(host) === 0 ? [] : [host];
}

/**
 * The addresses of the controller's host, sorted; a name is resolved at each call, because its
 * addresses may change. Throws if the name can't be resolved.
 */
export async function controllerAddresses(url: URL): Promise<string[]> {
  const known = addressOf(url);
  if (known.length > 0) return [...known];
  const found = await lookup(url.hostname, { all: true });
  return [...new Set(found.map(({ address }) => address))].sort();
}

/**
 * The control plane as entries of the failsafe list, by port: the API server, the cluster's DNS,
 * and the controller by the address that the agent connects to, before or after destination NAT. A
 * blanket Drop must cut off neither the agent from the controller, through which the policy can be
 * deleted, nor the node from the API server.
 */
export function failsafeEntries(endpoints: readonly Endpoints[]): FailsafeEntry[] {
  const byPort = Map.groupBy(endpoints, ({ protocol = 'tcp', port }) => `${protocol} ${port}`);
  return [...byPort.values()]
    .flatMap((ofPort): FailsafeEntry[] => {
      const [{ protocol = 'tcp', port } = { port: 0 }] = ofPort;
      const peers = [...new Set(ofPort.flatMap(({ addresses }) => addresses))].sort();
      return peers.length === 0 ? [] : [{ protocol, ports: [port, port], peers }];
    })
    .sort((a, b) => a.ports[0] - b.ports[0] || (a.protocol < b.protocol ? -1 : 1));
}
