import { lookup } from 'node:dns/promises';
import { isIP } from 'node:net';
import { isDeepStrictEqual } from 'node:util';
import { type Config, DEFAULT_CONFIG, type FailsafeEntry } from '../apis/config.ts';
import type { Endpoints } from '../apis/stream.ts';

/** The port of https://HOST:PORT. */
export function controllerPort(url: URL): number {
  return url.port === '' ? 443 : Number(url.port);
}

/** The addresses of the controller's host, sorted; what it is a name for may change. Throws where it can't be resolved. */
export async function controllerAddresses(url: URL): Promise<string[]> {
  const host = url.hostname.replace(/^\[|\]$/g, '');
  if (isIP(host) !== 0) return [host];
  const found = await lookup(host, { all: true });
  return [...new Set(found.map(({ address }) => address))].sort();
}

/**
 * The failsafe list with the control plane on it: a blanket Drop must cut neither the agent off from who could take it back, nor the node from the API
 * server. Destinations are judged after address translation, so what is behind a cluster IP must be there too. A list that the configuration replaces is
 * replaced whole.
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
