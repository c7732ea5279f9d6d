import type { ServerOptions } from 'node:https';

/** All texts are PEM. */
export interface ServerTls {
  readonly key: string;
  readonly cert: string;
  /**
   * The front proxy's CA, the only one that client certificates are verified against; absent: no
   * client certificate is trusted.
   */
  readonly clientCa?: string;
}

export interface ServerLimits {
  /**
   * The most connections without an authenticated request, beside one for each Node; and of one
   * source address.
   */
  readonly connections: number;
  readonly connectionsOfSource: number;
  /** Bytes: of a request's head, and of the front proxy's. */
  readonly head: number;
  readonly frontProxyHead: number;
  /**
   * Milliseconds: for a TLS handshake, a request's head, the whole request; for the client to take
   * a response that is not a stream; and between the requests of one connection.
   */
  readonly handshake: number;
  readonly headTime: number;
  readonly requestTime: number;
  readonly responseTime: number;
  readonly idle: number;
  /** Milliseconds for handshake and head while half of the connections are in use. */
  readonly patience: number;
  /**
   * Milliseconds for which a watch waits whose watcher has a newer state of the cluster from
   * another controller.
   */
  readonly catchUp: number;
  /** Milliseconds that requests in progress may still take when the server closes. */
  readonly grace: number;
}

export const SERVER_LIMITS: ServerLimits = {
  connections: 1000,
  connectionsOfSource: 1000,
  head: 8 << 10,
  // A user's groups are headers.
  frontProxyHead: 32 << 10,
  // When all agents connect at the same time, thousands of handshakes wait for each other; a client
  // that is rejected then reconnects, and increases the load.
  handshake: 60_000,
  headTime: 30_000,
  requestTime: 30_000,
  responseTime: 60_000,
  idle: 60_000,
  patience: 10_000,
  catchUp: 5000,
  grace: 2000,
};

/**
 * Thousands of agents may reconnect at the same time; the kernel limits this to net.core.somaxconn.
 */
export const BACKLOG = 4096;

/** User name of the agents' service account. */
export const AGENT_USER = 'system:serviceaccount:nodewall-system:nodewall-agent';

export function serverOptions(tls: ServerTls, limits: ServerLimits): ServerOptions {
  return {
    ...secureContext(tls),
    requestCert: true,
    // Agents have no certificate: `authenticate` identifies the client.
    rejectUnauthorized: false,
    handshakeTimeout: limits.handshake,
    maxHeaderSize: limits.head,
    headersTimeout: limits.headTime,
    requestTimeout: limits.requestTime,
    connectionsCheckingInterval: 2000,
    keepAliveTimeout: limits.idle,
    keepAlive: true,
    keepAliveInitialDelay: 15_000,
    noDelay: true,
  };
}

export function secureContext({ key, cert, clientCa }: ServerTls) {
  // An explicit empty list, because by default Node trusts the public CAs.
  return { key, cert, ca: clientCa === undefined ? [] : [clientCa], minVersion: 'TLSv1.2' as const };
}
