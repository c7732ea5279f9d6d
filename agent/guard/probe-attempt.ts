import { createSocket } from 'node:dgram';
import { request as requestHttp } from 'node:http';
import { request as requestHttps } from 'node:https';
import { connect as connectTcp, isIPv6, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';

/** One connection that a probe makes. Addresses, never names: a cache would answer for those. */
export type Attempt =
  | { readonly kind: 'tcp' | 'udp' | 'tls' | 'dns'; readonly address: string; readonly port: number }
  | { readonly kind: 'http'; readonly url: string; readonly address: string; readonly port: number };

export interface Patience {
  /** Until an answer. */
  readonly milliseconds: number;
  /** Milliseconds until a TCP connection is made; absent: no limit of its own. */
  readonly connectWithin?: number;
}

/**
 * Makes a new connection; resolves with null if there was an answer in time, else with the reason.
 * Never rejects. The first packet is sent before the next turn of the event loop, so that the rules
 * in force until then judge it.
 */
export function attempt(one: Attempt, { milliseconds, connectWithin }: Patience): Promise<string | null> {
  const { promise, resolve } = Promise.withResolvers<string | null>();
  let close = (): void => {};
  let isDone = false;
  const late = (what: string, after: number): NodeJS.Timeout =>
    // An event loop that was held up reads what has arrived first.
    setTimeout(() => setImmediate(() => done(`no ${what} in ${after / 1000} s`)), after);
  const timers = [late('answer', milliseconds)];
  const connected = (): void => clearTimeout(timers[1]);
  if (connectWithin !== undefined && one.kind !== 'udp' && one.kind !== 'dns')
    timers.push(late('connection', connectWithin));
  const done = (result: string | null): void => {
    if (isDone) return;
    isDone = true;
    for (const timer of timers) clearTimeout(timer);
    close();
    resolve(result);
  };
  try {
    close = start(one, done, connected);
  } catch (error) {
    done((error as Error).message);
  }
  return promise;
}

type Done = (result: string | null) => void;

/** Returns a function that ends the connection. */
function start(one: Attempt, done: Done, connected: () => void): () => void {
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

function ofTcp(socket: Socket, done: Done): () => void {
  socket.once('connect', () => done(null));
  socket.on('error', ({ message }) => done(message));
  return () => socket.destroy();
}

/**
 * Any answer counts, even one that refuses: who it is, other code verifies. TLS begins once the
 * connection is made: its set-up takes milliseconds, and a new state waits for the first packet.
 */
function ofTls(host: string, port: number, done: Done, connected: () => void): () => void {
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
  return () => socket.destroy();
}

function ofDatagram({ address, port }: Attempt, data: Buffer, done: Done): () => void {
  const socket = createSocket(isIPv6(address) ? 'udp6' : 'udp4');
  socket.once('message', () => done(null));
  // A closed port answers, by ICMP: the packet got there. A rule that rejects has another error.
  const failed = ({ code, message }: NodeJS.ErrnoException): void =>
    done(code === 'ECONNREFUSED' ? null : message);
  socket.on('error', failed);
  socket.once('connect', () => socket.send(data, (error) => error && failed(error)));
  socket.connect(port, address);
  return () => socket.close();
}

/** The name servers of the root: every server answers that, if only to refuse it. */
function question(): Buffer {
  const id = Math.floor(Math.random() * 65_536);
  return Buffer.from([id >> 8, id & 255, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 1]);
}

function ofHttp(url: string, done: Done, connected: () => void): () => void {
  const options = { agent: false, rejectUnauthorized: false, headers: { connection: 'close' } } as const;
  const call = (url.startsWith('https:') ? requestHttps : requestHttp)(url, options);
  call.once('socket', (socket) => socket.once('connect', connected));
  call.once('response', () => done(null));
  call.on('error', ({ message }) => done(message));
  call.end();
  return () => call.destroy();
}
