import { createSocket, type Socket as UdpSocket } from 'node:dgram';
import { once } from 'node:events';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { replyTo, type Zone } from './zone.ts';

export interface FakeDns {
  /** `address:port`, as names.servers takes it. */
  readonly server: string;
  /** Queries so far, UDP and TCP. */
  queries(): number;
  /** Another zone from now on. */
  serve(zone: Zone): void;
  close(): Promise<void>;
}

interface FakeDnsPlace {
  readonly address?: string;
  /** 0: any. */
  readonly port?: number;
}

/** A DNS server over UDP and TCP that does what the zone says, lies included. */
export async function fakeDns(
  first: Zone,
  { address = '127.0.0.1', port = 0 }: FakeDnsPlace = {},
): Promise<FakeDns> {
  let zone = first;
  let queries = 0;
  const timers = new Set<NodeJS.Timeout>();
  const sockets = new Set<Socket>();

  function later(delay: number, send: () => void): void {
    if (delay === 0) {
      send();
      return;
    }
    const timer = setTimeout(() => {
      timers.delete(timer);
      send();
    }, delay);
    timers.add(timer);
  }
  const { udp, tcp } = await listening(address, port);
  udp.on('message', (query, from) => {
    queries++;
    const reply = replyTo(query, zone, 'udp');
    if (reply !== null) later(reply.delay, () => udp.send(reply.bytes, from.port, from.address));
  });
  tcp.on('connection', (socket) => {
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket)).on('error', () => socket.destroy());
    let pending = Buffer.alloc(0);
    socket.on('data', (part) => {
      pending = Buffer.concat([pending, part]);
      while (pending.length >= 2 && pending.length >= 2 + pending.readUInt16BE(0)) {
        const end = 2 + pending.readUInt16BE(0);
        queries++;
        const reply = replyTo(pending.subarray(2, end), zone, 'tcp');
        pending = pending.subarray(end);
        if (reply === null) continue;
        const length = Buffer.alloc(2);
        length.writeUInt16BE(reply.bytes.length);
        later(reply.delay, () => socket.write(Buffer.concat([length, reply.bytes])));
      }
    });
  });
  const place = (tcp.address() as AddressInfo).port;

  return {
    server: address.includes(':') ? `[${address}]:${place}` : `${address}:${place}`,
    queries: () => queries,
    serve(next) {
      zone = next;
    },
    async close() {
      for (const timer of timers) clearTimeout(timer);
      for (const socket of sockets) socket.destroy();
      const gone = [once(udp, 'close'), once(tcp, 'close')];
      udp.close();
      tcp.close();
      await Promise.all(gone);
    },
  };
}

/** Times that a port is drawn which only one of the two can have. */
const DRAWS = 20;

/** One port for both; 0 is any that both are free to have. */
async function listening(address: string, port: number): Promise<{ udp: UdpSocket; tcp: Server }> {
  for (let draw = 1; ; draw++) {
    const tcp = createServer();
    tcp.listen(port, address);
    await once(tcp, 'listening');
    const udp = createSocket(address.includes(':') ? 'udp6' : 'udp4');
    udp.bind((tcp.address() as AddressInfo).port, address);
    try {
      await once(udp, 'listening');
      return { udp, tcp };
    } catch (error) {
      tcp.close();
      udp.close();
      if (port !== 0 || draw === DRAWS || (error as NodeJS.ErrnoException).code !== 'EADDRINUSE') throw error;
    }
  }
}
