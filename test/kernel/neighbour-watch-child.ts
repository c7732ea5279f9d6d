/**
 * Asks the link for addresses again and again, and notes which MAC answers or announces, and when,
 * in the network namespace that it is started in. For each line of input, says what it noted since
 * the last one.
 */

import { createInterface } from 'node:readline';
import { PacketSocket } from 'nftables-napi';
import {
  arpClaim,
  arpProbe,
  neighbourClaim,
  neighbourProbe,
} from '../../agent/egress/floating/conflict-frames.ts';

const [, , link = '', mac = '', ...addresses] = process.argv;
const own = Uint8Array.from(mac.split(':'), (byte) => Number.parseInt(byte, 16));
const EVERY = 5;

const watched = addresses.map((address) => {
  const isV6 = address.includes(':');
  const socket = new PacketSocket(Number(link), isV6 ? 'ndp' : 'arp');
  const probe = isV6 ? neighbourProbe(own, address) : arpProbe(own, address);
  const claim = isV6 ? neighbourClaim : arpClaim;
  return { address, socket, probe, claim };
});
let noted: { readonly address: string; readonly mac: string; readonly at: number }[] = [];

function look(): void {
  for (const { address, socket, probe, claim } of watched) {
    for (const frame of socket.receive()) {
      const by = claim(frame, address);
      if (by !== null) noted.push({ address, mac: Buffer.from(by).toString('hex'), at: performance.now() });
    }
    socket.send(probe);
  }
}

setInterval(look, EVERY);
createInterface(process.stdin).on('line', () => {
  look();
  process.stdout.write(`${JSON.stringify(noted)}\n`);
  noted = [];
});
