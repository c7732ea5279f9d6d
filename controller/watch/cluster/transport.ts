import type { KubeConfig } from '@kubernetes/client-node';
import { apiConnection, CredentialsError, type OnAnswer } from '../../kubeapi/connection.ts';
import { WatchFailure } from './failure.ts';

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
