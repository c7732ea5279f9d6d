import { randomBytes, timingSafeEqual } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { CONSOLE_PATH, PREVIEWS_PATH } from '../apis/console.ts';
import { type Failure, failure, writeAnswer } from '../controller/publish/answer.ts';

/** A request that the door let in. */
export interface LetIn {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  /** Without the door's own part; it has no percent sign, and no segment of dots. */
  readonly path: string;
  /** Without `?`. */
  readonly query: string;
}

interface DoorOptions {
  /** 0: the kernel picks one. */
  readonly port: number;
  /** Answers; a rejection becomes 502 with its message. */
  readonly serve: (letIn: LetIn) => Promise<void>;
}

/** Bytes of the secret part of the path. */
const SECRET = 24;
const HOST = '127.0.0.1';
/** Paths that the console asks for: of two API groups, names without anything to decode. */
const PATH = /^\/apis\/(?:controlplane\.)?nodewall\.io(?:\/[A-Za-z0-9._~:-]+)*$/;
const DOTS = /\/\.{1,2}(?:\/|$)/;
const LONGEST_URL = 8 << 10;
/** A browser, and a few more. */
const MOST_CONNECTIONS = 64;

/**
 * The way of a browser on this machine to the console. It listens on loopback alone, behind a path
 * that nobody can guess, so that other users and pages of other sites do not get in: a page that a
 * browser has from elsewhere knows neither the path nor can it choose the Host (DNS rebinding), and
 * browsers say where a request is from. Only reads of nodewall's API groups are let in, and
 * previews.
 */
export class Door {
  readonly #options: DoorOptions;
  readonly #secret = randomBytes(SECRET).toString('base64url');
  readonly #server: Server;
  #hosts: readonly string[] = [];

  constructor(options: DoorOptions) {
    this.#options = options;
    this.#server = createServer(
      {
        requestTimeout: 30_000,
        headersTimeout: 10_000,
        maxHeaderSize: 16 << 10,
        connectionsCheckingInterval: 2_000,
      },
      (request, response) => void this.#answer(request, response),
    );
    this.#server.maxConnections = MOST_CONNECTIONS;
  }

  /** Returns the URL of the first page. */
  async open(): Promise<string> {
    this.#server.listen(this.#options.port, HOST);
    await once(this.#server, 'listening');
    const { port } = this.#server.address() as AddressInfo;
    this.#hosts = [`${HOST}:${port}`, `localhost:${port}`];
    return `http://${HOST}:${port}/${this.#secret}${CONSOLE_PATH}/index.html`;
  }

  async close(): Promise<void> {
    const closed = new Promise((resolve) => this.#server.close(resolve));
    this.#server.closeAllConnections();
    await closed;
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    response.setHeader('referrer-policy', 'no-referrer');
    response.setHeader('cache-control', 'no-store');
    response.on('error', () => response.destroy());
    const found = this.#check(request);
    if ('code' in found) return writeAnswer(request, response, { failure: found });
    try {
      await this.#options.serve({ request, response, ...found });
    } catch (error) {
      if (response.headersSent) response.destroy();
      else
        writeAnswer(request, response, {
          failure: { ...failure('InternalError', (error as Error).message), code: 502 },
        });
    }
  }

  /** The request's path, or why it is refused. */
  #check(request: IncomingMessage): Pick<LetIn, 'path' | 'query'> | Failure {
    const { method = '', headers, url = '' } = request;
    const hosts = request.headersDistinct.host ?? [];
    if (hosts.length !== 1 || !this.#hosts.includes(hosts[0] ?? ''))
      return failure('Forbidden', 'this door is open for its own host name alone');
    const [before = '', query = ''] = splitOnce(url, '?');
    const [, secret = '', path = ''] = /^\/([^/]*)(\/.*)?$/s.exec(before) ?? [];
    if (url.length > LONGEST_URL || !this.#isSecret(secret))
      return failure('NotFound', 'nothing is here; use the URL that nodewall console printed');
    if (!isOwnPage(request, this.#hosts)) return failure('Forbidden', 'another site may not ask here');
    if (!PATH.test(path) || DOTS.test(path))
      return failure(
        'Forbidden',
        'the door leads to the API groups nodewall.io and controlplane.nodewall.io alone',
      );
    if (method === 'GET' || method === 'HEAD') return { path, query };
    if (method === 'POST' && path === PREVIEWS_PATH && query === '') {
      // Else a form of another site could send it without asking before.
      if (/^application\/json(?:\s*;|\s*$)/i.test(headers['content-type'] ?? '')) return { path, query };
      return failure('UnsupportedMediaType', 'a preview must be application/json');
    }
    return failure('MethodNotAllowed', 'the door is for reading, and for previews', { allow: 'GET, HEAD' });
  }

  #isSecret(text: string): boolean {
    const [given, own] = [Buffer.from(text), Buffer.from(this.#secret)];
    return given.length === own.length && timingSafeEqual(given, own);
  }
}

/**
 * Whether a request is from a page of this door, or is a person's: a URL that was typed, or opened
 * by another program. A browser without these headers tells nothing, and knows the path.
 */
function isOwnPage({ headers, method }: IncomingMessage, hosts: readonly string[]): boolean {
  const { origin, 'sec-fetch-site': site, 'sec-fetch-mode': mode, 'sec-fetch-dest': dest } = headers;
  if (origin !== undefined && !hosts.some((host) => origin === `http://${host}`)) return false;
  if (site === undefined || site === 'same-origin') return true;
  // As of the page that --open makes.
  return method === 'GET' && mode === 'navigate' && dest === 'document';
}

function splitOnce(text: string, at: string): [string, string] {
  const place = text.indexOf(at);
  return place < 0 ? [text, ''] : [text.slice(0, place), text.slice(place + 1)];
}
