import { type ConntrackEntry, type ConntrackTuple, IpSocket } from 'nftables-napi';
import { internetChecksum } from '../../lib/net/bytes.ts';
import type { Clock } from '../../lib/process/clock.ts';
import type { Log } from '../../lib/process/log.ts';

/** Packets in a turn, and milliseconds until the next: 10,000 connections a second. */
const TURN = { packets: 100, pause: 10 } as const;
/** Connections that wait; the clients of more hear of the end with their own next packet. */
const MOST_WAITING = 65_536;
const TCP = 6;
/** TCP_CONNTRACK_ESTABLISHED, FIN_WAIT, CLOSE_WAIT and LAST_ACK. */
const OPEN: ReadonlySet<number | null> = new Set([3, 4, 5, 6]);

/** Sends whole IP packets of a family. */
interface IpPort {
  send(packet: Uint8Array): void;
  close(): void;
}

interface ClientWakerOptions {
  readonly clock: Clock;
  readonly log: Pick<Log, 'warn'>;
  /** Default: the kernel. */
  readonly open?: (family: 4 | 6) => IpPort;
}

interface Waiting {
  readonly family: 4 | 6;
  readonly packet: Uint8Array;
}

/**
 * Makes clients of TCP send a packet at once, for connections whose packets are answered with a
 * reset: else a client that waits for an answer, or sends again ever more seldom, would hear of the
 * end only then. It sends them a SYN with ACK as if from the server, which a client answers with
 * what it expects, whatever the sequence number (RFC 9293, 3.10.7.4). Of the answers of a
 * connection that the kernel tracks this is the one that it passes on unseen (the row SYN/ACK of
 * tcp_conntracks in nf_conntrack_proto_tcp.c: "ignored"), so that rules for established connections
 * let it through, and addresses are translated back.
 */
export class ClientWaker {
  readonly #options: ClientWakerOptions;
  readonly #ports = new Map<4 | 6, IpPort>();
  #waiting: readonly Waiting[] = [];
  #cancel: (() => void) | null = null;
  #isHindered = false;

  constructor(options: ClientWakerOptions) {
    this.#options = options;
  }

  /** Those of the connections that are open. */
  wake(entries: readonly ConntrackEntry[]): void {
    const added = entries.flatMap(({ protocol, tcpState, family, reply }): Waiting[] => {
      const packet = protocol === TCP && OPEN.has(tcpState) ? synAck(family, reply) : null;
      return packet === null ? [] : [{ family, packet }];
    });
    this.#waiting = [...this.#waiting, ...added.slice(0, MOST_WAITING - this.#waiting.length)];
    if (this.#cancel === null) this.#turn();
  }

  /** Waiting wake-ups are dropped. */
  close(): void {
    this.#cancel?.();
    this.#cancel = null;
    this.#waiting = [];
    for (const port of this.#ports.values()) port.close();
    this.#ports.clear();
  }

  #turn(): void {
    this.#cancel = null;
    const now = this.#waiting.slice(0, TURN.packets);
    this.#waiting = this.#waiting.slice(TURN.packets);
    for (const each of now) this.#send(each);
    if (this.#waiting.length > 0) this.#cancel = this.#options.clock.after(TURN.pause, () => this.#turn());
  }

  #send({ family, packet }: Waiting): void {
    try {
      const port = this.#ports.get(family) ?? (this.#options.open ?? openPort)(family);
      this.#ports.set(family, port);
      port.send(packet);
      this.#isHindered = false;
    } catch (error) {
      // The pod is gone, or somebody's rule drops it: this client hears it as it did before.
      if (this.#isHindered) return;
      this.#isHindered = true;
      this.#options.log.warn('cannot tell clients that their connection ended; they hear it when they send', {
        stage: 'apply',
        error: (error as Error).message,
      });
    }
  }
}

function openPort(family: 4 | 6): IpPort {
  const socket = new IpSocket(family);
  return { send: (packet) => socket.send(packet), close: () => socket.close() };
}

const HOPS = 64;
/** Bytes. */
const HEADERS = { 4: 20, 6: 40 } as const;
const SEGMENT = 20;
/** SYN and ACK. */
const FLAGS = 0x12;
const AT = { offset: 12, flags: 13, checksum: 16 } as const;

/**
 * A SYN with ACK from a connection's server to its client, with sequence numbers of 0 (RFC 9293).
 * Null: the tuple has no ports.
 */
export function synAck(family: 4 | 6, tuple: ConntrackTuple): Uint8Array | null {
  const { source, destination, sourcePort, destinationPort } = tuple;
  if (sourcePort === null || destinationPort === null) return null;
  const segment = Buffer.alloc(SEGMENT);
  segment.writeUInt16BE(sourcePort, 0);
  segment.writeUInt16BE(destinationPort, 2);
  segment.writeUInt8((SEGMENT / 4) << 4, AT.offset);
  segment.writeUInt8(FLAGS, AT.flags);
  const covered = Buffer.concat([source, destination, Uint8Array.of(0, TCP, 0, SEGMENT), segment]);
  segment.writeUInt16BE(internetChecksum(covered), AT.checksum);
  const header = Buffer.alloc(HEADERS[family]);
  if (family === 4) {
    header.writeUInt8(0x45, 0);
    header.writeUInt16BE(header.length + SEGMENT, 2);
    header.writeUInt8(HOPS, 8);
    header.writeUInt8(TCP, 9);
    header.set(source, 12);
    header.set(destination, 16);
    header.writeUInt16BE(internetChecksum(header), 10);
  } else {
    header.writeUInt8(0x60, 0);
    header.writeUInt16BE(SEGMENT, 4);
    header.writeUInt8(TCP, 6);
    header.writeUInt8(HOPS, 7);
    header.set(source, 8);
    header.set(destination, 24);
  }
  return Buffer.concat([header, segment]);
}
