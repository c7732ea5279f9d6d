import type { PacketProtocol } from 'nftables-napi';
import type { Clock } from '../../../lib/process/clock.ts';
import { arpAnnouncements, arpClaim, arpProbe } from './arp-frame.ts';
import { neighbourAnnouncement, neighbourClaim, neighbourProbe } from './neighbour-frame.ts';

/** The frames of one protocol on one link: the addon's PacketSocket. */
export interface FrameSocket {
  send(frame: Uint8Array): void;
  receive(): readonly Uint8Array[];
  close(): void;
}

export type OpenFrames = (link: number, protocol: PacketProtocol) => FrameSocket;

/** A link of this machine, as far as neighbours see it. */
export interface NeighbourLink {
  readonly index: number;
  readonly mac: Uint8Array;
}

export interface NeighbourParts {
  readonly open: OpenFrames;
  readonly clock: Clock;
}

/**
 * Milliseconds. RFC 5227 waits for seconds, for hosts that have just been connected; a fail-over
 * can't, and a host that has the address answers at once.
 */
const PROBE = { times: 3, interval: 8, look: 4, wait: 24 } as const;

/** Milliseconds after the first announcements. */
const ANNOUNCED = [1, 2, 4, 8, 16, 32, 64].map((seconds) => 1000 * seconds);
const AT_ONCE = 3;

/**
 * Asks the link for the address (ARP probe, duplicate address detection).
 * @param isOwn whether a MAC is one of this machine
 * @returns the MAC of another host that has it; null: nobody answered
 */
export async function probe(
  { open, clock }: NeighbourParts,
  { index, mac }: NeighbourLink,
  address: string,
  isOwn: (mac: Uint8Array) => boolean,
): Promise<Uint8Array | null> {
  const [protocol, frame, claim] = isV6(address)
    ? (['ndp', neighbourProbe(mac, address), neighbourClaim] as const)
    : (['arp', arpProbe(mac, address), arpClaim] as const);
  const socket = open(index, protocol);
  try {
    const began = clock.now();
    for (let sent = 0; ; ) {
      const passed = clock.now() - began;
      if (sent < PROBE.times && passed >= sent * PROBE.interval) {
        socket.send(frame);
        sent++;
      }
      for (const received of socket.receive()) {
        const by = claim(received, address);
        if (by !== null && !isOwn(by)) return by;
      }
      if (passed >= PROBE.wait && sent === PROBE.times) return null;
      await new Promise<void>((resolve) => void clock.after(PROBE.look, resolve));
    }
  } finally {
    socket.close();
  }
}

/**
 * Tells the link that the address is here, several times: some frames may be lost, and some who
 * know the last owner may be slow.
 * @param goesOn asked before each time; once it is not, no more follows
 * @returns a function that ends it
 */
export function announce(
  { open, clock }: NeighbourParts,
  { index, mac }: NeighbourLink,
  address: string,
  goesOn: () => boolean,
): () => void {
  const [protocol, frames] = isV6(address)
    ? (['ndp', [neighbourAnnouncement(mac, address)]] as const)
    : (['arp', arpAnnouncements(mac, address)] as const);
  let cancel = (): void => {};
  const send = (times: number): void => {
    const socket = open(index, protocol);
    try {
      for (let i = 0; i < times; i++) for (const frame of frames) socket.send(frame);
    } finally {
      socket.close();
    }
  };
  const next = (i: number): void => {
    const wait = ANNOUNCED[i];
    if (wait === undefined) return;
    cancel = clock.after(wait - (ANNOUNCED[i - 1] ?? 0), () => {
      if (!goesOn()) return;
      try {
        send(1);
      } catch {
        // The link is down or gone for the moment; a later one is heard, or the address is gone
        // too.
      }
      next(i + 1);
    });
  };
  send(AT_ONCE);
  next(0);
  return () => cancel();
}

function isV6(address: string): boolean {
  return address.includes(':');
}
