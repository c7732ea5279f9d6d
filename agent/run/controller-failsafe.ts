import { lookup } from 'node:dns/promises';
import { isIP } from 'node:net';
import { isDeepStrictEqual } from 'node:util';
import { type Config, DEFAULT_CONFIG, type FailsafeEntry } from '../../apis/config.ts';
import type { Endpoints } from '../../apis/stream.ts';

/** The port of https://HOST:PORT. */
export function portOf(url: URL): number {
  return url.port === '' ? 443 : Number(url.port);
}

/** The URL's host if it is an address; empty if it is a name. */
export function addressOf(url: URL): readonly string[] {
  const host = url.hostname.replace(/^\[|\]$/g, '');
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
 * The configuration with the control plane on the failsafe list: the API server, and the controller
 * by the address that the agent connects to, before or after destination NAT. A blanket Drop must
 * cut off neither the agent from the controller, through which the policy can be deleted, nor the
 * node from the API server. If the configuration replaces the list, nothing is added.
 */
export function withControlPlane(config: Config, endpoints: readonly Endpoints[]): Config {
  const { ingress, egress } = config.failsafe;
  const byPort = new Map<number, Set<string>>();
  for (const { port, addresses } of endpoints) {
    byPort.set(port, new Set([...(byPort.get(port) ?? []), ...addresses]));
  }
  const added = [...byPort]
    .filter(([, addresses]) => addresses.size > 0)
    .sort(([a], [b]) => a - b)
    .map(
      ([port, addresses]): FailsafeEntry => ({
        protocol: 'tcp',
        ports: [port, port],
        peers: [...addresses].sort(),
      }),
    );
  if (added.length === 0 || !isDeepStrictEqual(egress, DEFAULT_CONFIG.failsafe.egress)) return config;
  return { ...config, failsafe: { ingress, egress: [...egress, ...added] } };
}
