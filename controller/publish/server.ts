import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer, type ServerOptions } from 'node:https';
import type { AddressInfo } from 'node:net';
import type { NodeReport } from '../../apis/stream.ts';
import type { Authenticate, Authorise } from './auth.ts';
import { type Failure, failure, toStatus } from './failure.ts';
import type { Hub } from './hub.ts';
import { fewInFlight } from './in-flight.ts';
import { type Answer, requestRouter } from './requests.ts';
import type { ServerEvent } from './server-event.ts';
import { type Streams, type StreamsOptions, watchStreams } from './streams.ts';

/** PEM texts. */
export interface ServerTls {
  readonly key: string;
  readonly cert: string;
  /**
   * The front proxy's CA, which alone client certificates are verified against; absent: nobody's
   * are trusted.
   */
  readonly clientCa?: string;
}

export interface ControlPlaneOptions {
  readonly hub: Hub;
  readonly authenticate: Authenticate;
  /**
   * Asked for everybody but the agents, who may read their own node's view and report on it, and
   * nothing else.
   */
  readonly authorise: Authorise;
  /**
   * Why agents can't be followed here, or report; null: they can. Everything else is answered all
   * the same. Absent: they always can.
   */
  readonly refusesAgents?: () => Failure | null;
  /** Agents' reports, valid, of nodes there are. */
  readonly onReport: (report: NodeReport) => void;
  readonly tls: ServerTls;
  /** User name of the agents' service account. */
  readonly agents?: string;
  readonly limits?: Partial<ServerLimits>;
  readonly streams?: Partial<StreamsOptions>;
  /** A request that failed for a reason of the server's own, a watcher that was cut off. */
  readonly onEvent?: (event: ServerEvent) => void;
  /** Milliseconds since 1970. */
  readonly now?: () => number;
}

export interface ServerLimits {
  /** Connections; more are refused where they knock. */
  readonly connections: number;
  /** Bytes of a request's head and of a report. */
  readonly head: number;
  readonly body: number;
  /**
   * Milliseconds for a TLS handshake, a request's head, the whole request; and between requests of
   * one connection.
   */
  readonly handshake: number;
  readonly headTime: number;
  readonly requestTime: number;
  readonly idle: number;
  /** Milliseconds that what is under way may take when the server closes. */
  readonly grace: number;
}

export const SERVER_LIMITS: ServerLimits = {
  connections: 25_000,
  head: 32 << 10,
  body: 256 << 10,
  // Thousands of handshakes wait for each other when all agents come at once: who is sent away for
  // that comes again, and makes it worse.
  handshake: 60_000,
  headTime: 60_000,
  requestTime: 90_000,
  idle: 60_000,
  grace: 2000,
};

/**
 * Thousands of agents come back at once; the kernel takes net.core.somaxconn where that is less.
 */
const BACKLOG = 4096;

export interface ServerStats {
  readonly watchers: number;
  /** Bytes of lines handed to connections since the start, without HTTP's and TLS's own. */
  readonly sentBytes: number;
  /** Bytes that watchers have not taken yet. */
  readonly unsentBytes: number;
  readonly cutOff: number;
  /** Answers so far by HTTP status; a watch counts when it begins. */
  readonly answers: ReadonlyMap<number, number>;
}

export interface ControlPlaneServer {
  /** Resolves when it listens. Port 0 is any that is free. */
  listen(port: number, host?: string): Promise<AddressInfo>;
  /** A new certificate, key or client CA: for connections from now on. */
  setTls(tls: ServerTls): void;
  stats(): ServerStats;
  /** The last report of each node that has sent one. */
  reports(): ReadonlyMap<string, NodeReport>;
  /**
   * Ends all watches in order, so that agents go elsewhere at once, and forgets what they reported.
   */
  endStreams(why: string): void;
  /** The same, and listens no longer; resolves when all connections are gone. */
  close(): Promise<void>;
}

export const AGENTS = 'system:serviceaccount:nodewall-system:nodewall-agent';

/**
 * Serves `controlplane.nodewall.io/v1alpha1` (apis/stream.ts) from a hub, in the manner of an
 * aggregated Kubernetes API.
 */
export function controlPlaneServer(options: ControlPlaneOptions): ControlPlaneServer {
  const { hub, tls, now = Date.now, onEvent = () => {} } = options;
  const limits = { ...SERVER_LIMITS, ...options.limits };
  const answers = new Map<number, number>();
  const reports = new Map<string, NodeReport>();
  const streams: Streams = watchStreams({ ...options, now, onEvent });
  const route = requestRouter({
    ...options,
    agents: options.agents ?? AGENTS,
    streams,
    reports,
    now,
    mostBody: limits.body,
  });
  const server = createServer(
    serverOptions(tls, limits),
    fewInFlight((request, response) => {
      serve(request, response).catch((error: unknown) => {
        onEvent({ kind: 'failed', path: request.url ?? '', error });
        response.destroy();
      });
    }),
  );
  server.maxConnections = limits.connections;
  // A handshake that fails is the client's affair; Node closes the connection.
  server.on('tlsClientError', () => {});

  const serve = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    let answer: Answer;
    try {
      answer = await route(request, response);
    } catch (error) {
      onEvent({ kind: 'failed', path: request.url ?? '', error });
      answer = { failure: failure('InternalError', 'the controller failed; its log says why') };
    }
    const code = 'failure' in answer ? answer.failure.code : answer.code;
    answers.set(code, (answers.get(code) ?? 0) + 1);
    if (response.destroyed || 'streaming' in answer) return;
    if ('failure' in answer) refuse(request, response, answer.failure);
    else writeJson(response, answer.code, answer.body);
  };
  return {
    listen(port, host) {
      return new Promise((resolve, reject) => {
        server.once('error', reject);
        server.listen({ port, backlog: BACKLOG, ...(host === undefined ? {} : { host }) }, () => {
          server.off('error', reject);
          resolve(server.address() as AddressInfo);
        });
      });
    },
    setTls: (wanted) => server.setSecureContext(secureContext(wanted)),
    stats: () => ({ watchers: hub.watchers, ...streams.stats(), answers }),
    reports: () => reports,
    endStreams(why) {
      streams.endAll(why);
      reports.clear();
    },
    close() {
      return new Promise((resolve) => {
        const last = setTimeout(() => server.closeAllConnections(), limits.grace);
        server.close(() => {
          clearTimeout(last);
          resolve();
        });
        streams.close();
      });
    },
  };
}

function serverOptions(tls: ServerTls, limits: ServerLimits): ServerOptions {
  return {
    ...secureContext(tls),
    requestCert: true,
    // Agents have no certificate: who somebody is says `authenticate`.
    rejectUnauthorized: false,
    handshakeTimeout: limits.handshake,
    maxHeaderSize: limits.head,
    headersTimeout: limits.headTime,
    requestTimeout: limits.requestTime,
    keepAliveTimeout: limits.idle,
    keepAlive: true,
    keepAliveInitialDelay: 15_000,
    noDelay: true,
  };
}

function secureContext({ key, cert, clientCa }: ServerTls) {
  // An empty list, for without one Node trusts the public CAs.
  return { key, cert, ca: clientCa === undefined ? [] : [clientCa], minVersion: 'TLSv1.2' as const };
}

function writeJson(response: ServerResponse, code: number, body: object | null): void {
  if (body === null) {
    response.writeHead(code).end();
    return;
  }
  const text = Buffer.from(`${JSON.stringify(body)}\n`);
  response.writeHead(code, { 'content-type': 'application/json', 'content-length': text.length });
  response.end(text);
}

function refuse(request: IncomingMessage, response: ServerResponse, why: Failure): void {
  for (const [name, value] of Object.entries(why.headers ?? {})) response.setHeader(name, value);
  // What is left of a body that isn't wanted isn't waited for.
  if (!request.complete) response.setHeader('connection', 'close');
  writeJson(response, why.code, toStatus(why));
}
