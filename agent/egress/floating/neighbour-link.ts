import type { PacketProtocol } from 'nftables-napi';
import type { Clock } from '../../../lib/process/clock.ts';
import { errorCode } from '../../../lib/sharing/error.ts';
import {
  arpAnnouncements,
  arpClaim,
  arpProbe,
  neighbourAnnouncement,
  neighbourClaim,
  neighbourProbe,
} from './conflict-frames.ts';

/** The frames of one protocol on one link: the addon's PacketSocket. */
export interface FrameSocket {
  send(frame: Uint8Array): void;
  receive(): readonly Uint8Array[];
  close(): Promise<void> | void;
}

type OpenFrames = (link: number, protocol: PacketProtocol) => FrameSocket;

/** A link of this machine, as far as neighbours see it. */
export interface NeighbourLink {
  readonly index: number;
  readonly mac: Uint8Array;
}

export interface NeighbourOptions {
  readonly open: OpenFrames;
  readonly clock: Clock;
}

/**
 * Milliseconds. RFC 5227 waits for seconds, for hosts that have just been connected; a fail-over
 * can't, and a host that has the address answers at once.
 */
const PROBE = { times: 3, interval: 8, look: 4, wait: 24 } as const;
/** Milliseconds that a saturated link may delay the probes in all. */
const LONGEST_FULL = 1000;

/** Milliseconds after the first announcements. */
const ANNOUNCED = [1, 2, 4, 8, 16, 32, 64].map((seconds) => 1000 * seconds);
const AT_ONCE = 3;

/** The frames about an address, by protocol. */
const FRAMES = {
  arp: { probe: arpProbe, claim: arpClaim, announcements: arpAnnouncements },
  ndp: {
    probe: neighbourProbe,
    claim: neighbourClaim,
    announcements: (mac: Uint8Array, address: string) => [neighbourAnnouncement(mac, address)],
  },
} as const satisfies Record<PacketProtocol, object>;

/**
 * Asks the link for addresses (ARP probe, duplicate address detection), for all at one time.
 * @param isOwn whether a MAC is one of this machine
 * @returns the MACs of other hosts by the address that they have, once there is one; empty: nobody
 * answered
 */
export async function probe(
  options: NeighbourOptions,
  link: NeighbourLink,
  addresses: readonly string[],
  isOwn: (mac: Uint8Array) => boolean,
): Promise<ReadonlyMap<string, Uint8Array>> {
  const asked = byProtocol(addresses).map(([protocol, own]) => probeBy(protocol, options, link, own, isOwn));
  return new Map((await Promise.all(asked)).flatMap((found) => [...found]));
}

async function probeBy(
  protocol: PacketProtocol,
  { open, clock }: NeighbourOptions,
  { index, mac }: NeighbourLink,
  addresses: readonly string[],
  isOwn: (mac: Uint8Array) => boolean,
): Promise<ReadonlyMap<string, Uint8Array>> {
  const { probe: toFrame, claim } = FRAMES[protocol];
  const frames = addresses.map((address) => toFrame(mac, address));
  const found = new Map<string, Uint8Array>();
  const socket = open(index, protocol);
  try {
    const start = clock.now();
    // Answers have as long as from a link that took each question at its time.
    let began = start;
    let isFull = false;
    for (let sent = 0; ; ) {
      const now = clock.now();
      if (sent < PROBE.times && now - began >= sent * PROBE.interval) {
        const isSent = sendAll(socket, frames);
        if (isFull && isSent) began = now - sent * PROBE.interval;
        isFull = !isSent;
        if (isSent) sent++;
        else if (now - start > sent * PROBE.interval + LONGEST_FULL)
          throw new Error('the link is saturated: its queue takes no question for the address');
      }
      const passed = now - began;
      for (const received of socket.receive()) {
        for (const address of addresses) {
          const by = claim(received, address);
          if (by !== null && !isOwn(by)) found.set(address, by);
        }
      }
      if (found.size > 0 || (passed >= PROBE.wait && sent === PROBE.times)) return found;
      await new Promise<void>((resolve) => void clock.after(PROBE.look, resolve));
    }
  } finally {
    void socket.close();
  }
}

/**
 * Tells the link that addresses are here, several times: some frames may be lost, and some who know
 * the last owner may be slow.
 * @param goesOn asked of each address before each time; once it is not, no more follows
 * @returns a function that ends it for an address
 */
export function announce(
  { open, clock }: NeighbourOptions,
  { index, mac }: NeighbourLink,
  addresses: readonly string[],
  goesOn: (address: string) => boolean,
): (address: string) => void {
  const left = new Set(addresses);
  let cancel = (): void => {};
  const send = (times: number): void => {
    for (const [protocol, own] of byProtocol([...left])) {
      const frames = own.flatMap((address) => FRAMES[protocol].announcements(mac, address));
      const socket = open(index, protocol);
      try {
        // A saturated link loses them like any other frame; they come again.
        for (let i = 0; i < times; i++) sendAll(socket, frames);
      } finally {
        void socket.close();
      }
    }
  };
  const next = (i: number): void => {
    const wait = ANNOUNCED[i];
    if (wait === undefined) return;
    cancel = clock.after(wait - (ANNOUNCED[i - 1] ?? 0), () => {
      for (const address of left) if (!goesOn(address)) left.delete(address);
      if (left.size === 0) return;
      try {
        send(1);
      } catch {
        // The link is down or gone for the moment; a later one is heard, or the addresses are gone
        // too.
      }
      next(i + 1);
    });
  };
  send(AT_ONCE);
  next(0);
  return (address) => {
    left.delete(address);
    if (left.size === 0) cancel();
  };
}

/** False: the queue of the link is full (ENOBUFS, packet(7)), and some were not sent. */
function sendAll(socket: FrameSocket, frames: readonly Uint8Array[]): boolean {
  try {
    for (const frame of frames) socket.send(frame);
    return true;
  } catch (error) {
    if (errorCode(error) !== 'ENOBUFS') throw error;
    return false;
  }
}

function byProtocol(addresses: readonly string[]): [PacketProtocol, string[]][] {
  return [...Map.groupBy(addresses, (address) => (address.includes(':') ? 'ndp' : 'arp'))];
}
