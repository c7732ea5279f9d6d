import { once } from 'node:events';
import http from 'node:http';
import https from 'node:https';
import type { KubeConfig } from '@kubernetes/client-node';

export interface Outgoing {
  readonly method: string;
  /** From the root on, with its query. */
  readonly path: string;
  readonly headers?: Readonly<Record<string, string | number>>;
  readonly body?: string;
  /** Aborting breaks the connection. */
  readonly signal: AbortSignal;
}

export interface ApiConnection {
  /** Its origin, for messages. */
  readonly server: string;
  /**
   * Resolves with the head of the answer. Throws CredentialsError, or what went wrong on the way.
   */
  send(outgoing: Outgoing): Promise<http.IncomingMessage>;
  /** Breaks all connections. */
  close(): void;
}

export class CredentialsError extends Error {
  override readonly name = 'CredentialsError';
}

/**
 * Milliseconds without traffic after which the kernel asks whether the other end is still there.
 */
const KEEP_ALIVE = 30_000;

/**
 * The API server of the current context, over connections that are kept: `maxSockets` at once.
 * Certificates and credentials are asked for with each request (and read again, or run again, as
 * the kubeconfig says), so a renewed one counts at once.
 */
export function apiConnection(kubeConfig: KubeConfig, maxSockets = Number.POSITIVE_INFINITY): ApiConnection {
  const cluster = kubeConfig.getCurrentCluster();
  if (cluster === null) throw new Error('the kubeconfig has no current context with a cluster');
  const server = new URL(cluster.server);
  const root = `${server.origin}${server.pathname.replace(/\/$/, '')}`;
  const { Agent, request } = server.protocol === 'http:' ? http : https;
  const agent = new Agent({ keepAlive: true, keepAliveMsecs: KEEP_ALIVE, maxSockets });

  async function withCredentials(): Promise<https.RequestOptions> {
    const options: https.RequestOptions = {};
    try {
      await kubeConfig.applyToHTTPSOptions(options);
    } catch (cause) {
      const message = `the kubeconfig's credentials can't be had: ${(cause as Error).message}`;
      throw new CredentialsError(message, { cause });
    }
    // The library's own keeps no connection; through a proxy it is needed.
    if (!cluster?.proxyUrl) options.agent = agent;
    return options;
  }

  /**
   * Where one connection says nothing, those that are kept beside it may be as dead, each for a
   * time-out of its own.
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
    // What comes after the answer began is told by its body too.
    outgoing.on('error', () => {});
    outgoing.end(body);
    const [response] = (await once(outgoing, 'response')) as [http.IncomingMessage];
    return response;
  }

  return { server: server.origin, send, close: () => agent.destroy() };
}

/** Of several addresses tried, each has its own error. */
export function messageOf(error: unknown): string {
  if (error instanceof AggregateError) return error.errors.map(messageOf).join('; ');
  return error instanceof Error ? error.message : String(error);
}
