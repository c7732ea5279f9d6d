import type http from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import type { KubeConfig } from '@kubernetes/client-node';
import { readBody } from '../../lib/process/body.ts';
import { errorCode } from '../../lib/sharing/error.ts';
import { apiConnection, messageOf, type OnAnswer, type Outgoing } from './connection.ts';
import { formatRbacRule, KubeError, rbacRule, reasonOfStatus, shippedRole } from './kube-error.ts';

export interface KubeRequest {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  /** Absolute: `/api/v1/namespaces/…`. */
  readonly path: string;
  readonly query?: Readonly<Record<string, string>>;
  /**
   * Sent as JSON; for a PATCH it is a merge patch (RFC 7386), or a list of operations (RFC 6902).
   */
  readonly body?: unknown;
  /**
   * For a PATCH: the body is the desired object (server-side apply), which is created if it doesn't
   * exist; the query names the field manager.
   */
  readonly isApply?: boolean;
  /** The answer is text, as of a pod's log, and not an object. */
  readonly isText?: boolean;
  /** Time limit for the whole request including waits (milliseconds); default 10,000. */
  readonly timeout?: number;
  readonly signal?: AbortSignal;
}

/** Sends one request and returns the object (or text) in the response. Throws KubeError. */
export type KubeApi = <T>(request: KubeRequest) => Promise<T>;

export interface KubeApiClient {
  readonly request: KubeApi;
  /** The API server's origin, for messages. */
  readonly server: string;
  /** Closes all connections. */
  close(): void;
}

const TIMEOUT = 10_000;
/**
 * Size limit of a response (bytes); an object is at most 3 MiB in etcd, a list of policies is
 * larger.
 */
const MOST_BYTES = 256 * 1024 * 1024;
/** The most concurrent connections, each for single requests. */
const MOST_CONNECTIONS = 16;
/** The most waits for a busy server. */
const MOST_WAITS = 5;

/**
 * Sends requests to the API server over its own connections (see connection.ts). If the server is
 * too busy (429, or 503 with Retry-After, which it sends before processing a request), waits for
 * the requested time, within the time limit.
 * @param called what messages call the server
 * @param protocols see apiConnection
 */
export function kubeApi(
  kubeConfig: KubeConfig,
  called = 'the API server',
  answered?: OnAnswer,
  protocols?: readonly string[],
): KubeApiClient {
  const { server, send, close } = apiConnection(kubeConfig, MOST_CONNECTIONS, answered, protocols);

  async function answerTo(wanted: KubeRequest, signal: AbortSignal): Promise<Answer> {
    const { method, path, query, body } = wanted;
    const search = new URLSearchParams(query).toString();
    const response = await send({
      method,
      path: search === '' ? path : `${path}?${search}`,
      ...(body === undefined ? {} : toBody(wanted)),
      signal,
    });
    return { status: response.statusCode ?? 0, headers: response.headers, text: await textOf(response) };
  }

  async function request<T>(wanted: KubeRequest): Promise<T> {
    const timeout = AbortSignal.timeout(wanted.timeout ?? TIMEOUT);
    const signal = wanted.signal === undefined ? timeout : AbortSignal.any([timeout, wanted.signal]);
    for (let waits = 0, isRepeated = false; ; ) {
      try {
        const answer = await answerTo(wanted, signal);
        if (answer.status < 300) return parse<T>(answer, wanted);
        const error = toKubeError(answer, wanted);
        if (!isBusy(error) || waits++ === MOST_WAITS) throw error;
        await sleep((error.retryAfter ?? 1) * 1000, undefined, { signal });
      } catch (error) {
        if (error instanceof KubeError) throw error;
        // The server closed an idle connection at the moment of its use: repeating a read is safe.
        if (!isRepeated && wanted.method === 'GET' && !signal.aborted && errorCode(error) === 'ECONNRESET') {
          isRepeated = true;
          continue;
        }
        throw withoutAnswer(error, wanted, timeout);
      }
    }
  }

  function withoutAnswer(
    error: unknown,
    { method, path, signal }: KubeRequest,
    timeout: AbortSignal,
  ): KubeError {
    const failure = (reason: string, what: string): KubeError =>
      new KubeError(`${what} (${method} ${path})`, { reason, cause: error });
    if (signal?.aborted) return failure('Aborted', 'cancelled');
    if (timeout.aborted) return failure('Timeout', `no answer from ${server} in time`);
    const why = UNTRUSTED.includes(errorCode(error))
      ? "the kubeconfig's certificate-authority has not signed its certificate"
      : messageOf(error);
    return failure('Unreachable', `cannot reach ${called} ${server}: ${why}`);
  }

  return { request, server, close };
}

interface Answer {
  readonly status: number;
  readonly headers: http.IncomingHttpHeaders;
  readonly text: string;
}

function toBody({ method, body, isApply = false }: KubeRequest): Pick<Outgoing, 'body' | 'headers'> {
  const text = JSON.stringify(body);
  const type = method === 'PATCH' ? patchType(body, isApply) : 'application/json';
  return { body: text, headers: { 'content-type': type, 'content-length': Buffer.byteLength(text) } };
}

/** JSON is valid YAML. */
function patchType(body: unknown, isApply: boolean): string {
  if (isApply) return 'application/apply-patch+yaml';
  return Array.isArray(body) ? 'application/json-patch+json' : 'application/merge-patch+json';
}

async function textOf(response: http.IncomingMessage): Promise<string> {
  const body = await readBody(response, MOST_BYTES);
  if (body === null) throw new Error(`the answer has more than ${MOST_BYTES} bytes`);
  return body.toString();
}

function parse<T>({ text, status }: Answer, { method, path, isText }: KubeRequest): T {
  if (isText === true) return text as T;
  try {
    return JSON.parse(text) as T;
  } catch (error) {
    const message = `${method} ${path}: the answer is not valid JSON: ${text.slice(0, 200)}`;
    throw new KubeError(message, { status, reason: 'InternalError', cause: error });
  }
}

/** A metav1.Status, if the body is one. */
interface Status {
  readonly kind?: string;
  readonly message?: string;
  readonly reason?: string;
  readonly details?: { readonly retryAfterSeconds?: number };
}

function toKubeError({ status, headers, text }: Answer, { method, path }: KubeRequest): KubeError {
  let said: Status | null = null;
  try {
    const value: unknown = JSON.parse(text);
    said = (value as Status | null)?.kind === 'Status' ? (value as Status) : null;
  } catch {
    // A proxy's error page, or no body: the status code alone is reported.
  }
  const reason = said?.reason || reasonOfStatus(status);
  const words = [said?.message ?? text.slice(0, 200).trim()];
  const rule = status === 403 ? rbacRule(method, path) : null;
  const role = rule === null ? null : shippedRole(rule);
  const shipped = role === null ? '' : `, which ClusterRole ${role} has`;
  if (rule !== null) words.push(`RBAC needs ${formatRbacRule(rule)}${shipped}`);
  const cause = words.filter((part) => part !== '').join(': ');
  const request = `${method} ${path}: ${status} ${reason}`;
  const message = cause === '' ? request : `${cause} (${request})`;
  const asked = headers['retry-after'] === undefined ? Number.NaN : Number(headers['retry-after']);
  const retryAfter = Number.isFinite(asked) ? asked : (said?.details?.retryAfterSeconds ?? null);
  return new KubeError(message, { status, reason, retryAfter, rule });
}

/** The request was not processed, and the server says when to retry. */
function isBusy({ status, retryAfter }: KubeError): boolean {
  return status === 429 || (status === 503 && retryAfter !== null);
}

/** OpenSSL's verdicts about a chain that does not end at a trusted certificate. */
const UNTRUSTED: readonly unknown[] = [
  'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
  'UNABLE_TO_GET_ISSUER_CERT',
  'UNABLE_TO_GET_ISSUER_CERT_LOCALLY',
  'SELF_SIGNED_CERT_IN_CHAIN',
  'DEPTH_ZERO_SELF_SIGNED_CERT',
  'CERT_SIGNATURE_FAILURE',
];

/** The fields that all objects of Kubernetes have; the rest is as others wrote it. */
export interface ListedObject {
  readonly metadata?: { readonly name?: string; readonly namespace?: string };
  readonly [key: string]: unknown;
}

interface Page {
  readonly items?: readonly ListedObject[] | null;
  readonly metadata?: { readonly continue?: string };
}

const PAGE = 500;

/**
 * The objects of a list, page by page, and whether there are more than `most`. Throws KubeError.
 *
 * @param wanted `timeout` is that of each page
 */
export async function listObjects(
  request: KubeApi,
  wanted: Pick<KubeRequest, 'path' | 'query' | 'timeout'>,
  most: number,
): Promise<{ readonly objects: readonly ListedObject[]; readonly isCut: boolean }> {
  const objects: ListedObject[] = [];
  let next = '';
  do {
    const page = await request<Page>({
      ...wanted,
      method: 'GET',
      query: { ...wanted.query, limit: String(PAGE), ...(next === '' ? {} : { continue: next }) },
    });
    objects.push(...(page.items ?? []));
    next = page.metadata?.continue ?? '';
  } while (next !== '' && objects.length < most);
  return { objects: objects.slice(0, most), isCut: next !== '' || objects.length > most };
}
