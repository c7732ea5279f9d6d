/**
 * A process in a network namespace that does what its parent says, a JSON document a line, and
 * answers each. It is given no rights that the parent does not leave it.
 */
import { spawnSync } from 'node:child_process';
import { createSocket } from 'node:dgram';
import { request } from 'node:https';
import { connect, createServer } from 'node:net';
import { createInterface } from 'node:readline';
import { text } from 'node:stream/consumers';

/** `hold` and `for`: milliseconds. */
export type HostileDeed =
  | {
      readonly kind: 'https';
      readonly host: string;
      readonly port: number;
      readonly path: string;
      readonly method?: string;
      readonly headers?: Readonly<Record<string, string>>;
      readonly body?: string;
    }
  | {
      readonly kind: 'tcp';
      readonly host: string;
      readonly port: number;
      readonly bytes: string;
      readonly hold: number;
    }
  | { readonly kind: 'udp'; readonly host: string; readonly port: number; readonly bytes: string }
  | {
      readonly kind: 'listen';
      readonly at: { readonly port: number } | { readonly path: string };
      readonly for: number;
    }
  | { readonly kind: 'exec'; readonly argv: readonly string[] };

export interface HostileAnswer {
  /** The status of HTTP or of a program; 0: there was none. */
  readonly code: number;
  readonly text: string;
}

const LIMIT = 15_000;
const MOST = 1 << 20;

async function https(deed: Extract<HostileDeed, { kind: 'https' }>): Promise<HostileAnswer> {
  const { host, port, path, method = 'GET', headers = {}, body } = deed;
  const options = {
    host,
    port,
    path,
    method,
    headers,
    rejectUnauthorized: false,
    agent: false,
    timeout: LIMIT,
  };
  const { promise, resolve, reject } = Promise.withResolvers<HostileAnswer>();
  const asked = request(options, (response) => {
    text(response).then(
      (all) => resolve({ code: response.statusCode ?? 0, text: all.slice(0, MOST) }),
      reject,
    );
    // A watch does not end by itself.
    setTimeout(() => response.destroy(new Error('read for long enough')), 2_000).unref();
  });
  asked.on('timeout', () => asked.destroy(new Error('no answer')));
  asked.on('error', reject);
  asked.end(body);
  return await promise;
}

async function tcp({
  host,
  port,
  bytes,
  hold,
}: Extract<HostileDeed, { kind: 'tcp' }>): Promise<HostileAnswer> {
  const socket = connect({ host, port, timeout: LIMIT });
  let read = '';
  socket.setEncoding('latin1').on('data', (part) => {
    read = (read + part).slice(0, MOST);
  });
  socket.on('connect', () => socket.write(Buffer.from(bytes, 'latin1')));
  const { promise, resolve } = Promise.withResolvers<void>();
  socket.on('error', () => resolve()).on('close', () => resolve());
  socket.on('timeout', () => socket.destroy());
  setTimeout(() => socket.destroy(), hold);
  await promise;
  return { code: read === '' ? 0 : 1, text: read };
}

function udp({ host, port, bytes }: Extract<HostileDeed, { kind: 'udp' }>): Promise<HostileAnswer> {
  const socket = createSocket(host.includes(':') ? 'udp6' : 'udp4');
  const { promise, resolve } = Promise.withResolvers<HostileAnswer>();
  socket.on('error', ({ message }) => resolve({ code: 0, text: message }));
  socket.send(Buffer.from(bytes, 'latin1'), port, host, (error) => {
    socket.close();
    resolve({ code: error === null ? 1 : 0, text: error?.message ?? '' });
  });
  return promise;
}

function listen(deed: Extract<HostileDeed, { kind: 'listen' }>): Promise<HostileAnswer> {
  const server = createServer((socket) => socket.destroy());
  const { promise, resolve } = Promise.withResolvers<HostileAnswer>();
  server.on('error', ({ message }) => resolve({ code: 0, text: message }));
  server.listen(deed.at, () => {
    resolve({ code: 1, text: '' });
    setTimeout(() => server.close(), deed.for).unref();
  });
  return promise;
}

function exec([program = '', ...args]: readonly string[]): HostileAnswer {
  const { status, stdout, stderr } = spawnSync(program, args, { encoding: 'utf8', timeout: LIMIT });
  return { code: status ?? -1, text: `${stdout}${stderr}`.slice(0, MOST) };
}

function done(deed: HostileDeed): Promise<HostileAnswer> | HostileAnswer {
  switch (deed.kind) {
    case 'https':
      return https(deed);
    case 'tcp':
      return tcp(deed);
    case 'udp':
      return udp(deed);
    case 'listen':
      return listen(deed);
    case 'exec':
      return exec(deed.argv);
  }
}

createInterface({ input: process.stdin }).on('line', async (line) => {
  const { id, ...deed } = JSON.parse(line) as HostileDeed & { readonly id: number };
  let answer: HostileAnswer;
  try {
    answer = await done(deed as HostileDeed);
  } catch (error) {
    answer = { code: 0, text: (error as Error).message };
  }
  process.stdout.write(`${JSON.stringify({ id, ...answer })}\n`);
});
