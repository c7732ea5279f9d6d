import { type LookupAddress, lookup } from 'node:dns';
import { readFile } from 'node:fs/promises';
import type { IncomingMessage } from 'node:http';
import { type Agent, request as httpsRequest } from 'node:https';
import { isIP, type LookupFunction, type Socket } from 'node:net';
import { checkServerIdentity } from 'node:tls';
import { readBody } from '../../lib/process/body.ts';
import type { Clock } from '../../lib/process/clock.ts';
import { present } from '../../lib/sharing/present.ts';
import { type Destination, destinationOf } from './destinations.ts';

/** One HTTPS request with a bearer token. */
export interface HttpsCall {
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE';
  /** With the query. */
  readonly url: URL;
  readonly token: string;
  /** CA certificates (PEM) that the server's certificate is verified against. */
  readonly authorities: string;
  readonly userAgent: string;
  /** Default: JSON. */
  readonly accept?: string;
  readonly body?: object;
  /** Aborts the request in any phase. */
  readonly signal: AbortSignal;
  /** False: a separate connection. */
  readonly agent: Agent | false;
  /** Default: the system's resolver. */
  readonly lookup?: LookupFunction;
  /**
   * Where the connection goes; default: the host of `url`. The server's certificate must be for the
   * host of `url` in any case.
   */
  readonly destination?: Destination;
  /**
   * Time limit of the TCP connection alone, once its name is resolved (milliseconds). A server that
   * is slow but there takes connections in time: its kernel does.
   */
  readonly connectTimeout?: number;
  /** Called when the connection is secure: from now on, the server may receive the request. */
  readonly connected?: () => void;
}

/**
 * Time limit until the response head arrives (milliseconds): name resolution, connection, TLS
 * handshake, and the server's processing.
 */
const ANSWER_TIMEOUT = 15_000;
/**
 * TCP keep-alive: the idle time before the first probe, and the time between probes (milliseconds);
 * how many without an answer end the connection. An agent whose controller's machine lost its power
 * knows it 5 s later.
 */
const KEEP_ALIVE = { enable: true, initialDelay: 2_000, interval: 1_000, count: 3 };
const LONGEST_REFUSAL = 64 * 1024;

/** Resolves with the response head, whatever its status. */
export function httpsCall(call: HttpsCall, clock: Clock): Promise<IncomingMessage> {
  const { method, url, token, authorities, userAgent, body, signal, agent, lookup, destination } = call;
  const { host: name } = destinationOf(url);
  const text = body === undefined ? null : JSON.stringify(body);
  const sent = httpsRequest(url, {
    method,
    ca: authorities,
    signal,
    agent,
    ...present({ lookup }),
    ...(destination === undefined ? {} : { hostname: destination.host, port: destination.port }),
    // RFC 6066 allows names only.
    servername: isIP(name) === 0 ? name : '',
    checkServerIdentity: (_, certificate) => checkServerIdentity(name, certificate),
    // Set explicitly, because NODE_TLS_REJECT_UNAUTHORIZED could change the default.
    rejectUnauthorized: true,
    headers: {
      host: url.host,
      authorization: `Bearer ${token}`,
      accept: call.accept ?? 'application/json',
      'user-agent': userAgent,
      ...(text === null
        ? {}
        : { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) }),
    },
  });
  return new Promise((resolve, reject) => {
    const cancel = clock.after(ANSWER_TIMEOUT, () =>
      sent.destroy(new Error(`no answer within ${ANSWER_TIMEOUT / 1000} s`)),
    );
    sent.once('socket', (socket) => {
      socket.setKeepAlive(KEEP_ALIVE);
      watchConnection(socket, call, clock);
    });
    sent.once('response', (response) => {
      cancel();
      resolve(response);
    });
    // The listener stays: later errors of the connection are also emitted by the response.
    sent.on('error', (error) => {
      cancel();
      reject(error);
    });
    sent.end(text ?? undefined);
  });
}

function watchConnection(
  socket: Socket,
  { url, destination, connectTimeout, connected = () => {} }: HttpsCall,
  clock: Clock,
): void {
  // It is one of an earlier request.
  if (!socket.connecting) {
    connected();
    return;
  }
  socket.once('secureConnect', connected);
  if (connectTimeout === undefined) return;
  let cancel = (): void => {};
  const begin = (): void => {
    cancel();
    cancel = clock.after(connectTimeout, () =>
      // Without the time, which differs from one attempt to the next: the log says an error once.
      socket.destroy(new Error('no connection in time')),
    );
  };
  socket.once('connect', () => cancel());
  socket.once('close', () => cancel());
  const { host } = destination ?? destinationOf(url);
  if (isIP(host) === 0) socket.once('lookup', begin);
  else begin();
}

/** Reads the token from a file. Throws an Error that names the option if there is none. */
export async function readToken(path: string, option: string): Promise<string> {
  const token = (await read(path, option)).trim();
  // A character that isn't allowed in an HTTP header would cause a different error later.
  if (!/^[\x21-\x7e]+$/.test(token)) throw new Error(`${option}: ${path} contains no token`);
  return token;
}

/**
 * Reads the certificates (PEM) from a file. Throws an Error that names the option if there are
 * none.
 */
export async function readAuthorities(path: string, option: string): Promise<string> {
  const text = await read(path, option);
  if (holdsCertificate(text)) return text;
  throw new Error(`${option}: ${path} contains no certificate (PEM)`);
}

function holdsCertificate(text: string): boolean {
  return text.includes('-----BEGIN CERTIFICATE-----');
}

async function read(path: string, option: string): Promise<string> {
  try {
    return await readFile(path, 'utf8');
  } catch (error) {
    throw new Error(`${option}: ${(error as Error).message}`, { cause: error });
  }
}

/** Reads a whole response body. Throws if it is longer than `most` bytes. */
export async function bodyText(response: IncomingMessage, most: number): Promise<string> {
  const body = await readBody(response, most);
  if (body === null) throw new Error(`the answer exceeds ${most} bytes`);
  return body.toString();
}

/** The message of a metav1.Status, or the beginning of any other body. */
export async function refusalText(response: IncomingMessage): Promise<string> {
  // If the body can't be read, the status alone is enough.
  const text = await bodyText(response, LONGEST_REFUSAL).catch(() => '');
  try {
    const { message } = JSON.parse(text) as { message?: unknown };
    if (typeof message === 'string') return message;
  } catch {
    // Not JSON, so not from a Kubernetes API server: a proxy, or another server.
  }
  return text.trim().slice(0, 200) || (response.statusMessage ?? 'no reason');
}

/** Error codes of node:tls and OpenSSL's X509_V_ERR_*. */
const UNKNOWN_AUTHORITY: ReadonlySet<string | undefined> = new Set([
  'SELF_SIGNED_CERT_IN_CHAIN',
  'DEPTH_ZERO_SELF_SIGNED_CERT',
  'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
  'UNABLE_TO_GET_ISSUER_CERT',
  'UNABLE_TO_GET_ISSUER_CERT_LOCALLY',
  'CERT_SIGNATURE_FAILURE',
]);

/** Whether the server's certificate was signed by none of the authorities. */
export function isOfUnknownAuthority(error: unknown): boolean {
  return UNKNOWN_AUTHORITY.has((error as NodeJS.ErrnoException).code);
}

/** The CA certificates (PEM) that the controller's certificate is verified against. */
export interface Authorities {
  /** The source of the certificates, for messages. */
  readonly origin: string;
  /** Returns the current certificates. Throws if there are none. */
  read(): Promise<string>;
  /** Called when none of the certificates has signed the controller's. */
  refused(): void;
}

/** Reads the file for each request, because it is replaced while the agent runs. */
export function fileAuthorities(path: string): Authorities {
  return { origin: path, read: () => readAuthorities(path, '--ca-file'), refused() {} };
}

export interface FetchedAuthoritiesOptions {
  readonly origin: string;
  /** The certificates that an earlier run saved; null: none. */
  readonly remembered: string | null;
  readonly fetch: () => Promise<string>;
  readonly clock: Clock;
  /** Called with new certificates that differ from the previous ones, to save them. */
  readonly learned: (certificates: string) => void;
}

/**
 * Time after which the certificates are fetched again (milliseconds): an authority that was removed
 * must not stay trusted forever.
 */
const FRESH = 24 * 3_600_000;

/**
 * Authorities from the API server: fetched at first, after a certificate that they did not sign,
 * and on the first request after 24 hours. If fetching fails, the previous ones are used, so that
 * an agent that starts without an API server can connect to its controller.
 */
export class FetchedAuthorities implements Authorities {
  readonly origin: string;
  readonly #options: FetchedAuthoritiesOptions;
  #known: string | null;
  #freshUntil = Number.NEGATIVE_INFINITY;
  #fetching: Promise<void> | null = null;

  constructor(options: FetchedAuthoritiesOptions) {
    this.origin = options.origin;
    this.#options = options;
    this.#known = options.remembered;
  }

  async read(): Promise<string> {
    if (this.#options.clock.now() >= this.#freshUntil) {
      const fetching = this.#fetch();
      // A request doesn't wait if certificates are known already; if they are refused, the next
      // request has the new ones.
      if (this.#known === null) await fetching;
      else fetching.catch(() => {});
    }
    if (this.#known === null) throw new Error(`${this.origin} contains no certificate (PEM)`);
    return this.#known;
  }

  refused(): void {
    this.#freshUntil = Number.NEGATIVE_INFINITY;
  }

  /** One fetch at a time. */
  #fetch(): Promise<void> {
    this.#fetching ??= this.#fetchNew().finally(() => {
      this.#fetching = null;
    });
    return this.#fetching;
  }

  async #fetchNew(): Promise<void> {
    const text = await this.#options.fetch();
    if (!holdsCertificate(text)) throw new Error(`${this.origin} contains no certificate (PEM)`);
    this.#freshUntil = this.#options.clock.now() + FRESH;
    if (text === this.#known) return;
    this.#known = text;
    this.#options.learned(text);
  }
}

/**
 * Milliseconds. If the cluster's DNS is unreachable, getaddrinfo(3) fails only after 10 s for each
 * search domain.
 */
const PATIENCE = 2_000;

/**
 * Resolves names for node:net like the system. If that fails, or takes more than two seconds,
 * answers with the last known addresses of the name, if there are any: the agent must find its
 * controller while the cluster's DNS is unreachable.
 */
export function lookupOrLast(
  last: () => readonly string[],
  clock: Clock,
  resolve: typeof lookup = lookup,
): LookupFunction {
  return (hostname, options, callback) => {
    let isAnswered = false;
    const answer = (error: NodeJS.ErrnoException | null, found: readonly LookupAddress[]): void => {
      if (isAnswered) return;
      isAnswered = true;
      cancel();
      const [first] = found;
      if (options.all === true) callback(error, [...found]);
      else callback(error, first?.address ?? '', first?.family);
    };
    const remembered = (): LookupAddress[] => {
      const { family } = options;
      const known = last().map((address) => ({ address, family: isIP(address) }));
      return known.filter((one) => family === undefined || family === 0 || family === one.family);
    };
    const cancel = clock.after(PATIENCE, () => {
      const known = remembered();
      if (known.length > 0) answer(null, known);
    });
    resolve(hostname, { ...options, all: true }, (error, found) => {
      const known = error === null ? [] : remembered();
      if (error === null) answer(null, found);
      else answer(known.length > 0 ? null : error, known);
    });
  };
}
