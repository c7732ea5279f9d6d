import { Resolver } from 'node:dns';
import { isIPv6 } from 'node:net';
import type { Config } from '../../apis/config.ts';
import type { Flow } from '../../apis/flow.ts';
import { type Attempt, attempt, type Patience } from './probe-attempt.ts';

/** Connections one of which must be possible. */
export interface Probe {
  readonly name: string;
  readonly attempts: readonly Attempt[];
  /** Further destinations that stand behind these addresses, after destination NAT. */
  readonly behind?: readonly { readonly address: string; readonly port: number }[];
}

/** The most addresses of one probe that are tried. */
const MOST_ATTEMPTS = 3;

/** DNS and the probes of the configuration. */
export function configuredProbes({ guard, names }: Config): Probe[] {
  const servers = dnsServers(names.servers);
  return [
    ...(servers.length === 0 ? [] : [{ name: 'dns', attempts: servers }]),
    ...guard.probes.map(({ name, target }): Probe => ({ name, attempts: [target] })),
  ];
}

/** Servers on this host prove nothing: loopback traffic is exempt. */
function dnsServers(configured: readonly string[]): Attempt[] {
  // A new resolver reads resolv.conf(5) again.
  const servers = configured.length > 0 ? configured : new Resolver().getServers();
  return servers.flatMap((text): Attempt[] => {
    const [, v6, v4, port] = /^(?:\[([^\]]+)\]|([\d.]+))(?::(\d+))?$/.exec(text) ?? [];
    const address = v6 ?? v4 ?? (isIPv6(text) ? text : '');
    if (address === '' || address === '::1' || address.startsWith('127.')) return [];
    return [{ kind: 'dns', address, port: Number(port ?? 53) }];
  });
}

/** What one round found out: null for a probe that passed, else the reason. */
export async function probeRound(
  probes: readonly Probe[],
  patience: Patience,
): Promise<ReadonlyMap<string, string | null>> {
  const results = probes.map(async ({ name, attempts }): Promise<[string, string | null]> => {
    const all = attempts.slice(0, MOST_ATTEMPTS).map((one) => attempt(one, patience));
    return [name, await firstPassed(all)];
  });
  return new Map(await Promise.all(results));
}

async function firstPassed(all: readonly Promise<string | null>[]): Promise<string | null> {
  const { promise, resolve } = Promise.withResolvers<string | null>();
  for (const one of all) void one.then((error) => error === null && resolve(null));
  void Promise.all(all).then(([first = 'no address is known']) => resolve(first));
  return await promise;
}

/** The flows of a probe, as explain is asked about them. */
export function flowsOf({ attempts, behind = [] }: Probe): Flow[] {
  const flow = (protocol: 'tcp' | 'udp', address: string, port: number): Flow => ({
    direction: 'egress',
    dst: address,
    protocol,
    dstPort: port,
  });
  return [
    ...attempts.map(({ kind, address, port }) => {
      return flow(kind === 'udp' || kind === 'dns' ? 'udp' : 'tcp', address, port);
    }),
    ...behind.map(({ address, port }) => flow('tcp', address, port)),
  ];
}
