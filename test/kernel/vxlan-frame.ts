import type { Namespace } from '../netns/namespace.ts';

interface FrameParts {
  /** Of the node that it is for, and of the one that it says it is from. */
  readonly macs: readonly [to: string, from: string];
  readonly src: string;
  readonly dst: string;
  readonly port: number;
}

/** The payload of a datagram to the tunnel's port: a frame with a pod's UDP packet. */
export function vxlanFrame({ macs, src, dst, port }: FrameParts): Buffer {
  const udp = Buffer.concat([u16(5555, port, 8 + 4, 0), Buffer.from('evil')]);
  const ip = Buffer.concat([
    Buffer.from('45000020000040004011', 'hex'),
    u16(0),
    ...[src, dst].map((text) => Buffer.from(text.split('.').map(Number))),
  ]);
  ip.writeUInt16BE(checksum(ip), 10);
  const ethernet = macs.map((mac) => hex(mac.replaceAll(':', '')));
  return Buffer.concat([hex('0800000000'), hex('1cf400'), ...ethernet, hex('0800'), ip, udp]);
}

/**
 * Sends it three times, each as one datagram.
 *
 * @param argv the command that starts the sender: it decides with which rights
 * @param to ADDRESS/PORT
 */
export async function sendDatagrams(
  namespace: Namespace,
  argv: readonly string[],
  to: string,
  bytes: Buffer,
): Promise<void> {
  const escaped = [...bytes].map((byte) => `\\x${byte.toString(16).padStart(2, '0')}`).join('');
  // One datagram, also where a byte is a newline.
  const script = `printf '${escaped}' | dd iflag=fullblock bs=${bytes.length} count=1 status=none > /dev/udp/${to}`;
  for (let i = 0; i < 3; i++)
    await namespace.run([...argv, 'bash', '--norc', '-c', script], { anyStatus: true });
}

function u16(...values: readonly number[]): Buffer {
  return Buffer.from(values.flatMap((value) => [value >> 8, value & 255]));
}

function hex(text: string): Buffer {
  return Buffer.from(text, 'hex');
}

function checksum(bytes: Buffer): number {
  let sum = 0;
  for (let at = 0; at < bytes.length; at += 2) sum += bytes.readUInt16BE(at);
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16);
  return ~sum & 0xffff;
}
