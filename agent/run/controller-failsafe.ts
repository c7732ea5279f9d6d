import { lookup } from 'node:dns/promises';
import { isIP } from 'node:net';
import { isDeepStrictEqual } from 'node:util';
import { type Config, DEFAULT_CONFIG, type FailsafeEntry } from '../../apis/config.ts';
import type { Endpoints } from '../../apis/stream.ts';

/** The port of https://HOST:PORT. */
export function portOf(url: URL): number {
  return url.port === '' ? 443 : Number(url.port);
}

/** The address that stands in the place of a name; none where it is a name. */
export function addressOf(url: URL): readonly string[] {
  const host = url.hostname.replace(/^\[|\]$/g, '');
  return isIP(host) === 0 ? [] : [host];
}

/**
 * The addresses of the controller's host, sorted; what it is a name for may change. Throws where it
 * can't be resolved.
 */
export async function controllerAddresses(url: URL): Promise<string[]> {
  const known = addressOf(url);
  if (known.length > 0) return [...known];
  const found = await lookup(url.hostname, { all: true });
  return [...new Set(found.map(({ address }) => address))].sort();
}

/**
 * The failsafe list with what this agent uses on it: the API server, and the controller by the
 * address it asks for, before or after destination NAT. A blanket Drop must cut neither the agent
 * off from who could take it back, nor the node from the API server. A list that the configuration
 * replaces is replaced whole.
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
