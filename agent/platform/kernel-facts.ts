import { readFile } from 'node:fs/promises';
import type { OpenSocket, SocketQuery } from 'nftables-napi';
import { FAMILIES, formatAddress } from '../../lib/net/address.ts';
import { unpackAddress } from '../../lib/net/member-set.ts';
import { errorCode } from '../../lib/sharing/error.ts';
import type { KernelFacts, PlatformLink, PlatformSocket, WireGuardFacts } from './platform-facts.ts';

type Addon = typeof import('nftables-napi');

/** The facts that are read beside the links; each may fail for itself. */
export type ReadFacts = Omit<KernelFacts, 'links'>;

/** A part of the facts, and why it cannot be read. */
export interface UnreadFact {
  readonly fact: keyof ReadFacts;
  readonly error: Error;
}

/** IPPROTO_TCP and IPPROTO_UDP. */
const [TCP, UDP] = [6, 17] as const;
const BGP = 179;
/** Sockets of this many ports count: a program with more has none that others must reach. */
const MOST_SOCKETS = 65_536;

/**
 * Reads this network namespace. A part that cannot be read (a module is missing, a capability) is
 * as in `last`.
 */
export async function readKernelFacts(
  addon: Addon,
  links: readonly PlatformLink[],
  last: ReadFacts,
): Promise<{ readonly facts: KernelFacts; readonly unread: readonly UnreadFact[] }> {
  const unread: UnreadFact[] = [];
  async function part<K extends keyof ReadFacts>(
    fact: K,
    read: () => Promise<ReadFacts[K]>,
  ): Promise<ReadFacts[K]> {
    try {
      return await read();
    } catch (error) {
      unread.push({ fact, error: error as Error });
      return last[fact];
    }
  }
  const facts = {
    links,
    wireGuard: await part('wireGuard', () => wireGuardDevices(addon, links)),
    sockets: await part('sockets', () => openSockets(addon)),
    hasBgpSession: await part('hasBgpSession', () => hasBgpSession(addon)),
    rawProtocols: await part('rawProtocols', rawProtocols),
    hasIpsecStates: await part('hasIpsecStates', () => hasIpsecStates(addon)),
  };
  return { facts, unread };
}

async function wireGuardDevices(addon: Addon, links: readonly PlatformLink[]): Promise<WireGuardFacts[]> {
  const devices = links.filter(({ kind, isUp }) => kind === 'wireguard' && isUp);
  if (devices.length === 0) return [];
  const socket = new addon.WireGuardSocket();
  try {
    const found: WireGuardFacts[] = [];
    for (const { index, name } of devices) {
      const device = await socket.device(index);
      if (device === null) continue;
      const known = device.peers.filter(({ endpoint }) => endpoint.length > 0);
      const endpoints = known.map(({ endpoint, port }) => ({ address: textOf(endpoint), port }));
      found.push({ name, port: device.port, endpoints });
    }
    return found;
  } finally {
    await socket.close();
  }
}

function textOf(bytes: Uint8Array): string {
  return formatAddress(unpackAddress(bytes.length === 4 ? 4 : 6, bytes, 0));
}

async function openSockets(addon: Addon): Promise<PlatformSocket[]> {
  const { listen, close } = addon.SOCKET_STATE;
  const ports = new Map<string, PlatformSocket>();
  const add = (protocol: PlatformSocket['protocol'], { local, localPort: port }: OpenSocket): void => {
    if (!isLoopback(local) && ports.size < MOST_SOCKETS) ports.set(`${protocol} ${port}`, { protocol, port });
  };
  for (const family of FAMILIES) {
    for await (const one of sockets(addon, { family, protocol: TCP, states: listen })) add('tcp', one);
    for await (const one of sockets(addon, { family, protocol: UDP, states: close })) add('udp', one);
  }
  return [...ports.values()];
}

/** A kernel without IPsec has no states. */
async function hasIpsecStates(addon: Addon): Promise<boolean> {
  try {
    return await addon.hasIpsecStates();
  } catch (error) {
    if (errorCode(error) === 'EPROTONOSUPPORT') return false;
    throw error;
  }
}

/** Either end may have opened it: the other one has a port of its own choice. */
async function hasBgpSession(addon: Addon): Promise<boolean> {
  const states = addon.SOCKET_STATE.established;
  for (const family of FAMILIES) {
    for (const at of [{ localPort: BGP }, { remotePort: BGP }]) {
      for await (const { local } of sockets(addon, { family, protocol: TCP, states, ...at }))
        if (!isLoopback(local)) return true;
    }
  }
  return false;
}

async function* sockets(addon: Addon, query: SocketQuery): AsyncGenerator<OpenSocket, void, undefined> {
  for await (const chunk of new addon.SocketTable().sockets(query)) yield* chunk;
}

/** ::1, 127.0.0.0/8, and the latter as an IPv6 socket has it. */
function isLoopback(address: Uint8Array): boolean {
  if (address.length === 4) return address[0] === 127;
  const isZero = address.subarray(0, 10).every((byte) => byte === 0);
  if (!isZero) return false;
  if (address[10] === 255 && address[11] === 255) return address[12] === 127;
  return address.subarray(10, 15).every((byte) => byte === 0) && address[15] === 1;
}

/** The second column of the table is the local address, whose port is the protocol. */
async function rawProtocols(): Promise<number[]> {
  const texts = await Promise.all(
    // Absent: the kernel has no IPv6.
    ['raw', 'raw6'].map((file) => readFile(`/proc/self/net/${file}`, 'latin1').catch(() => '')),
  );
  return rawProtocolsOf(texts.join('\n'));
}

/** The IP protocols of the sockets in /proc/net/raw, sorted. */
export function rawProtocolsOf(table: string): number[] {
  const found = new Set<number>();
  for (const line of table.split('\n')) {
    const [, local = ''] = line.trim().split(' ', 2);
    const at = local.lastIndexOf(':');
    if (at !== -1) found.add(Number.parseInt(local.slice(at + 1), 16));
  }
  return [...found].filter((protocol) => protocol >= 0 && protocol < 256).sort((a, b) => a - b);
}
