import http from 'node:http';
import https from 'node:https';
import type { KubeConfig } from '@kubernetes/client-node';
import { WatchFailure } from './failure.ts';

/** An answer whose head is there and whose body is still to come. */
export interface ApiAnswer {
  readonly status: number;
  /** Milliseconds, of the header Retry-After; null where there is none. */
  readonly retryAfter: number | null;
  /** Throws where the connection ends before the body does. */
  readonly chunks: AsyncIterable<Buffer>;
}

/** GET of a path with its query. What goes wrong before the head of the answer throws; aborting breaks the connection. */
export type ApiGet = (path: string, signal: AbortSignal) => Promise<ApiAnswer>;

export interface ApiTransport {
  readonly get: ApiGet;
  /** Breaks all connections. */
  close(): void;
}

/** Milliseconds without traffic after which the kernel asks whether the other end is still there. */
const KEEP_ALIVE = 30_000;

/**
 * Requests to the API server of the current context, over connections that are kept. Certificates and credentials are asked for with each request (and
 * read again, or run again, as the kubeconfig says), so a renewed one counts at once.
 */
export function apiTransport(kubeConfig: KubeConfig): ApiTransport {
  const cluster = kubeConfig.getCurrentCluster();
  if (cluster === null) throw new Error('the kubeconfig has no current context with a cluster');
  const server = new URL(cluster.server);
  const root = `${server.origin}${server.pathname.replace(/\/$/, '')}`;
  const { Agent, request } = server.protocol === 'http:' ? http : https;
  const agent = new Agent({ keepAlive: true, keepAliveMsecs: KEEP_ALIVE });

  async function get(path: string, signal: AbortSignal): Promise<ApiAnswer> {
    const options: https.RequestOptions = {};
    try {
      await kubeConfig.applyToHTTPSOptions(options);
    } catch (cause) {
      const message = `the kubeconfig's credentials can't be had: ${(cause as Error).message}`;
      throw new WatchFailure('unauthorized', message, { cause });
    }
    // The library's own keeps no connection; through a proxy it is needed.
    if (!cluster?.proxyUrl) options.agent = agent;
    const headers = { ...options.headers, accept: 'application/json', 'user-agent': 'nodewall' };
    return new Promise((resolve, reject) => {
      const outgoing = request(`${root}${path}`, { ...options, headers, signal }, (response) => {
        const { statusCode: status = 0, headers: answered } = response;
        resolve({ status, retryAfter: toMilliseconds(answered['retry-after']), chunks: response });
      });
      outgoing.on('socket', (socket) => socket.setKeepAlive(true, KEEP_ALIVE));
      outgoing.on('error', reject);
      outgoing.end();
    });
  }

  return { get, close: () => agent.destroy() };
}

/** Retry-After is seconds or a date (RFC 9110, section 10.2.3). */
function toMilliseconds(header: string | undefined): number | null {
  if (header === undefined) return null;
  const seconds = Number(header);
  const wait = Number.isFinite(seconds) ? seconds * 1000 : Date.parse(header) - Date.now();
  return Number.isNaN(wait) ? null : Math.max(0, wait);
}
