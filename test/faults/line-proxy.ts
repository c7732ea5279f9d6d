import { once } from 'node:events';
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import { createServer, request } from 'node:https';
import type { AddressInfo, Socket } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { seededRandom } from '../../perf/generate/random.ts';
import { counter, type FaultyProxy, type LineFaults, type ListenOptions } from './faults.ts';
import { between } from './tcp-proxy.ts';

export interface LineProxyOptions extends ListenOptions {
  /** URL of the server, without a path. */
  readonly target: string;
  /** PEM: whom the server's certificate is from. */
  readonly targetCa: string;
  /** What it shows its own clients, PEM; good for its address. */
  readonly certificate: string;
  readonly key: string;
  readonly faults?: LineFaults;
}

/** Belong to one connection, not to what is said on it (RFC 9110, 7.6.1). */
const HOP_BY_HOP = new Set(['connection', 'keep-alive', 'transfer-encoding', 'upgrade', 'te', 'trailer']);

/**
 * An HTTPS proxy that reads what it carries: the lines of a watch's answer (`watch=true` in the
 * query) meet the faults, other answers go through as they are. HTTP/1.1 both ways. Client
 * certificates don't get through, tokens do.
 */
export async function lineProxy(options: LineProxyOptions): Promise<FaultyProxy<LineFaults>> {
  const random = seededRandom(options.seed);
  const { add, counts } = counter();
  const answers = new Set<{ readonly response: ServerResponse; silent: boolean }>();
  let faults = options.faults ?? {};
  const happens = (what: keyof LineFaults & string, part: number | undefined): boolean => {
    if (random.next() >= (part ?? 0)) return false;
    add(what);
    return true;
  };

  /** Lines as they are to come, in place of one; null ends the answer. */
  function* spoilt(line: string): Generator<string | null> {
    if (faults.only !== undefined && !line.includes(faults.only)) yield `${line}\n`;
    else if (happens('drop', faults.drop)) return;
    else if (happens('truncate', faults.truncate)) yield* [line.slice(0, line.length >> 1), null];
    else if (happens('garble', faults.garble)) yield `${garbled(line, random.below(line.length))}\n`;
    else {
      yield `${line}\n`;
      if (happens('duplicate', faults.duplicate)) yield `${line}\n`;
      if (happens('end', faults.end)) yield null;
    }
  }

  async function carryLines(from: IncomingMessage, response: ServerResponse): Promise<void> {
    const answer = { response, silent: false };
    answers.add(answer);
    response.once('close', () => answers.delete(answer));
    let held: string | null = null;
    for await (const line of linesOf(from)) {
      if (faults.delay !== undefined) await pause(between(random, faults.delay));
      add('lines');
      if (held === null && happens('swap', faults.swap)) {
        held = line;
        continue;
      }
      const lines: string[] = held === null ? [line] : [line, held];
      held = null;
      for (const text of lines.flatMap((one) => [...spoilt(one)])) {
        if (answer.silent) continue;
        if (text === null) {
          response.end();
          from.destroy();
          return;
        }
        if (!response.write(text) && !response.destroyed)
          await Promise.race([once(response, 'drain'), once(response, 'close')]);
      }
    }
    if (!answer.silent) response.end();
  }

  const server = createServer({ cert: options.certificate, key: options.key }, (incoming, response) => {
    add('requests');
    const { method, url = '/' } = incoming;
    const outgoing = request(new URL(url, options.target), {
      method,
      headers: endToEnd(incoming.headers),
      ca: options.targetCa,
      agent: false,
    });
    incoming.pipe(outgoing);
    response.on('error', () => outgoing.destroy());
    response.once('close', () => outgoing.destroy());
    // More than one may come: of the connection, of what is read from it.
    outgoing.on('error', () => response.destroy());
    outgoing.once('response', (from) => {
      response.writeHead(from.statusCode ?? 502, endToEnd(from.headers));
      from.on('error', () => response.destroy());
      if (from.statusCode === 200 && new URL(url, options.target).searchParams.has('watch')) {
        response.flushHeaders();
        carryLines(from, response).catch(() => response.destroy());
      } else {
        from.pipe(response);
      }
    });
  });
  // A TLS socket can't be reset, the connection beneath it can.
  const connections = new Map<number, Socket>();
  server.on('connection', (socket: Socket) => {
    const { remotePort = 0 } = socket;
    connections.set(remotePort, socket);
    socket.once('close', () => {
      if (connections.get(remotePort) === socket) connections.delete(remotePort);
    });
  });
  server.listen(options.port ?? 0, options.host ?? '127.0.0.1');
  await once(server, 'listening');

  return {
    port: (server.address() as AddressInfo).port,
    async set(next) {
      faults = next;
    },
    async cutAll(how) {
      for (const answer of answers) {
        add(`cut by ${how}`);
        if (how === 'silence') answer.silent = true;
        else if (how === 'end') answer.response.end();
        else connections.get(answer.response.socket?.remotePort ?? 0)?.resetAndDestroy();
      }
    },
    counts: async () => counts(),
    async close() {
      const closed = once(server.close(), 'close');
      server.closeAllConnections();
      await closed;
    },
  };
}

async function* linesOf(from: IncomingMessage): AsyncGenerator<string> {
  let rest = '';
  for await (const text of from.setEncoding('utf8')) {
    const lines = `${rest}${text}`.split('\n');
    rest = lines.pop() ?? '';
    yield* lines;
  }
  if (rest !== '') yield rest;
}

function endToEnd(headers: IncomingHttpHeaders): IncomingHttpHeaders {
  return Object.fromEntries(Object.entries(headers).filter(([name]) => !HOP_BY_HOP.has(name)));
}

/**
 * A brace in the place of the character, or the other one where it is a brace: no string is the
 * same afterwards.
 */
function garbled(line: string, at: number): string {
  return `${line.slice(0, at)}${line[at] === '}' ? '{' : '}'}${line.slice(at + 1)}`;
}
