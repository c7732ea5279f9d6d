import { once } from 'node:events';
import { chmodSync, rmSync } from 'node:fs';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { type AddressInfo, BlockList, isIPv4 } from 'node:net';
import type { Registry } from 'prom-client';
import { CommandError, EXIT } from './exit.ts';
import { toListenAddress } from './option-value.ts';
import { ConnectionLimit } from './server-connections.ts';

interface MetricsOptions {
  /**
   * `--metrics-listen`: HOST:PORT, [IPv6]:PORT or :PORT; or the path of a Unix socket, which no
   * other process has to itself as a port.
   */
  readonly listen: string | { readonly socket: string };
  readonly registry: Registry;
  /** Whether /metrics answers only clients on the loopback addresses; default: all clients. */
  readonly isLocal?: boolean;
  /** Null, or the reason why the process should be restarted. */
  healthy(): string | null;
  /** Null, or the reason why the process is not ready. */
  ready(): string | null;
}

export interface MetricsServer {
  /** 0: a Unix socket has none. */
  readonly port: number;
  close(): Promise<void>;
}

/**
 * The clients are a kubelet and one or two Prometheus servers. A kubelet that can't connect would
 * restart the process.
 */
const CONNECTIONS = { most: () => 64, mostOfSource: 32 };
/** Time limit for a whole request (milliseconds). */
const REQUEST_TIMEOUT = 10_000;
/** Bytes of a request's head; the longest part is a token. */
const MOST_HEAD = 8 << 10;

const LOOPBACK = loopback();
const ONLY_LOCAL =
  '/metrics answers clients on this machine alone; others get it by https from the port for agents, with a token\n';

/**
 * Serves /healthz and /readyz (200 `ok`, or 503 with the reason, as Kubernetes' own processes do)
 * and /metrics (Prometheus text format) over HTTP. Resolves when it listens; throws a CommandError
 * if it can't listen on the address.
 */
export async function serveMetrics({
  listen,
  registry,
  isLocal = false,
  healthy,
  ready,
}: MetricsOptions): Promise<MetricsServer> {
  const where =
    typeof listen === 'string' ? toListenAddress(listen, '--metrics-listen') : { path: listen.socket };
  const option = typeof listen === 'string' ? '--metrics-listen' : '--health-socket';
  const checks: Readonly<Record<string, () => string | null>> = { '/healthz': healthy, '/readyz': ready };

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const [path = ''] = (request.url ?? '').split('?', 1);
    if (request.method !== 'GET' && request.method !== 'HEAD') {
      return send(response.setHeader('allow', 'GET, HEAD'), 405, 'only GET and HEAD are supported\n');
    }
    if (path === '/metrics') {
      if (isLocal && !LOOPBACK.check(...addressOf(request))) return send(response, 403, ONLY_LOCAL);
      response.setHeader('content-type', registry.contentType);
      return send(response, 200, await registry.metrics());
    }
    const check = Object.hasOwn(checks, path) ? checks[path] : undefined;
    if (check === undefined) return send(response, 404, 'unknown path; use /healthz, /readyz or /metrics\n');
    const reason = check();
    return send(response, reason === null ? 200 : 503, `${reason ?? 'ok'}\n`);
  }

  const server = createServer(
    { requestTimeout: REQUEST_TIMEOUT, maxHeaderSize: MOST_HEAD },
    (request, response) => {
      answer(request, response).catch((error: unknown) =>
        send(response, 500, `${(error as Error).message}\n`),
      );
    },
  );
  // All users of a Unix socket are one source, and have no address.
  if ('path' in where) server.maxConnections = CONNECTIONS.mostOfSource;
  else new ConnectionLimit(server, CONNECTIONS);
  try {
    // A process that was killed left it.
    if ('path' in where) rmSync(where.path, { force: true });
    server.listen(where);
    await once(server, 'listening');
    if ('path' in where) chmodSync(where.path, 0o600);
  } catch (error) {
    throw new CommandError(EXIT.refused, `${option}: ${(error as Error).message}`, { cause: error });
  }
  // An accept that fails (no free file descriptor) must not end the process.
  server.on('error', () => {});
  return {
    port: 'path' in where ? 0 : (server.address() as AddressInfo).port,
    async close() {
      server.close();
      server.closeAllConnections();
      await once(server, 'close');
    },
  };
}

function addressOf({ socket }: IncomingMessage): [string, 'ipv4' | 'ipv6'] {
  const { remoteAddress = '::' } = socket;
  return [remoteAddress, isIPv4(remoteAddress) ? 'ipv4' : 'ipv6'];
}

function loopback(): BlockList {
  const list = new BlockList();
  list.addSubnet('127.0.0.0', 8);
  list.addAddress('::1', 'ipv6');
  return list;
}

function send(response: ServerResponse, status: number, body: string): void {
  if (response.headersSent) return void response.destroy();
  if (!response.hasHeader('content-type')) response.setHeader('content-type', 'text/plain; charset=utf-8');
  response.writeHead(status, { 'cache-control': 'no-store' }).end(body);
}
