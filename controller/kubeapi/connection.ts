import { once } from 'node:events';
import http from 'node:http';
import https from 'node:https';
import type { KubeConfig } from '@kubernetes/client-node';
import { errorMessage } from '../../lib/sharing/error.ts';

export interface Outgoing {
  readonly method: string;
  /** Absolute, with its query. */
  readonly path: string;
  readonly headers?: Readonly<Record<string, string | number>>;
  readonly body?: string;
  /** Aborting closes the connection. */
  readonly signal: AbortSignal;
}

export interface ApiConnection {
  /** The API server's origin, for messages. */
  readonly server: string;
  /** Resolves with the response head. Throws CredentialsError, or the error of the connection. */
  send(outgoing: Outgoing): Promise<http.IncomingMessage>;
  /** Closes all connections. */
  close(): void;
}

/** Called with the status of each answer. */
export type OnAnswer = (status: number) => void;

export class CredentialsError extends Error {
  override readonly name = 'CredentialsError';
}

/** TCP keep-alive probes start after this idle time (milliseconds). */
const KEEP_ALIVE = 30_000;

/**
 * Connects to the API server of the current context, with at most `maxSockets` persistent
 * connections. Certificates and credentials are determined for each request (read, or obtained by
 * running a command, as the kubeconfig specifies), so renewed ones are used at once.
 *
 * @param protocols offered to the server (ALPN); absent: those of HTTP
 */
export function apiConnection(
  kubeConfig: KubeConfig,
  maxSockets = Number.POSITIVE_INFINITY,
  answered: OnAnswer = () => {},
  protocols?: readonly string[],
): ApiConnection {
  const cluster = kubeConfig.getCurrentCluster();
  if (cluster === null) throw new Error('the kubeconfig has no current context with a cluster');
  const server = new URL(cluster.server);
  const root = `${server.origin}${server.pathname.replace(/\/$/, '')}`;
  const { request } = server.protocol === 'http:' ? http : https;
  const kept = { keepAlive: true, keepAliveMsecs: KEEP_ALIVE, maxSockets };
  const alpn = protocols === undefined ? {} : { ALPNProtocols: [...protocols] };
  const agent = server.protocol === 'http:' ? new http.Agent(kept) : new https.Agent({ ...kept, ...alpn });

  async function withCredentials(): Promise<https.RequestOptions> {
    const options: https.RequestOptions = {};
    try {
      await kubeConfig.applyToHTTPSOptions(options);
    } catch (cause) {
      const message = `cannot get the kubeconfig's credentials: ${(cause as Error).message}`;
      throw new CredentialsError(message, { cause });
    }
    // The library's own agent keeps no connections, but is required for a proxy.
    if (!cluster?.proxyUrl) options.agent = agent;
    return options;
  }

  /**
   * If one connection stops responding, idle ones may be dead too, and each would cost another
   * time-out.
   */
  function dropIdle(): void {
    for (const sockets of Object.values(agent.freeSockets)) {
      for (const socket of sockets ?? []) socket.destroy();
    }
  }

  async function send({ method, path, headers, body, signal }: Outgoing): Promise<http.IncomingMessage> {
    const options = await withCredentials();
    const outgoing = request(`${root}${path}`, {
      ...options,
      method,
      headers: { ...options.headers, accept: 'application/json', 'user-agent': 'nodewall', ...headers },
      signal,
    });
    signal.addEventListener('abort', dropIdle, { once: true });
    outgoing.once('close', () => signal.removeEventListener('abort', dropIdle));
    outgoing.on('socket', (socket) => socket.setKeepAlive(true, KEEP_ALIVE));
    // Errors after the response began are also emitted by its body.
    outgoing.on('error', () => {});
    outgoing.end(body);
    const [response] = (await once(outgoing, 'response')) as [http.IncomingMessage];
    answered(response.statusCode ?? 0);
    return response;
  }

  return { server: server.origin, send, close: () => agent.destroy() };
}

/** If several addresses were tried, each has its own error. */
export function messageOf(error: unknown): string {
  if (error instanceof AggregateError) return error.errors.map(messageOf).join('; ');
  return errorMessage(error);
}
