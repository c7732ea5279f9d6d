import type { WireGuardChange, WireGuardDevice } from 'nftables-napi';
import type { WireGuardPort } from '../../agent/egress/apply/wireguard.ts';

const NEW: WireGuardDevice = { publicKey: new Uint8Array(0), port: 0, mark: 0, peers: [] };

/** WireGuard devices as the kernel has them, by the link's index. */
export class FakeWireGuard implements WireGuardPort {
  readonly devices = new Map<number, WireGuardDevice>();
  /** Changes that were made. */
  readonly changes: WireGuardChange[] = [];
  #number: number;

  /** @param number of the key */
  constructor(number = 1) {
    this.#number = number;
  }

  async keys() {
    return { privateKey: keyOf(100 + this.#number), publicKey: keyOf(this.#number) };
  }

  /** The key is another one from now on. */
  becomes(number: number): void {
    this.#number = number;
  }

  async device(index: number): Promise<WireGuardDevice> {
    return this.devices.get(index) ?? NEW;
  }

  async change(index: number, change: WireGuardChange): Promise<void> {
    this.changes.push(change);
    const before = await this.device(index);
    const { publicKey } = await this.keys();
    const { port, mark } = change.device ?? before;
    const keptPeers = change.device?.replacePeers === true ? [] : before.peers;
    const gone = [...change.removed, ...change.peers.map((peer) => peer.publicKey)];
    const isKept = (key: Uint8Array): boolean => !gone.some((one) => Buffer.compare(one, key) === 0);
    this.devices.set(index, {
      publicKey: change.device === undefined ? before.publicKey : publicKey,
      port,
      mark,
      peers: [
        ...keptPeers.filter((peer) => isKept(peer.publicKey)),
        ...change.peers.map((peer) => ({ ...peer, handshake: 0 })),
      ],
    });
  }
}

/** 32 bytes. */
export function keyOf(number: number): Uint8Array {
  return new Uint8Array(32).fill(number);
}

/** As wg(8) writes it. */
export function keyText(number: number): string {
  return Buffer.from(keyOf(number)).toString('base64');
}
