import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';
import { createServer as createHttpsServer, type Server, type ServerOptions } from 'node:https';
import { setTimeout as sleep } from 'node:timers/promises';
import { readChunks } from '../../lib/process/body.ts';
import { ConnectionLimit, limitInFlight, sourceOf } from '../../lib/process/server-connections.ts';
import { toError } from '../../lib/sharing/error.ts';
import type { Impact } from '../impact/impact.ts';
import { type Asker, ImpactOverrunError } from '../impact/impact-process.ts';
import type { ObjectChange } from '../impact/object-mirror.ts';
import type { Authorise } from '../publish/auth.ts';
import type { Deletion } from '../status/definition-keeper.ts';
import type { AdmissionStep, AdmissionWorld } from './admission.ts';
import { AdmissionOverrunError, type BodyRequest } from './admission-process.ts';
import { type BodyAdmission, BodyRoom, type PendingChange } from './admit-body.ts';
import { impactAdmission } from './impact-admission.ts';
import type { latestWorld } from './latest.ts';
import { ALLOWED, formatReview, type Rejection, refuse as refuseChange, type UseQuestion } from './review.ts';

interface Deletions {
  /**
   * Resolves when the world is that of all events so far; false: events may be missing, since a
   * watch is broken.
   */
  fresh(): Promise<boolean>;
  /** As DefinitionKeeper does, in so many milliseconds. */
  keep(deletion: Deletion, milliseconds: number): Promise<string | null>;
}

export interface WebhookOptions {
  /** The step of a request for this path; null: it is not from the API server. See WebhookPaths. */
  readonly stepOf: (path: string) => AdmissionStep | null;
  /** As AdmissionProcess does. */
  readonly admit: (request: BodyRequest) => Promise<BodyAdmission | null>;
  /** Returns the current state of the cluster. */
  readonly world: () => AdmissionWorld;
  /**
   * Resolves when the world has changed, at the latest after this time (milliseconds). A policy
   * created right after its Tier may arrive here before the Tier; a refusal caused by other objects
   * waits for it.
   */
  readonly changed: (milliseconds: number) => Promise<void>;
  /**
   * Resolves with the world in which the named objects are those of the API server now; null if
   * `world` is as good. See latestWorld.
   */
  readonly latest: ReturnType<typeof latestWorld>;
  /** Absent: what is in use can't be deleted. */
  readonly deletions?: Deletions | undefined;
  /** Evaluates a user's change; absent: changes are not evaluated, and no Guardrail is checked. */
  readonly impact?: (change: ObjectChange, asker: Asker) => Promise<Impact>;
  /** Absent: the right can't be checked, and nobody has it. */
  readonly mayUse?: MayUse;
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
/** Size limit of all bodies that are being read or wait for their turn (bytes). */
const MOST_BYTES_AT_ONCE = 8 * MOST_BYTES;
/** API servers keep a few connections each. */
const CONNECTIONS = { most: () => 256, mostOfSource: 64 };
/** Bytes of a request's head. */
const MOST_HEAD = 8 << 10;
/** Milliseconds; the webhook configurations allow 5 s in all. */
const LONGEST_WAIT = 1000;
/** Milliseconds until the world is that of all events so far: it may be compiled first. */
const LONGEST_LOOK = 2000;
/** Milliseconds in which an answer is sent: the API server gives one that is late no reason. */
const LONGEST_ANSWER = 4500;
const REQUEST_TIMEOUT = 5000;

/**
 * Answers AdmissionReview requests of the API server. It presents no certificate by default, so it
 * proves itself by a path that only the webhook configurations have. Anybody else gets 404, before
 * the body is read, and the connection ends: answers tell of other objects of the cluster.
 *
 * @param proven called with the connection of each request that the API server sent
 */
export function webhookHandler(
  options: WebhookOptions,
  proven: (socket: IncomingMessage['socket']) => void = () => {},
): RequestListener {
  const room = new BodyRoom(MOST_BYTES_AT_ONCE);
  return limitInFlight((request, response) => {
    const step = stepOf(request, options);
    if (step === null) return refuse(response, 404, 'not found', { connection: 'close' });
    proven(request.socket);
    answer({ request, response, step }, options, room).catch((error: unknown) => {
      options.onFailure(toError(error));
      if (!response.headersSent) refuse(response, 500, 'internal error');
      else response.destroy();
    });
  });
}

function stepOf({ url = '' }: IncomingMessage, options: WebhookOptions): AdmissionStep | null {
  const [path = ''] = url.split('?', 1);
  return options.stepOf(path);
}

/**
 * As webhookHandler, for the server of another port: takes the requests that the API server sent,
 * and returns false for all others.
 */
export function sharedWebhook(
  options: WebhookOptions,
  proven: (socket: IncomingMessage['socket']) => void,
): (request: IncomingMessage, response: ServerResponse) => boolean {
  const handler = webhookHandler(options, proven);
  return (request, response) => {
    const isOurs = stepOf(request, options) !== null;
    if (isOurs) handler(request, response);
    return isOurs;
  };
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
    webhookHandler(options, (socket) => connections.keep(socket, sourceOf(socket))),
  );
  const connections = new ConnectionLimit(server, CONNECTIONS);
  return server;
}

interface Asked {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly step: AdmissionStep;
}

async function answer(
  { request, response, step }: Asked,
  options: WebhookOptions,
  room: BodyRoom,
): Promise<void> {
  if (request.method !== 'POST') return refuse(response, 405, 'use POST', { allow: 'POST' });
  if (!/^application\/json\b/i.test(request.headers['content-type'] ?? '')) {
    return refuse(response, 415, 'the body must be application/json');
  }
  if (Number(request.headers['content-length'] ?? 0) > MOST_BYTES) return refuseLong(response);
  const source = sourceOf(request.socket);
  const until = performance.now() + LONGEST_ANSWER;
  // Closing the connection also ends a body that is still being sent.
  const reading = room.enter(source, () =>
    refuse(response, 503, 'too many requests', { connection: 'close' }),
  );
  try {
    const chunks = request.iterator({ destroyOnReturn: false });
    const body = await readChunks(chunks, MOST_BYTES, reading.add).catch(() => undefined);
    // Refused, or the client is gone.
    if (body === undefined || response.headersSent) return;
    if (body === null) return refuseLong(response);
    const asked = { body, step, source, isWanted: () => !response.destroyed && !response.headersSent };
    const decided = await decide(asked, options);
    const admission = decided?.deletion == null ? decided : await decideDeletion(asked, options);
    if (response.headersSent) return;
    if (admission === null) return refuse(response, 400, 'not an AdmissionReview of admission.k8s.io/v1');
    const text = await finish(admission, { source, until }, options);
    if (response.headersSent) return;
    response.writeHead(200, { 'content-type': 'application/json' }).end(text);
  } catch (error) {
    if (!(error instanceof AdmissionOverrunError)) throw error;
    refuse(response, 503, error.message);
  } finally {
    reading.leave();
  }
}

/** The answer, once all that it holds for is asked and done. */
async function finish(
  admission: BodyAdmission,
  { source, until }: { readonly source: string; readonly until: number },
  options: WebhookOptions,
): Promise<string> {
  const { change, deletion } = admission;
  const text =
    change === null ? await withRight(admission, source, options) : await withImpact(change, source, options);
  if (deletion === null || deletion.users.length === 0) return text;
  const { request: uid, kind, name } = deletion;
  const left = Math.max(0, until - performance.now());
  const why = options.deletions === undefined ? 'is in use' : await options.deletions.keep(deletion, left);
  if (why === null) return text;
  return JSON.stringify(formatReview({ uid }, refuseChange([`${kind}/${name}: ${why}`], true, 'Conflict')));
}

/** The answer with what the change would do, or its refusal. */
async function withImpact(
  pending: PendingChange,
  source: string,
  { impact, world, deletions, onFailure }: WebhookOptions,
): Promise<string> {
  const { uid, user, warnings, ...change } = pending;
  const evaluate = async (): Promise<Impact | null | undefined> =>
    await impact?.(change, { source, user }).catch((error: unknown) => {
      if (!(error instanceof ImpactOverrunError)) onFailure(toError(error));
      return null;
    });
  let found = await evaluate();
  if (found?.broken != null && deletions !== undefined) {
    // The same command may have deleted the Guardrail just before.
    await isFresh(deletions);
    const { guardrail } = found.broken;
    if (world().objects?.guardrails.every(({ name }) => name !== guardrail)) found = await evaluate();
  }
  const hasGuardrails = (world().objects?.guardrails.length ?? 0) > 0;
  const admission =
    found === undefined
      ? { ...ALLOWED, warnings }
      : impactAdmission(change, found, { warnings, hasGuardrails });
  return JSON.stringify(formatReview({ uid }, admission));
}

/** The answer, or the refusal of a user who lacks the right that it needs. */
async function withRight(
  { text, use }: BodyAdmission,
  source: string,
  { mayUse = noRight }: WebhookOptions,
): Promise<string> {
  const rejection = use === null ? null : await mayUse(use, source);
  if (use === null || rejection === null) return text;
  return JSON.stringify(formatReview(use, { ...ALLOWED, rejection }));
}

const noRight: MayUse = async ({ subject }) => {
  const message = `${subject}: this controller checks no rights`;
  return { reason: 'ServiceUnavailable', message, isTransient: false };
};

/**
 * A refusal that newer objects could change is given only if the API server has none, and none
 * arrive for a while. That something does not exist is said only if the API server says so; if it
 * has it, the answer waits for it as well, because the impact of the change depends on it.
 */
async function decide(
  asked: Omit<BodyRequest, 'world'>,
  { world, changed, latest, admit }: WebhookOptions,
): Promise<BodyAdmission | null> {
  const first = await admit({ ...asked, world: world() });
  if (first?.isTransient !== true) return first;
  const newer = await latest(first.names, world(), first.isMissing);
  const second = newer === null ? first : await admit({ ...asked, world: newer });
  if (first.isMissing ? second?.isMissing !== false : second?.isTransient !== true) return second;
  const until = performance.now() + LONGEST_WAIT;
  for (;;) {
    const seen = world();
    const admission = await admit({ ...asked, world: seen });
    const left = until - performance.now();
    if (admission?.isTransient !== true) return admission;
    const last = first.isMissing ? second : admission;
    if (left <= 0) return last;
    await changed(left);
    if (world().objects === seen.objects) return last;
  }
}

/** A deletion is admitted by all that is known, and refused where that may not be all. */
async function decideDeletion(
  asked: Omit<BodyRequest, 'world'>,
  { world, changed, deletions, admit }: WebhookOptions,
): Promise<BodyAdmission | null> {
  const until = performance.now() + LONGEST_WAIT;
  for (;;) {
    const isWhole = deletions === undefined || (await isFresh(deletions));
    const left = until - performance.now();
    if (isWhole || left <= 0)
      return await admit({ ...asked, world: isWhole ? world() : { ...world(), objects: null } });
    await changed(Math.min(left, LONGEST_WAIT / 10));
  }
}

/** False also where that takes too long. */
async function isFresh(deletions: Deletions): Promise<boolean> {
  return await Promise.race([deletions.fresh(), sleep(LONGEST_LOOK, false, { ref: false })]);
}

function refuseLong(response: ServerResponse): void {
  refuse(response, 413, `the body has more than ${MOST_BYTES} bytes`, { connection: 'close' });
}

function refuse(
  response: ServerResponse,
  status: number,
  why: string,
  headers: Readonly<Record<string, string>> = {},
): void {
  if (response.headersSent) return;
  response.writeHead(status, { 'content-type': 'text/plain; charset=utf-8', ...headers }).end(`${why}\n`);
}

interface UseRightOptions {
  readonly authorise: Authorise;
  /** Milliseconds; the webhook configurations allow 5 s in all. */
  readonly timeout?: number;
}

/** Null: the user has the right. `source`: the address that sent the question. */
type MayUse = (question: UseQuestion, source: string) => Promise<Rejection | null>;

const TIMEOUT = 2_500;

/** Reviews at once, and waiting ones: the answer is useless after the timeout. */
export const USE_QUEUE = { atOnce: 4, most: 64 } as const;

/** Milliseconds: who was refused is granted the right, and tries again. */
export const KEEP_REFUSED_USE = 1_000;

/**
 * Asks the API server whether the user has the verb `use` on the gateway: in all namespaces, or in
 * that of the policy, as a RoleBinding there gives it. What can't be checked is refused.
 */
export function useRight({ authorise, timeout = TIMEOUT }: UseRightOptions): MayUse {
  return async ({ user, gateway, namespace, subject }, source) => {
    const access = {
      ...({ verb: 'use', group: 'nodewall.io', version: 'v1alpha1' } as const),
      resource: 'egressgateways',
      name: gateway,
      ...(namespace === '' ? {} : { namespace }),
    };
    const right = `the right to use EgressGateway ${gateway} (RBAC verb use on egressgateways.nodewall.io)`;
    try {
      const late = AbortSignal.timeout(timeout);
      const { promise: over, reject } = Promise.withResolvers<never>();
      late.addEventListener('abort', () => reject(new Error('no answer in time')));
      const { allowed } = await Promise.race([authorise({ ...user, expires: null }, access, source), over]);
      if (allowed) return null;
      const message = `${subject}: user ${user.username} lacks ${right}`;
      return { reason: 'Forbidden', message, isTransient: false };
    } catch (error) {
      const why = (error as Error).message;
      const message = `${subject}: it can't be checked whether user ${user.username} has ${right}: ${why}; try again`;
      return { reason: 'ServiceUnavailable', message, isTransient: false };
    }
  };
}
