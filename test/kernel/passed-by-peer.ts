/**
 * Runs inside a namespace: answers whoever calls with the address it sees, and makes calls. A
 * request per line of standard input, an answer per line of standard output. Ends with its input.
 */
import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { flushCompileCache } from 'node:module';
import { connect, createServer } from 'node:net';
import { createInterface } from 'node:readline';
import type { Family, Protocol } from './passed-by.ts';

export type Request = { readonly id: number } & (
  | { readonly do: 'listen'; readonly address: string; readonly ports: readonly number[] }
  | ({ readonly do: 'call' } & Call)
  /** Says something more on a connection that a call left open. */
  | { readonly do: 'again'; readonly call: number; readonly patience: number }
);

export interface Call {
  readonly protocol: Protocol;
  readonly family: Family;
  readonly src: string;
  readonly dst: string;
  readonly port: number;
  /** Milliseconds until no answer counts as silence. */
  readonly patience: number;
  readonly leaveOpen?: boolean;
}

export interface Answer {
  readonly id: number;
  /** answered, silence, or the errno that the kernel gave. */
  readonly outcome: string;
  /** The caller's address and port as the other end sees them; '' without an answer. */
  readonly seen: { readonly address: string; readonly port: number } | null;
  /** The caller's own port. */
  readonly ownPort: number;
  readonly milliseconds: number;
}

interface Connection {
  send(): void;
  close(): void;
  readonly ownPort: () => number;
  /** Called with the next thing that happens. */
  next: (outcome: string, text?: string) => void;
}

/** The range that Linux draws from: nobody listens there. */
const FIRST_PORT = 32_768;
const LAST_PORT = 60_999;

const open = new Map<number, Connection>();

// It is killed, so nothing of it would be there for the next one.
flushCompileCache();

/**
 * Each call has a port of its own. One that the kernel draws may be that of an earlier call to the
 * same place, which conntrack still knows for minutes: then the packets are those of an established
 * connection, and no rule is asked.
 */
let lastPort = FIRST_PORT - 1;

if (import.meta.main) {
  const lines = createInterface({ input: process.stdin });
  lines.on('line', (line) => void handle(JSON.parse(line)));
  lines.on('close', () => process.exit(0));
}

async function handle(request: Request): Promise<void> {
  process.stdout.write(`${JSON.stringify(await answer(request))}\n`);
}

async function answer(request: Request): Promise<Answer> {
  const { id } = request;
  switch (request.do) {
    case 'listen':
      for (const port of request.ports) await listen(request.address, port);
      return { id, outcome: 'answered', seen: null, ownPort: 0, milliseconds: 0 };
    case 'call': {
      const connection = request.protocol === 'tcp' ? tcp(request) : udp(request);
      if (request.leaveOpen === true) open.set(id, connection);
      const reply = await heard(id, connection, request.patience);
      if (request.leaveOpen !== true) connection.close();
      return reply;
    }
    case 'again': {
      const connection = open.get(request.call);
      if (connection === undefined) throw new Error(`call ${request.call} is not open`);
      const reply = heard(id, connection, request.patience);
      connection.send();
      return reply;
    }
  }
}

async function listen(address: string, port: number): Promise<void> {
  const server = createServer((socket) => {
    socket.on('error', () => {});
    socket.on('data', () => socket.write(`${socket.remoteAddress} ${socket.remotePort}`));
  });
  server.listen({ port, host: address });
  const datagrams = createSocket(address.includes(':') ? 'udp6' : 'udp4');
  datagrams.on('message', (_, from) =>
    datagrams.send(`${from.address} ${from.port}`, from.port, from.address),
  );
  datagrams.bind({ port, address });
  await Promise.all([once(server, 'listening'), once(datagrams, 'listening')]);
}

function heard(id: number, connection: Connection, patience: number): Promise<Answer> {
  const start = performance.now();
  return new Promise((resolve) => {
    const end = (outcome: string, text?: string): void => {
      clearTimeout(timer);
      connection.next = () => {};
      const [address = '', port] = text?.split(' ') ?? [];
      const seen = text === undefined ? null : { address, port: Number(port) };
      const milliseconds = performance.now() - start;
      resolve({ id, outcome, seen, ownPort: connection.ownPort(), milliseconds });
    };
    const timer = setTimeout(() => end('silence'), patience);
    connection.next = end;
  });
}

function ownPort(): number {
  if (lastPort === LAST_PORT) throw new Error('no port is left that no call had');
  return ++lastPort;
}

function tcp({ src, dst, port }: Call): Connection {
  const socket = connect({ host: dst, port, localAddress: src, localPort: ownPort(), noDelay: true });
  const connection: Connection = {
    send: () => void socket.write('hello'),
    close: () => socket.destroy(),
    ownPort: () => socket.localPort ?? 0,
    next: () => {},
  };
  socket.on('connect', connection.send);
  socket.on('data', (data) => connection.next('answered', String(data)));
  socket.on('error', ({ code }: NodeJS.ErrnoException) => connection.next(code ?? 'error'));
  socket.on('close', () => connection.next('closed'));
  return connection;
}

/** A connected socket is told of ICMP errors that are about its own packets, and of no others. */
function udp({ family, src, dst, port }: Call): Connection {
  const socket = createSocket(family === 4 ? 'udp4' : 'udp6');
  const own = ownPort();
  const connection: Connection = {
    send: () => socket.send('hello'),
    close: () => socket.close(),
    ownPort: () => own,
    next: () => {},
  };
  socket.on('message', (data) => connection.next('answered', String(data)));
  socket.on('error', ({ code }: NodeJS.ErrnoException) => connection.next(code ?? 'error'));
  socket.bind({ address: src, port: own }, () =>
    socket.connect(port, dst, (error?: NodeJS.ErrnoException) =>
      error ? connection.next(error.code ?? 'error') : connection.send(),
    ),
  );
  return connection;
}
