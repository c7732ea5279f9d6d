import { createSocket } from 'node:dgram';
import { request as requestHttp } from 'node:http';
import { request as requestHttps } from 'node:https';
import { connect as connectTcp, isIPv6, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';

/** One connection that is made. Addresses, never names: a cache would answer for those. */
export type ConnectionAttempt =
  | { readonly kind: 'tcp' | 'udp' | 'tls' | 'dns'; readonly address: string; readonly port: number }
  | { readonly kind: 'http'; readonly url: string; readonly address: string; readonly port: number };

export interface AttemptOutcome {
  /** Null: there was an answer in time. */
  readonly error: string | null;
  /** The address of this end; null: not known. */
  readonly source: string | null;
}

export interface Patience {
  /** Until an answer. */
  readonly milliseconds: number;
  /** Milliseconds until a TCP connection is made; absent: no limit of its own. */
  readonly connectWithin?: number;
}

/**
 * Makes a new connection, and says whether there was an answer in time. Never rejects. The first
 * packet is sent before the next turn of the event loop, so that the rules in force until then
 * judge it.
 */
export function attempt(
  one: ConnectionAttempt,
  { milliseconds, connectWithin }: Patience,
): Promise<AttemptOutcome> {
  const { promise, resolve } = Promise.withResolvers<AttemptOutcome>();
  let connection: Connection | null = null;
  let isDone = false;
  const late = (what: string, after: number): NodeJS.Timeout =>
    // An event loop that was held up reads what has arrived first.
    setTimeout(() => setImmediate(() => done(`no ${what} in ${after / 1000} s`)), after);
  const timers = [late('answer', milliseconds)];
  const connected = (): void => clearTimeout(timers[1]);
  if (connectWithin !== undefined && one.kind !== 'udp' && one.kind !== 'dns')
    timers.push(late('connection', connectWithin));
  const done = (error: string | null): void => {
    if (isDone) return;
    isDone = true;
    for (const timer of timers) clearTimeout(timer);
    const source = connection?.source() ?? null;
    connection?.close();
    resolve({ error, source });
  };
  try {
    connection = start(one, done, connected);
  } catch (error) {
    done((error as Error).message);
  }
  return promise;
}

type Done = (error: string | null) => void;

interface Connection {
  /** The address of this end, once the kernel has chosen it. */
  source(): string | null;
  close(): void;
}

function start(one: ConnectionAttempt, done: Done, connected: () => void): Connection {
  switch (one.kind) {
    case 'tcp':
      return ofTcp(connectTcp({ host: one.address, port: one.port }), done);
    case 'tls':
      return ofTls(one.address, one.port, done, connected);
    case 'udp':
      return ofDatagram(one, Buffer.from('nodewall probe\n'), done);
    case 'dns':
      return ofDatagram(one, question(), done);
    case 'http':
      return ofHttp(one.url, done, connected);
  }
}

function ofTcp(socket: Socket, done: Done): Connection {
  socket.once('connect', () => done(null));
  socket.on('error', ({ message }) => done(message));
  return ofSocket(() => socket);
}

function ofSocket(socket: () => Socket | null): Connection {
  return { source: () => socket()?.localAddress ?? null, close: () => socket()?.destroy() };
}

/**
 * Any answer counts, even one that refuses: who it is, other code verifies. TLS begins once the
 * connection is made: its set-up takes milliseconds, and a new state waits for the first packet.
 */
function ofTls(host: string, port: number, done: Done, connected: () => void): Connection {
  const socket = connectTcp({ host, port });
  socket.on('error', ({ message }) => done(message));
  socket.once('connect', () => {
    connected();
    const tls = connectTls({ socket, rejectUnauthorized: false });
    tls.once('secureConnect', () => done(null));
    tls.on('error', (error: NodeJS.ErrnoException) =>
      done(socket.bytesRead > 0 || error.code?.startsWith('ERR_SSL_') === true ? null : error.message),
    );
  });
  return ofSocket(() => socket);
}

function ofDatagram({ address, port }: ConnectionAttempt, data: Buffer, done: Done): Connection {
  const socket = createSocket(isIPv6(address) ? 'udp6' : 'udp4');
  socket.once('message', () => done(null));
  // A closed port answers, by ICMP: the packet got there. A rule that rejects has another error.
  const failed = ({ code, message }: NodeJS.ErrnoException): void =>
    done(code === 'ECONNREFUSED' ? null : message);
  socket.on('error', failed);
  let source: string | null = null;
  socket.once('connect', () => {
    source = socket.address().address;
    socket.send(data, (error) => error && failed(error));
  });
  socket.connect(port, address);
  return { source: () => source, close: () => socket.close() };
}

/** The name servers of the root: every server answers that, if only to refuse it. */
function question(): Buffer {
  const id = Math.floor(Math.random() * 65_536);
  return Buffer.from([id >> 8, id & 255, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 1]);
}

function ofHttp(url: string, done: Done, connected: () => void): Connection {
  const options = { agent: false, rejectUnauthorized: false, headers: { connection: 'close' } } as const;
  const call = (url.startsWith('https:') ? requestHttps : requestHttp)(url, options);
  let own: Socket | null = null;
  call.once('socket', (socket) => {
    own = socket;
    socket.once('connect', connected);
  });
  call.once('response', () => done(null));
  call.on('error', ({ message }) => done(message));
  call.end();
  return { source: () => own?.localAddress ?? null, close: () => call.destroy() };
}
