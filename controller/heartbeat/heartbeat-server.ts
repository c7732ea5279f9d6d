import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer } from 'node:https';
import type { Socket } from 'node:net';
import { HEARTBEAT_PROTOCOL } from '../../apis/heartbeat.ts';
import type { NamespacedName } from '../../apis/objects.ts';
import { FairQueue } from '../../lib/process/fair-queue.ts';
import { ConnectionLimit, limitInFlight, OpenSockets } from '../../lib/process/server-connections.ts';
import type { KubeApi } from '../kubeapi/kube-api.ts';
import { type Answer, failure, writeAnswer } from '../publish/answer.ts';
import {
  accessAuthoriser,
  ofAccount,
  REVIEW_QUEUE,
  reviewAccess,
  reviewToken,
  type TokenReviewSpec,
  tokenAuthenticator,
} from '../publish/auth.ts';
import { LEASE_ROWS, type LeaseService } from '../publish/calls.ts';
import {
  AGENT_USER,
  SERVER_LIMITS,
  type ServerTls,
  secureContext,
  serverOptions,
} from '../publish/limits.ts';
import { type RequestHandler, router } from '../publish/route.ts';

interface HeartbeatServerOptions {
  readonly leases: LeaseService;
  /** For TokenReviews and SubjectAccessReviews. */
  readonly request: KubeApi;
  readonly audiences: readonly string[];
  /** The controllers' ServiceAccount, by which they know each other. */
  readonly account: NamespacedName;
  /** The Nodes that there are; null: not known yet. */
  readonly nodes: () => ReadonlySet<string> | null;
  /** Monotonic milliseconds. */
  readonly now: () => number;
  /** Milliseconds since 1970, for the expiry of credentials. */
  readonly date: () => number;
}

export interface HeartbeatServer {
  /** Sets the certificate and key, for new connections; before the first, none is served. */
  setTls(tls: ServerTls): void;
  /** A connection that was accepted elsewhere. */
  connected(socket: Socket): void;
  /** Ends all connections. */
  close(): void;
}

/** Answers heartbeats alone, as the controller's server does. It does not listen. */
export function heartbeatServer(options: HeartbeatServerOptions): HeartbeatServer {
  const { nodes } = options;
  const server = createServer({
    ...serverOptions({ key: '', cert: '' }, SERVER_LIMITS),
    ALPNProtocols: [HEARTBEAT_PROTOCOL],
  });
  const route = leaseRoute(options, (request, caller) => connections.keep(request.socket, caller));
  const sockets = new OpenSockets(server);
  const connections = new ConnectionLimit(server, {
    most: () => SERVER_LIMITS.connections + (nodes()?.size ?? 0),
    mostOfSource: SERVER_LIMITS.connectionsOfSource,
    patience: SERVER_LIMITS.patience,
  });
  server.on('tlsClientError', () => {});
  server.on(
    'request',
    limitInFlight((request, response) => {
      serve(route, request, response).catch(() => response.destroy());
    }),
  );
  // Node.js begins its time limits of requests with this event.
  server.emit('listening');
  let hasTls = false;
  return {
    setTls(tls) {
      server.setSecureContext(secureContext(tls));
      hasTls = true;
    },
    connected(socket) {
      if (hasTls) server.emit('connection', socket);
      else socket.destroy();
    },
    close() {
      server.close();
      sockets.destroy();
    },
  };
}

async function serve(
  route: RequestHandler,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const answer = await route(request, response).catch(
    (): Answer => ({
      failure: failure('InternalError', 'internal error of the controller'),
    }),
  );
  if (response.destroyed || 'streaming' in answer) return;
  const late = setTimeout(() => response.destroy(), SERVER_LIMITS.responseTime);
  response.once('close', () => clearTimeout(late));
  writeAnswer(request, response, answer);
}

function leaseRoute(
  { leases, request: api, audiences, account, nodes, now, date }: HeartbeatServerOptions,
  authenticated: (request: IncomingMessage, caller: string) => void,
): RequestHandler {
  const queue = new FairQueue(REVIEW_QUEUE);
  const review = (spec: TokenReviewSpec) => reviewToken(api, spec);
  const authenticate = tokenAuthenticator({ review, audiences, now, date, queue });
  // Tokens for the API server: those of controllers.
  const controllers = tokenAuthenticator({ review, audiences: [], now, date, queue });
  return router(LEASE_ROWS, {
    leases,
    authenticated,
    agents: AGENT_USER,
    authenticate,
    authorise: accessAuthoriser((spec) => reviewAccess(api, spec), now, queue),
    authenticatePeer: ofAccount(controllers, account),
    hub: {
      has: (node) => nodes()?.has(node) === true,
      get ready() {
        return nodes() !== null;
      },
    },
    now,
  });
}
