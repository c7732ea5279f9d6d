import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';
import { createServer as createHttpsServer, type Server, type ServerOptions } from 'node:https';
import { newestConnections } from '../../lib/process/connections.ts';
import { fewInFlight } from '../publish/in-flight.ts';
import { type AdmissionStep, type AdmissionWorld, admit } from './admission.ts';
import { type Admission, type AdmissionRequest, formatReview, parseReview } from './review.ts';

export interface WebhookOptions {
  /** What the cluster holds now. */
  readonly world: () => AdmissionWorld;
  /**
   * Resolves when the world is another one, at the latest after so many milliseconds. A policy that
   * is made right after its Tier comes here before the Tier does; a refusal for others' sake waits
   * for that.
   */
  readonly changed: (milliseconds: number) => Promise<void>;
  /**
   * The world with what the object names as the API server has it now; null where `world` is as
   * good. See latestWorld.
   */
  readonly latest: (review: AdmissionRequest, world: AdmissionWorld) => Promise<AdmissionWorld | null>;
  /**
   * Told of what should not happen: a failure of our own. The answer is 500 then, and the
   * configuration's failurePolicy decides.
   */
  readonly onFailure: (error: Error) => void;
}

/** The API server takes objects up to 3 MiB; an update has two of them. */
const MOST_BYTES = 8 * 1024 * 1024;
/** Of all bodies that are being read: who asks is not known, and nobody may fill the memory. */
const MOST_BYTES_AT_ONCE = 8 * MOST_BYTES;
/**
 * API servers keep a few connections each. More than that, and who has asked nothing for longest
 * goes.
 */
const MOST_CONNECTIONS = 256;
/** Milliseconds; the configurations give the webhook 5 s in all. */
const LONGEST_WAIT = 1000;
const REQUEST_TIMEOUT = 5000;
const STEPS: Readonly<Record<string, AdmissionStep>> = { '/mutate': 'mutate', '/validate': 'validate' };

/**
 * Answers AdmissionReview requests (`POST /mutate`, `POST /validate`). Who asks is not known: an
 * API server shows no certificate by default. So an answer says nothing beyond what the request
 * says and the names of objects that depend on it.
 */
export function webhookHandler(options: WebhookOptions): RequestListener {
  const room = { bytes: MOST_BYTES_AT_ONCE };
  return fewInFlight((request, response) => {
    answer(request, response, options, room).catch((error: unknown) => {
      options.onFailure(error instanceof Error ? error : new Error(String(error)));
      if (!response.headersSent) refuse(response, 500, 'internal error');
      else response.destroy();
    });
  });
}

/**
 * The server, not listening yet. `tls` has key and cert; setSecureContext exchanges them while it
 * runs.
 */
export function webhookServer(tls: ServerOptions, options: WebhookOptions): Server {
  const server = createHttpsServer(
    {
      minVersion: 'TLSv1.2',
      ...tls,
      handshakeTimeout: REQUEST_TIMEOUT,
      requestTimeout: REQUEST_TIMEOUT,
      headersTimeout: REQUEST_TIMEOUT,
      connectionsCheckingInterval: 1000,
      keepAliveTimeout: 65_000,
    },
    webhookHandler(options),
  );
  newestConnections(server, MOST_CONNECTIONS);
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
  if (step === undefined) return refuse(response, 404, 'there is /mutate and /validate');
  if (request.method !== 'POST') return refuse(response, 405, 'POST an AdmissionReview', { allow: 'POST' });
  if (!/^application\/json\b/i.test(request.headers['content-type'] ?? '')) {
    return refuse(response, 415, 'the body must be application/json');
  }
  const body = await bodyOf(request, room);
  if (body === 'too long') {
    return refuse(response, 413, `the body has more than ${MOST_BYTES} bytes`, { connection: 'close' });
  }
  if (body === 'no room') return refuse(response, 503, 'too many at once', { connection: 'close' });
  const review = parseReview(parse(body));
  if (review === null) return refuse(response, 400, 'the body is no AdmissionReview of admission.k8s.io/v1');
  const text = JSON.stringify(formatReview(review, await decide(review, step, options)));
  response.writeHead(200, { 'content-type': 'application/json' }).end(text);
}

/**
 * A refusal that newer objects might turn is given only when the API server has none, and there
 * were none for a while.
 */
async function decide(
  review: AdmissionRequest,
  step: AdmissionStep,
  { world, changed, latest }: WebhookOptions,
): Promise<Admission> {
  const first = admit(review, step, world());
  if (first.refusal?.mayPass !== true) return first;
  const newer = await latest(review, world());
  const second = newer === null ? first : admit(review, step, newer);
  if (second.refusal?.mayPass !== true) return second;
  const until = performance.now() + LONGEST_WAIT;
  for (;;) {
    const seen = world();
    const admission = admit(review, step, seen);
    const left = until - performance.now();
    if (admission.refusal?.mayPass !== true || left <= 0) return admission;
    await changed(left);
    if (world().objects === seen.objects) return admission;
  }
}

/** What bodies may still take. */
interface Room {
  bytes: number;
}

/** What comes of a body that isn't taken is not read. */
async function bodyOf(request: IncomingMessage, room: Room): Promise<Buffer | 'too long' | 'no room'> {
  if (Number(request.headers['content-length'] ?? 0) > MOST_BYTES) return 'too long';
  const chunks: Buffer[] = [];
  let bytes = 0;
  try {
    for await (const chunk of request.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
      bytes += chunk.length;
      room.bytes -= chunk.length;
      if (bytes > MOST_BYTES) return 'too long';
      if (room.bytes < 0) return 'no room';
      chunks.push(chunk);
    }
    return Buffer.concat(chunks);
  } finally {
    room.bytes += bytes;
  }
}

/** Undefined where it is no JSON. */
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
