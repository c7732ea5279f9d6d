import { type Answer, encode } from 'dns-packet';

/**
 * IP packets that carry DNS questions and answers, as nflog hands them over: from the network
 * header on.
 */

export interface AnswerOptions {
  readonly type?: 'A' | 'AAAA' | 'MX';
  readonly flags?: number;
  /** 4 with 4 bytes of IP options; 6 with a hop-by-hop header. */
  readonly ip?: 'v4' | 'v4-options' | 'v6' | 'v6-extension';
}

export function answerPacket(
  name: string,
  answers: readonly Answer[],
  options: AnswerOptions = {},
): Uint8Array {
  const { type = 'A', flags = 0x0180, ip = 'v4' } = options;
  const message = encode({
    type: 'response',
    id: ID,
    flags,
    questions: [{ type, name, class: 'IN' }],
    answers: [...answers],
  });
  return inIP(message, ip);
}

/** The question that an answer of `answerPacket` is to. */
export function questionPacket(
  name: string,
  { id = ID, port = PORT, ip = 'v4' }: { id?: number; port?: number; ip?: AnswerOptions['ip'] } = {},
): Uint8Array {
  const message = encode({ type: 'query', id, questions: [{ type: 'A', name, class: 'IN' }] });
  return inIP(message, ip, [port, 53]);
}

const ID = 7;
const PORT = 40_000;

/** Any bytes as the payload of a UDP packet, from port 53 unless something else is said. */
export function inIP(
  message: Uint8Array,
  ip: NonNullable<AnswerOptions['ip']> = 'v4',
  [from, to]: readonly [number, number] = [53, PORT],
): Uint8Array {
  const udp = Buffer.alloc(8);
  udp.writeUInt16BE(from, 0);
  udp.writeUInt16BE(to, 2);
  udp.writeUInt16BE(8 + message.length, 4);
  return Buffer.concat([ipHeader(ip, 8 + message.length), udp, message]);
}

function ipHeader(ip: NonNullable<AnswerOptions['ip']>, length: number): Buffer {
  if (ip === 'v4' || ip === 'v4-options') {
    const size = ip === 'v4' ? 20 : 24;
    const header = Buffer.alloc(size);
    header[0] = 0x40 | (size / 4);
    header.writeUInt16BE(size + length, 2);
    header[8] = 64;
    header[9] = 17;
    return header;
  }
  const header = Buffer.alloc(ip === 'v6' ? 40 : 48);
  header[0] = 0x60;
  header.writeUInt16BE(header.length - 40 + length, 4);
  header[6] = ip === 'v6' ? 17 : 0;
  header[7] = 64;
  if (ip === 'v6-extension') header[40] = 17;
  return header;
}
