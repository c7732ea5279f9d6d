import { NftError } from './errors.ts';
import { netlinkMessages } from './netlink-message.ts';
import { RawSocket } from './raw-socket.ts';
import {
  deviceDump,
  deviceRequest,
  familyRequest,
  GENERIC,
  peersRequest,
  removalRequest,
  toDevice,
  toFamilyId,
  WIREGUARD_FAMILY,
  type WireGuardDevice,
  type WireGuardPeer,
} from './wireguard.ts';

/** Peers in one message: an attribute has 64 KiB at most, and a peer some 120 bytes. */
const MOST = 256;

/** Changes of a device, made in this order. */
export interface WireGuardChange {
  /** Absent: the device keeps them. */
  readonly device?: Pick<WireGuardDevice, 'port' | 'mark'> & {
    /** 32 bytes. */
    readonly privateKey: Uint8Array;
    /** The device forgets all peers first. */
    readonly replacePeers: boolean;
  };
  /** Public keys of peers that go. */
  readonly removed: readonly Uint8Array[];
  /** Peers that are new or changed. An address that another peer had is taken from it. */
  readonly peers: readonly WireGuardPeer[];
}

/**
 * Keys and peers of WireGuard devices (generic netlink), in the network namespace in which this
 * object is created; the device itself is a link of kind wireguard of RouteSocket. Calls run on
 * libuv's thread pool, one after another, and need CAP_NET_ADMIN (else EPERM). Errors as in
 * Netlink; ENOENT where the kernel has no WireGuard. The constructor throws an NftError if the
 * socket cannot be opened.
 */
export class WireGuardSocket {
  readonly #socket = new RawSocket(GENERIC, 'WireGuardSocket');
  #family: Promise<number> | null = null;

  /** Whether the kernel has WireGuard; loads its module. */
  async isSupported(): Promise<boolean> {
    try {
      await this.#familyId();
      return true;
    } catch (error) {
      if (error instanceof NftError && error.code === 'ENOENT') return false;
      throw error;
    }
  }

  /**
   * The device of this link, as of one moment or EINTR. ENODEV: there is no such link; EOPNOTSUPP:
   * it is of another kind.
   */
  async device(index: number): Promise<WireGuardDevice | null> {
    const chunks = await this.#socket.whole(deviceDump(await this.#familyId(), index));
    return toDevice(chunks.flatMap((chunk) => [...netlinkMessages(chunk)]));
  }

  /** Stops at the first refusal, with its error: what came before it is made. */
  async change(index: number, { device, removed, peers }: WireGuardChange): Promise<void> {
    const family = await this.#familyId();
    if (device !== undefined) {
      await this.#send(deviceRequest(family, index, device, device.replacePeers), 'WireGuard device');
    }
    for (let i = 0; i < removed.length; i += MOST) {
      await this.#send(
        removalRequest(family, index, removed.slice(i, i + MOST)),
        'removal of WireGuard peers',
      );
    }
    for (let i = 0; i < peers.length; i += MOST) {
      await this.#send(peersRequest(family, index, peers.slice(i, i + MOST)), 'WireGuard peers');
    }
  }

  /** Waits for pending calls, then closes the socket. Idempotent. */
  close(): Promise<void> {
    return this.#socket.close();
  }

  async #send(request: Uint8Array, what: string): Promise<void> {
    const [answer] = await this.#socket.exchange([request], () => what);
    if (answer?.error) throw answer.error;
  }

  /** Asked for again after a failure: the module may be loaded later. */
  #familyId(): Promise<number> {
    this.#family ??= this.#askFamily().catch((error: unknown) => {
      this.#family = null;
      throw error;
    });
    return this.#family;
  }

  async #askFamily(): Promise<number> {
    const [answer] = await this.#socket.exchange(
      [familyRequest(WIREGUARD_FAMILY)],
      () => 'WireGuard of this kernel',
    );
    if (answer?.error) throw answer.error;
    for (const message of answer?.messages ?? []) {
      const id = toFamilyId(message);
      if (id !== null) return id;
    }
    throw new Error('the kernel gave no number of its WireGuard');
  }
}
