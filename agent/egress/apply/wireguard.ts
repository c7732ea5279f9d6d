import { NftError, type WireGuardPeer, type WireGuardSocket } from 'nftables-napi';
import { type NetPeer, type Netstate, OWN_NETWORK } from '../../../apis/egress/netstate.ts';
import { BITS, parseAddress } from '../../../lib/net/address.ts';
import { packAddress } from '../../../lib/net/member-set.ts';
import type { NetstateResult } from './kernel-object.ts';
import { deviceText, peerText } from './net-object.ts';

export interface WireGuardPort extends Pick<WireGuardSocket, 'device' | 'change'> {
  /** This node's keys, 32 bytes each. */
  keys(): Promise<{ readonly privateKey: Uint8Array; readonly publicKey: Uint8Array }>;
}

const NOTHING: NetstateResult = { operations: [], problems: [] };
const { port: PORT } = OWN_NETWORK.wireguard;

/** Gives a WireGuard device this node's key and the wanted peers. */
export class WireGuardPeers {
  readonly #port: WireGuardPort;
  /**
   * The endpoints as they were set or found so, by key. The kernel goes on to the address from
   * which a peer's last packet came, which may be another one of that node: that is no change by
   * others.
   */
  #endpoints: ReadonlyMap<string, string> = new Map();

  constructor(port: WireGuardPort) {
    this.#port = port;
  }

  /**
   * The texts of `operations` are the commands that do the same.
   *
   * @param indexOf the index of a link; undefined: it is not there, which is a problem already
   * @param removals false: no peer is removed yet
   */
  async apply(
    { links, peers }: Pick<Netstate, 'links' | 'peers'>,
    indexOf: (link: string) => number | undefined,
    removals: boolean,
  ): Promise<NetstateResult> {
    const link = links.find(({ kind }) => kind === 'wireguard')?.name;
    const index = link === undefined ? undefined : indexOf(link);
    if (link === undefined || index === undefined) return NOTHING;
    try {
      const { privateKey, publicKey } = await this.#port.keys();
      const found = await this.#port.device(index);
      const isOurs = isSame(found?.publicKey, publicKey) && found?.port === PORT && found.mark === 0;
      const there = new Map((isOurs ? found.peers : []).map((peer) => [toText(peer.publicKey), peer]));
      const changed = peers.filter((one) => !this.#isThere(one, there.get(one.key)));
      const wanted = new Set(peers.map(({ key }) => key));
      const removed = removals ? [...there.keys()].filter((key) => !wanted.has(key)) : [];
      const operations = [
        ...(isOurs ? [] : [deviceText(link)]),
        ...removed.map((key) => `delete: wg set ${link} peer ${key}`),
        ...changed.map(peerText),
      ];
      const endpoints = new Map(peers.map(({ key, endpoint }) => [key, endpoint]));
      if (operations.length === 0) {
        this.#endpoints = endpoints;
        return NOTHING;
      }
      const device = { privateKey, port: PORT, mark: 0, replacePeers: true };
      await this.#port.change(index, {
        ...(isOurs ? {} : { device }),
        removed: removed.map(toKey),
        peers: changed.map(toPeer),
      });
      this.#endpoints = endpoints;
      return { operations, problems: [] };
    } catch (error) {
      const code = error instanceof NftError ? error.code : 'UNKNOWN';
      return { operations: [], problems: [{ code, message: `wg set ${link}: ${(error as Error).message}` }] };
    }
  }

  #isThere(wanted: NetPeer, found: WireGuardPeer | undefined): boolean {
    if (found === undefined) return false;
    const { endpoint, port, allowed } = toPeer(wanted);
    const isAllowed =
      found.allowed.length === allowed.length &&
      found.allowed.every(({ address, prefixLength }, i) => {
        const one = allowed[i];
        return prefixLength === one?.prefixLength && isSame(address, one.address);
      });
    if (!isAllowed) return false;
    if (this.#endpoints.get(wanted.key) === wanted.endpoint) return true;
    return isSame(found.endpoint, endpoint) && found.port === port;
  }
}

function toPeer({ key, endpoint, address }: NetPeer): WireGuardPeer {
  return {
    publicKey: toKey(key),
    endpoint: bytesOf(endpoint),
    port: PORT,
    allowed: [{ address: bytesOf(address), prefixLength: bits(address) }],
  };
}

function bits(address: string): number {
  return BITS[address.includes(':') ? 6 : 4];
}

function bytesOf(text: string): Uint8Array {
  const address = parseAddress(text);
  return address === null ? new Uint8Array(0) : packAddress(address);
}

function isSame(a: Uint8Array | undefined, b: Uint8Array | undefined): boolean {
  return a !== undefined && b !== undefined && Buffer.compare(a, b) === 0;
}

function toKey(text: string): Uint8Array {
  return Uint8Array.from(Buffer.from(text, 'base64'));
}

function toText(key: Uint8Array): string {
  return Buffer.from(key).toString('base64');
}
