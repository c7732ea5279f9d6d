import type { KubeConfig } from '@kubernetes/client-node';
import { LineError } from '../../../lib/process/body.ts';
import { apiConnection, CredentialsError, messageOf, type OnAnswer } from '../../kubeapi/connection.ts';

/** A response whose head has arrived and whose body is still to be read. */
export interface ApiAnswer {
  readonly status: number;
  /** The header Retry-After in milliseconds; null if there is none. */
  readonly retryAfter: number | null;
  /** Throws if the connection ends before the body does. */
  readonly chunks: AsyncIterable<Buffer>;
}

/**
 * Sends a GET for a path with its query. Throws for errors before the response head arrives;
 * aborting closes the connection.
 */
export type ApiGet = (path: string, signal: AbortSignal) => Promise<ApiAnswer>;

export interface ApiTransport {
  readonly get: ApiGet;
  /** Closes all connections. */
  close(): void;
}

/**
 * Uses its own connections (see kubeapi/connection.ts). `get` throws a WatchFailure if the
 * credentials can't be read.
 */
export function apiTransport(kubeConfig: KubeConfig, answered?: OnAnswer): ApiTransport {
  const { send, close } = apiConnection(kubeConfig, undefined, answered);
  return {
    async get(path, signal) {
      try {
        const response = await send({ method: 'GET', path, signal });
        const { statusCode: status = 0, headers } = response;
        return { status, retryAfter: toMilliseconds(headers['retry-after']), chunks: response };
      } catch (error) {
        if (!(error instanceof CredentialsError)) throw error;
        throw new WatchFailure('unauthorized', error.message, { cause: error });
      }
    },
    close,
  };
}

/** Retry-After is seconds or a date (RFC 9110, section 10.2.3). */
function toMilliseconds(header: string | undefined): number | null {
  if (header === undefined) return null;
  const seconds = Number(header);
  const wait = Number.isFinite(seconds) ? seconds * 1000 : Date.parse(header) - Date.now();
  return Number.isNaN(wait) ? null : Math.max(0, wait);
}

/** The reasons why a list or a watch failed, as in metrics and notices. */
export const FAILURE_REASONS = [
  /** No connection could be made, or it broke. */
  'unreachable',
  /** Connected, but no data arrived for too long. */
  'silent',
  'unauthorized',
  'forbidden',
  /** 404 for a resource that discovery lists, or that had objects a moment ago. */
  'missing',
  /**
   * The server no longer has the version that the watch should continue from (410), or the
   * continuation of a list.
   */
  'expired',
  /** 429: the server asks for a later retry. */
  'throttled',
  'serverError',
  /** Any other HTTP status. */
  'refused',
  /** The data is not JSON, is truncated, or is not an event or a list. */
  'malformed',
  /** Events came in an order in which no API server sends them, so other events may be missing. */
  'disordered',
  /** A bug in nodewall. */
  'internal',
] as const;
export type FailureReason = (typeof FAILURE_REASONS)[number];

export class WatchFailure extends Error {
  override readonly name = 'WatchFailure';
  readonly reason: FailureReason;
  /** The wait that the server asks for (milliseconds); null: none. */
  readonly retryAfter: number | null;

  constructor(reason: FailureReason, message: string, more: WatchFailureOptions = {}) {
    super(message, more.cause === undefined ? undefined : { cause: more.cause });
    this.reason = reason;
    this.retryAfter = more.retryAfter ?? null;
  }
}

interface WatchFailureOptions {
  readonly retryAfter?: number | null;
  readonly cause?: unknown;
}

/**
 * Wraps an error thrown by a request: errors of the system and aborts are `unreachable`, those of a
 * line `malformed`, others `internal`.
 */
export function toWatchFailure(error: unknown): WatchFailure {
  if (error instanceof WatchFailure) return error;
  if (error instanceof LineError) return new WatchFailure('malformed', error.message, { cause: error });
  const isOfSystem = error instanceof Error && ('code' in error || error.name === 'AbortError');
  const message = messageOf(error);
  return new WatchFailure(isOfSystem ? 'unreachable' : 'internal', message, { cause: error });
}

/** The reason for an unexpected HTTP status, which metav1.Status repeats as `code`. */
export function reasonOfCode(code: number): FailureReason {
  if (code === 401) return 'unauthorized';
  if (code === 403) return 'forbidden';
  if (code === 404) return 'missing';
  if (code === 410) return 'expired';
  if (code === 429) return 'throttled';
  return code >= 500 ? 'serverError' : 'refused';
}
