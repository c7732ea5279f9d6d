import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer, type Server } from 'node:https';
import type { AddressInfo, Socket } from 'node:net';
import type { TLSSocket } from 'node:tls';
import type { NodeReport } from '../../apis/node-report.ts';
import type { ProbeUpdate, QuestionUpdate } from '../../apis/stream.ts';
import type { ListenAddress } from '../../lib/process/option-value.ts';
import {
  ConnectionLimit,
  limitInFlight,
  OpenSockets,
  sourceOf,
} from '../../lib/process/server-connections.ts';
import { present } from '../../lib/sharing/present.ts';
import type { ConsoleDocuments } from '../console/console-requests.ts';
import { type Answer, type Failure, failure, writeAnswer } from './answer.ts';
import type { IgnoredAddresses } from './api-objects.ts';
import type { Authenticate, Authorise } from './auth.ts';
import {
  type AnswerOptions,
  type ControllerStates,
  type LeaseService,
  type MetricsSource,
  type ProbeService,
  ROWS,
} from './calls.ts';
import type { Hub } from './hub.ts';
import {
  AGENT_USER,
  BACKLOG,
  SERVER_LIMITS,
  type ServerLimits,
  type ServerTls,
  secureContext,
  serverOptions,
} from './limits.ts';
import type { NodeQuestionService } from './node-questions.ts';
import type { NodeReports } from './node-reports.ts';
import { router } from './route.ts';
import { type ServerEvent, Streams, type StreamsOptions } from './streams.ts';

export interface ControlPlaneOptions {
  readonly hub: Hub;
  readonly authenticate: Authenticate;
  /**
   * Called for all users except agents, which may only read their own node's view and report on it.
   */
  readonly authorise: Authorise;
  /**
   * Whether others than scrapers of the controller's own metrics are answered now; absent: they
   * are.
   */
  readonly isOpen?: () => boolean;
  /**
   * The reason why watches and reports of agents are refused now; null: they are not. All other
   * requests are served anyway. Absent: they are never refused.
   */
  readonly refusesAgents?: () => Failure | null;
  /** Receives agents' reports, and those that other controllers pass on; they are valid. */
  readonly onReport: (report: NodeReport, from: 'agent' | 'controller') => void;
  readonly reports: NodeReports;
  /** Null if the request is not from another controller. */
  readonly authenticatePeer: Authenticate;
  /** Heartbeats of egress gateways; absent: their feature gate is off. */
  readonly leases?: LeaseService;
  /** Probes to nodes; absent: none are made. */
  readonly probes?: ProbeService;
  /** Metrics of agents; absent: scrapers get none. */
  readonly nodeQuestions?: NodeQuestionService;
  /** The state of the controllers; absent: users get none. */
  readonly controllers?: ControllerStates;
  readonly ignoredAddresses?: (node: string) => IgnoredAddresses;
  readonly tls: ServerTls;
  /** Whether the client is the front proxy, of which longer heads are read; absent: none is. */
  readonly isFrontProxy?: (socket: TLSSocket) => boolean;
  /**
   * Takes requests of others that come to this port, before any other is asked; true: it answers.
   * Called once, with what keeps the connection of each such request open. Absent: there are none.
   */
  readonly beside?: (
    proven: (socket: Socket) => void,
  ) => (request: IncomingMessage, response: ServerResponse) => boolean;
  /** Absent: no console is served. */
  readonly console?: ConsoleDocuments;
  /** Absent: no metrics are served. */
  readonly metrics?: MetricsSource;
  /** User name of the agents' service account. */
  readonly agents?: string;
  readonly limits?: Partial<ServerLimits>;
  readonly streams?: Partial<StreamsOptions>;
  /** Called when a request failed by an internal error, or a watcher was cut off. */
  readonly onEvent?: (event: ServerEvent) => void;
  /** Monotonic milliseconds. */
  readonly now?: () => number;
  /** Milliseconds since 1970, for the expiry of credentials and the times of reports. */
  readonly date?: () => number;
}

export interface ServerStats {
  readonly watchers: number;
  /** Bytes of lines passed to connections since the start, without the overhead of HTTP and TLS. */
  readonly sentBytes: number;
  /** Bytes that watchers have not received yet. */
  readonly unsentBytes: number;
  readonly cutOff: number;
  /** Number of responses by HTTP status; a watch counts when it begins. */
  readonly answers: ReadonlyMap<number, number>;
}

/** Listens for a server, and gives it those connections that are not its own. */
export interface Acceptor {
  listen(address: ListenAddress, connected: (socket: Socket) => void): Promise<AddressInfo>;
  /** Accepts no more. */
  stop(): void;
}

export interface ControlPlaneServer {
  /** Resolves when it listens. Port 0: any free port. */
  listen(port: number, host?: string): Promise<AddressInfo>;
  /** As `listen`, by another process that accepts the connections. */
  listenBehind(acceptor: Acceptor, address: ListenAddress): Promise<AddressInfo>;
  /** Sets a new certificate, key or client CA, for new connections. */
  setTls(tls: ServerTls): void;
  stats(): ServerStats;
  /** Ends all watches within two minutes, so that agents spread over all controllers again. */
  spreadStreams(): void;
  /** The nodes whose agents make probes for others here. */
  probers(): readonly string[];
  /** False: no agent of the node is connected here. */
  sendProbe(node: string, update: ProbeUpdate): boolean;
  /** False: no agent of the node that sends its metrics is connected here. */
  sendQuestion(node: string, update: QuestionUpdate): boolean;
  /**
   * Stops listening, then ends the watches, so many a second; resolves when all connections are
   * closed.
   */
  close(): Promise<void>;
}

/**
 * Serves `controlplane.nodewall.io/v1alpha1` (apis/stream.ts) from a hub, in the manner of an
 * aggregated Kubernetes API.
 */
export function controlPlaneServer(options: ControlPlaneOptions): ControlPlaneServer {
  const { hub, tls, now = () => performance.now(), date = Date.now, onEvent = () => {} } = options;
  const limits = { ...SERVER_LIMITS, ...options.limits };
  const answers = new Map<number, number>();
  const streams: Streams = new Streams({ ...options, now, date, onEvent });
  const route = router<AnswerOptions>(ROWS, {
    ...options,
    ...(options.metrics === undefined ? {} : { authenticateScraper: options.metrics.authenticate }),
    agents: options.agents ?? AGENT_USER,
    streams,
    now,
    date,
    authenticated: (request, caller) => connections.keep(request.socket, caller),
    catchUp: limits.catchUp,
  });
  const server = createServer(
    serverOptions(tls, limits),
    limitInFlight((request, response) => {
      if (beside?.(request, response) === true) return;
      serve(request, response).catch((error: unknown) => {
        onEvent({ kind: 'failed', path: request.url ?? '', error });
        response.destroy();
      });
    }),
  );
  const beside = options.beside?.((socket) => connections.keep(socket, `webhook ${sourceOf(socket)}`));
  const sockets = new OpenSockets(server);
  const connections = new ConnectionLimit(server, {
    most: () => limits.connections + hub.nodeCount,
    mostOfSource: limits.connectionsOfSource,
    patience: limits.patience,
  });
  limitHeads(server, limits, options.isFrontProxy);
  // A failed handshake is the client's problem; Node closes the connection.
  server.on('tlsClientError', () => {});

  const serve = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    let answer: Answer;
    try {
      answer = await route(request, response);
    } catch (error) {
      // The client has gone before its body had ended.
      if (error === request.errored) return;
      onEvent({ kind: 'failed', path: request.url ?? '', error });
      answer = { failure: failure('InternalError', 'internal error of the controller; see its log') };
    }
    const code = 'failure' in answer ? answer.failure.code : answer.code;
    answers.set(code, (answers.get(code) ?? 0) + 1);
    if (response.destroyed || 'streaming' in answer) return;
    const late = setTimeout(() => response.destroy(), limits.responseTime);
    response.once('close', () => clearTimeout(late));
    writeAnswer(request, response, answer);
  };
  let acceptor: Acceptor | null = null;
  return {
    listenBehind(other, address) {
      acceptor = other;
      // Node.js begins its time limits of requests with this event.
      server.emit('listening');
      return other.listen(address, (socket) => server.emit('connection', socket));
    },
    listen: (port, host) => listening(server, port, host),
    setTls: (wanted) => server.setSecureContext(secureContext(wanted)),
    stats: () => ({ watchers: hub.watchers, ...streams.stats(), answers }),
    spreadStreams: () => streams.spread(),
    probers: () => streams.probers(),
    sendProbe: (node, update) => streams.sendProbe(node, update),
    sendQuestion: (node, update) => streams.sendQuestion(node, update),
    async close() {
      acceptor?.stop();
      const closed = new Promise((resolve) => server.close(resolve));
      await streams.close();
      const last = setTimeout(() => sockets.destroy(), limits.grace);
      await Promise.all([closed, sockets.closed()]);
      clearTimeout(last);
    },
  };
}

function listening(server: Server, port: number, host: string | undefined): Promise<AddressInfo> {
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen({ port, backlog: BACKLOG, ...present({ host }) }, () => {
      server.off('error', reject);
      // An accept that fails (no free file descriptor) must not end the process.
      server.on('error', () => {});
      resolve(server.address() as AddressInfo);
    });
  });
}

/**
 * Node has one limit for all connections of a server, and reads it when one becomes secure: between
 * its own listener, which comes after this one, and the handshake.
 */
function limitHeads(
  server: Server,
  { head, frontProxyHead }: ServerLimits,
  isFrontProxy: (socket: TLSSocket) => boolean = () => false,
): void {
  server.prependListener('secureConnection', (socket: TLSSocket) => {
    Object.assign(server, { maxHeaderSize: isFrontProxy(socket) ? frontProxyHead : head });
  });
}
