import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';
import { createServer as createHttpsServer, type Server, type ServerOptions } from 'node:https';
import { readBody } from '../../lib/process/body.ts';
import { limitConnections } from '../../lib/process/limit-connections.ts';
import { limitInFlight } from '../publish/limit-in-flight.ts';
import { type AdmissionStep, type AdmissionWorld, admit } from './admission.ts';
import { type Admission, type AdmissionRequest, formatReview, parseReview } from './review.ts';

export interface WebhookOptions {
  /** Returns the current state of the cluster. */
  readonly world: () => AdmissionWorld;
  /**
   * Resolves when the world has changed, at the latest after this time (milliseconds). A policy
   * created right after its Tier may arrive here before the Tier; a refusal caused by other objects
   * waits for it.
   */
  readonly changed: (milliseconds: number) => Promise<void>;
  /**
   * Resolves with the world in which the objects that the review names are those of the API server
   * now; null if `world` is as good. See latestWorld.
   */
  readonly latest: (review: AdmissionRequest, world: AdmissionWorld) => Promise<AdmissionWorld | null>;
  /**
   * Called for an internal error. The response is 500, and the configuration's failurePolicy
   * decides.
   */
  readonly onFailure: (error: Error) => void;
}

/**
 * Size limit of a body (bytes): the API server accepts objects up to 3 MiB, and an update has two
 * of them.
 */
const MOST_BYTES = 8 * 1024 * 1024;
/**
 * Size limit of all bodies that are being read (bytes): clients are not authenticated, and must not
 * fill the memory.
 */
const MOST_BYTES_AT_ONCE = 8 * MOST_BYTES;
/**
 * API servers keep a few connections each. Beyond this limit, the connection whose last request is
 * longest ago is closed.
 */
const MOST_CONNECTIONS = 256;
/** Bytes of a request's head. */
const MOST_HEAD = 8 << 10;
/** Milliseconds; the webhook configurations allow 5 s in all. */
const LONGEST_WAIT = 1000;
const REQUEST_TIMEOUT = 5000;
const STEPS: Readonly<Record<string, AdmissionStep>> = { '/mutate': 'mutate', '/validate': 'validate' };

/**
 * Answers AdmissionReview requests (`POST /mutate`, `POST /validate`). Clients are not
 * authenticated, because an API server presents no certificate by default. So an answer reveals
 * only the request's own content and the names of objects that depend on it.
 */
export function webhookHandler(options: WebhookOptions): RequestListener {
  const room = { bytes: MOST_BYTES_AT_ONCE };
  return limitInFlight((request, response) => {
    answer(request, response, options, room).catch((error: unknown) => {
      options.onFailure(error instanceof Error ? error : new Error(String(error)));
      if (!response.headersSent) refuse(response, 500, 'internal error');
      else response.destroy();
    });
  });
}

/**
 * The server, not listening yet. `tls` has key and cert, which setSecureContext replaces while it
 * runs.
 */
export function webhookServer(tls: ServerOptions, options: WebhookOptions): Server {
  const server = createHttpsServer(
    {
      minVersion: 'TLSv1.2',
      ...tls,
      maxHeaderSize: MOST_HEAD,
      handshakeTimeout: REQUEST_TIMEOUT,
      requestTimeout: REQUEST_TIMEOUT,
      headersTimeout: REQUEST_TIMEOUT,
      connectionsCheckingInterval: 1000,
      keepAliveTimeout: 65_000,
    },
    webhookHandler(options),
  );
  limitConnections(server, MOST_CONNECTIONS);
  return server;
}

async function answer(
  request: IncomingMessage,
  response: ServerResponse,
  options: WebhookOptions,
  room: Room,
): Promise<void> {
  const path = (request.url ?? '').split('?', 1)[0] ?? '';
  const step = Object.hasOwn(STEPS, path) ? STEPS[path] : undefined;
  if (step === undefined) return refuse(response, 404, 'unknown path; use /mutate or /validate');
  if (request.method !== 'POST') return refuse(response, 405, 'use POST', { allow: 'POST' });
  if (!/^application\/json\b/i.test(request.headers['content-type'] ?? '')) {
    return refuse(response, 415, 'the body must be application/json');
  }
  const body = await bodyOf(request, room);
  if (body === 'too long') {
    return refuse(response, 413, `the body has more than ${MOST_BYTES} bytes`, { connection: 'close' });
  }
  if (body === 'no room') return refuse(response, 503, 'too many requests', { connection: 'close' });
  const review = parseReview(parse(body));
  if (review === null) return refuse(response, 400, 'not an AdmissionReview of admission.k8s.io/v1');
  const text = JSON.stringify(formatReview(review, await decide(review, step, options)));
  response.writeHead(200, { 'content-type': 'application/json' }).end(text);
}

/**
 * A refusal that newer objects could change is given only if the API server has none, and none
 * arrive for a while.
 */
async function decide(
  review: AdmissionRequest,
  step: AdmissionStep,
  { world, changed, latest }: WebhookOptions,
): Promise<Admission> {
  const first = admit(review, step, world());
  if (first.rejection?.isTransient !== true) return first;
  const newer = await latest(review, world());
  const second = newer === null ? first : admit(review, step, newer);
  if (second.rejection?.isTransient !== true) return second;
  const until = performance.now() + LONGEST_WAIT;
  for (;;) {
    const seen = world();
    const admission = admit(review, step, seen);
    const left = until - performance.now();
    if (admission.rejection?.isTransient !== true || left <= 0) return admission;
    await changed(left);
    if (world().objects === seen.objects) return admission;
  }
}

/** The number of bytes that bodies may still take. */
interface Room {
  bytes: number;
}

/** Doesn't read the rest of a body that is refused. */
async function bodyOf(request: IncomingMessage, room: Room): Promise<Buffer | 'too long' | 'no room'> {
  if (Number(request.headers['content-length'] ?? 0) > MOST_BYTES) return 'too long';
  let bytes = 0;
  const hasRoom = (length: number): boolean => {
    bytes += length;
    room.bytes -= length;
    return room.bytes >= 0;
  };
  try {
    const chunks = request.iterator({ destroyOnReturn: false });
    return (await readBody(chunks, MOST_BYTES, hasRoom)) ?? (bytes > MOST_BYTES ? 'too long' : 'no room');
  } finally {
    room.bytes += bytes;
  }
}

/** Undefined if it is not valid JSON. */
function parse(body: Buffer): unknown {
  try {
    return JSON.parse(body.toString('utf8'));
  } catch {
    return undefined;
  }
}

function refuse(
  response: ServerResponse,
  status: number,
  why: string,
  headers: Readonly<Record<string, string>> = {},
): void {
  response.writeHead(status, { 'content-type': 'text/plain; charset=utf-8', ...headers }).end(`${why}\n`);
}
