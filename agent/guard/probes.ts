import { randomBytes } from 'node:crypto';
import { createSocket } from 'node:dgram';
import { Resolver } from 'node:dns';
import { isIPv6 } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { EchoSocket, NftError } from 'nftables-napi';
import type { Config } from '../../apis/config.ts';
import type { Flow } from '../../apis/flow.ts';
import { parseAddress } from '../../lib/net/address.ts';
import { packAddress } from '../../lib/net/member-set.ts';
import {
  type AttemptOutcome,
  attempt,
  type ConnectionAttempt,
  type Patience,
} from '../../lib/process/connection-attempt.ts';

/** An agent can try a connection, or an echo request. */
export type AgentAttempt = ConnectionAttempt | { readonly kind: 'icmp'; readonly address: string };

export type Probe = OutwardProbe | InwardProbe;

/** Connections that this agent makes, one of which must be possible. */
export interface OutwardProbe {
  readonly kind: 'outward';
  readonly name: string;
  readonly attempts: readonly AgentAttempt[];
  /** The endpoints behind these addresses of a Service: rules judge packets after NAT. */
  readonly behind?: readonly Behind[];
}

/** An endpoint of the Service, of the same protocol as the attempts. */
export interface Behind {
  readonly address: string;
  readonly port: number;
}

/** A connection to this node that others make (inward-probes.ts). */
export interface InwardProbe {
  readonly kind: 'inward';
  readonly name: string;
  /** As it was made last; null: it never was. */
  readonly flow: Flow | null;
}

/** The most addresses of one probe that are tried. */
const MOST_ATTEMPTS = 3;
/** Echo requests of ICMP and ICMPv6. */
const ECHO = { 4: { protocol: 'icmp', icmpType: 8 }, 6: { protocol: 'icmpv6', icmpType: 128 } } as const;

/**
 * DNS and the outward probes of the configuration.
 * @param behindDns the servers behind the address of the cluster's DNS
 */
export function configuredProbes(
  { guard, names }: Config,
  behindDns: readonly Behind[] = [],
): OutwardProbe[] {
  const servers = dnsServers(names.servers);
  return [
    ...(servers.length === 0
      ? []
      : [{ kind: 'outward', name: 'dns', attempts: servers, behind: behindDns } as const]),
    ...guard.probes.map(({ name, target }) => ({ kind: 'outward', name, attempts: [target] }) as const),
  ];
}

/** Servers on this host prove nothing: loopback traffic is exempt. */
function dnsServers(configured: readonly string[]): ConnectionAttempt[] {
  // A new resolver reads resolv.conf(5) again.
  const servers = configured.length > 0 ? configured : new Resolver().getServers();
  return servers.flatMap((text): ConnectionAttempt[] => {
    const [, v6, v4, port] = /^(?:\[([^\]]+)\]|([\d.]+))(?::(\d+))?$/.exec(text) ?? [];
    const address = v6 ?? v4 ?? (isIPv6(text) ? text : '');
    if (address === '' || address === '::1' || address.startsWith('127.')) return [];
    return [{ kind: 'dns', address, port: Number(port ?? 53) }];
  });
}

/** Makes a new connection, or sends an echo request. Never rejects. */
export function agentAttempt(one: AgentAttempt, patience: Patience): Promise<AttemptOutcome> {
  return one.kind === 'icmp' ? echoAttempt(one.address, patience) : attempt(one, patience);
}

/** Those that this agent makes. */
export function outward(probes: readonly Probe[]): OutwardProbe[] {
  return probes.filter((probe): probe is OutwardProbe => probe.kind === 'outward');
}

/** The results of one round: null for a probe that passed, else the reason. */
export async function probeRound(
  probes: readonly OutwardProbe[],
  patience: Patience,
): Promise<ReadonlyMap<string, string | null>> {
  const results = probes.map(async ({ name, attempts }): Promise<[string, string | null]> => {
    const all = attempts
      .slice(0, MOST_ATTEMPTS)
      .map(async (one) => (await agentAttempt(one, patience)).error);
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
export function flowsOf(probe: Probe): readonly Flow[] {
  switch (probe.kind) {
    case 'outward': {
      const { attempts, behind = [] } = probe;
      const kind = attempts[0]?.kind === 'dns' ? 'udp' : 'tcp';
      const others = behind.map((one) => ({ kind, ...one }) as const);
      // The rule that is named is one that judges packets: these come first.
      return [...others, ...attempts].map((one) => ({
        direction: 'egress',
        dst: one.address,
        ...attemptService(one),
      }));
    }
    case 'inward':
      return probe.flow === null ? [] : [probe.flow];
  }
}

/** Protocol and port, or type, of a new connection. */
export function attemptService(one: AgentAttempt): Pick<Flow, 'protocol' | 'dstPort' | 'icmpType'> {
  switch (one.kind) {
    case 'udp':
    case 'dns':
      return { protocol: 'udp', dstPort: one.port };
    case 'tcp':
    case 'tls':
    case 'http':
      return { protocol: 'tcp', dstPort: one.port };
    case 'icmp':
      return ECHO[isIPv6(one.address) ? 6 : 4];
  }
}

/** The address of the other end. */
export function peerOf({ direction, src, dst }: Flow): string | undefined {
  return direction === 'ingress' ? src : dst;
}

/** Milliseconds between looks for the reply. */
const LOOK = 20;
/** Any port: the kernel only chooses the address of this end. */
const DISCARD = 9;

/**
 * Sends one echo request, in this turn of the event loop, and waits for its reply. By a datagram
 * socket where the kernel lets this process have one (net.ipv4.ping_group_range), else by a raw
 * one, which needs CAP_NET_RAW. Never rejects.
 */
async function echoAttempt(text: string, { milliseconds }: Patience): Promise<AttemptOutcome> {
  const parsed = parseAddress(text);
  if (parsed === null) return { error: `${text} is not an address`, source: null };
  const [address, data] = [packAddress(parsed), randomBytes(16)];
  let socket: EchoSocket | null = null;
  let error: string | null = `no answer in ${milliseconds / 1000} s`;
  try {
    socket = openSocket(parsed.family, address);
    socket.request({ address, identifier: data.readUInt16BE(0), sequence: 1, data });
    const end = performance.now() + milliseconds;
    do {
      await sleep(LOOK);
      if (socket.replies().some((reply) => Buffer.compare(reply.data, data) === 0)) error = null;
    } while (error !== null && performance.now() < end);
  } catch (cause) {
    error = (cause as Error).message;
  } finally {
    socket?.close();
  }
  return { error, source: await ownAddress(text, parsed.family) };
}

function openSocket(family: 4 | 6, peer: Uint8Array): EchoSocket {
  try {
    return new EchoSocket(family, { peer, isDatagram: true });
  } catch (error) {
    if (!(error instanceof NftError) || !REFUSED.includes(error.code)) throw error;
    return new EchoSocket(family, { peer });
  }
}

/** Not allowed to this group, or not built into the kernel. */
const REFUSED: readonly unknown[] = ['EACCES', 'EPERM', 'EPROTONOSUPPORT'];

/** The address from which the kernel sends to another; null: there is no way. */
async function ownAddress(text: string, family: 4 | 6): Promise<string | null> {
  const { promise, resolve } = Promise.withResolvers<string | null>();
  const socket = createSocket(family === 4 ? 'udp4' : 'udp6');
  socket.once('error', () => resolve(null));
  socket.connect(DISCARD, text, () => resolve(socket.address().address));
  return await promise.finally(() => socket.close());
}
