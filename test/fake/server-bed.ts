import assert from 'node:assert/strict';
import { once } from 'node:events';
import type { IncomingMessage } from 'node:http';
import { request as httpsRequest, type RequestOptions } from 'node:https';
import { text } from 'node:stream/consumers';
import { connect, type TLSSocket } from 'node:tls';
import type { NodeReport } from '../../apis/node-report.ts';
import { type ClusterObjects, NO_OBJECTS } from '../../apis/objects.ts';
import { NODE_VIEWS_PATH, type StreamMessage } from '../../apis/stream.ts';
import { compile } from '../../controller/compile/compile.ts';
import {
  type Authorise,
  firstOf,
  frontProxyAuthenticator,
  type Identity,
} from '../../controller/publish/auth.ts';
import { Hub } from '../../controller/publish/hub.ts';
import { AGENT_USER } from '../../controller/publish/limits.ts';
import { NodeReports } from '../../controller/publish/node-reports.ts';
import {
  type ControlPlaneOptions,
  type ControlPlaneServer,
  controlPlaneServer,
} from '../../controller/publish/server.ts';
import type { ServerEvent } from '../../controller/publish/streams.ts';
import { type Authority, type Certificate, createAuthority } from '../cluster/certificates.ts';
import { nodeReport } from './node-state.ts';

export const JSON_TYPE = { 'content-type': 'application/json' };

/** Nodes cp-1 and cp-2, and so many pods; a policy on cp-1 drops what pods send. */
export function objects(pods: number, second = 0): ClusterObjects {
  const labels = { app: 'web' };
  return {
    ...NO_OBJECTS,
    nodes: ['cp-1', 'cp-2'].map((name, i) => {
      return { kind: 'Node', name, labels: { name }, addresses: [`192.0.2.${i}`] };
    }),
    namespaces: [{ kind: 'Namespace', name: 'shop', labels: {} }],
    pods: Array.from({ length: pods }, (_, i) => ({
      kind: 'Pod',
      namespace: 'shop',
      name: `p${i}`,
      labels,
      serviceAccount: 'default',
      addresses: [`10.${second}.${i >> 8}.${i & 255}`],
    })),
    policies: [
      {
        kind: 'ClusterNetworkPolicy',
        apiGroup: 'nodewall.io',
        name: 'p',
        uid: '',
        generation: 1,
        spec: {
          priority: 5,
          appliedTo: [{ nodeSelector: { matchLabels: { name: 'cp-1' } } }],
          ingress: [{ name: 'r', action: 'Drop', from: [{ podSelector: { matchLabels: labels } }] }],
        },
      },
    ],
  };
}

export const REPORT = nodeReport('cp-1', 'e.1', { hostAddresses: ['192.0.2.0'] });

/** Tokens describe their identity: `agent NODE`, `user NAME`, with dots for blanks. */
export function identityOf(token: string, expires: number | null): Identity | null {
  const [kind, name = ''] = token.split('.');
  const base = { uid: '', groups: [], extra: {}, expires };
  if (kind === 'user') return { ...base, username: name };
  if (kind !== 'agent') return null;
  const extra: Record<string, string[]> =
    name === '' ? {} : { 'authentication.kubernetes.io/node-name': [name] };
  return { ...base, username: AGENT_USER, extra };
}

/** The messages of a stream, as they arrive. */
export async function* linesOf(response: IncomingMessage): AsyncGenerator<StreamMessage, undefined> {
  let rest = '';
  for await (const part of response) {
    const lines = (rest + String(part)).split('\n');
    rest = lines.pop() ?? '';
    for (const line of lines) yield JSON.parse(line) as StreamMessage;
  }
  assert.equal(rest, '');
  return undefined;
}

export function types(batch: readonly StreamMessage[]): StreamMessage['type'][] {
  return batch.map(({ type }) => type);
}

export interface Running {
  readonly server: ControlPlaneServer;
  readonly hub: Hub;
  readonly port: number;
  readonly reports: NodeReport[];
  readonly events: ServerEvent[];
  readonly asked: Parameters<Authorise>[1][];
  /** Advances the time second by second, with a check of all watches after each. */
  pass(seconds: number): void;
  /** The state of identities from now on. */
  revoked: boolean;
  unavailable: boolean;
  expires: number | null;
  /** Milliseconds that the wall clock is ahead of the other one. */
  ahead: number;
}

interface Sent extends RequestOptions {
  readonly body?: string | Buffer;
  /** The body does not end. */
  readonly endless?: boolean;
}

const PROXY = {
  allowedNames: ['front-proxy-client'],
  usernameHeaders: ['X-Remote-User'],
  uidHeaders: [],
  groupHeaders: ['X-Remote-Group'],
  extraHeaderPrefixes: ['X-Remote-Extra-'],
};

/**
 * Servers for agents and users of this process, with a clock of their own; ends them after each
 * test. To be made in a `describe`.
 */
export class ServerBed {
  #authority: Authority | undefined;
  #proxies: Authority | undefined;
  #serving: Certificate | undefined;
  readonly #open: Running[] = [];
  readonly #sockets: { destroy(): void }[] = [];

  constructor() {
    before(async () => {
      this.#authority = await createAuthority('servers');
      this.#proxies = await createAuthority('front proxies');
      const serving = { commonName: 'controller', names: ['localhost'], usage: 'server' } as const;
      this.#serving = await this.#authority.issue(serving);
    });
    afterEach(async () => {
      for (const socket of this.#sockets.splice(0)) socket.destroy();
      await Promise.all(this.#open.splice(0).map(({ server }) => server.close()));
    });
  }

  /** Of the front proxy. */
  get proxies(): Authority {
    return this.#proxies ?? assert.fail('no test runs');
  }

  get serving(): Certificate {
    return this.#serving ?? assert.fail('no test runs');
  }

  /** @param isReady whether it has compiled objects yet */
  readonly start = async (options: Partial<ControlPlaneOptions> = {}, isReady = true): Promise<Running> => {
    const hub = new Hub({ gate: true, epoch: 'e' });
    if (isReady) hub.publish(compile(objects(2)));
    let now = 0;
    const looks: (() => void)[] = [];
    const state = { revoked: false, unavailable: false, expires: null as number | null, ahead: 0 };
    const heard = { reports: [] as NodeReport[], events: [] as ServerEvent[], asked: [] as Running['asked'] };
    const { certificate: cert, key } = this.serving;
    const server = controlPlaneServer({
      hub,
      authenticate: firstOf(
        frontProxyAuthenticator(() => PROXY),
        async ({ headers: { authorization = '' } }) => {
          if (running.unavailable) throw new Error('the API server is away');
          return running.revoked ? null : identityOf(authorization.replace('Bearer ', ''), running.expires);
        },
      ),
      async authorise({ username }, access) {
        if (running.unavailable) throw new Error('the API server is away');
        heard.asked.push(access);
        return { allowed: username !== 'mallory', reason: username === 'mallory' ? 'no role' : '' };
      },
      onReport: (report) => heard.reports.push(report),
      reports: new NodeReports(() => now),
      authenticatePeer: async ({ headers: { authorization } }) =>
        authorization === 'Bearer controller' ? identityOf('user.controller', null) : null,
      onEvent: (event) => heard.events.push(event),
      tls: { key, cert, clientCa: this.proxies.certificate },
      now: () => now,
      date: () => now + running.ahead,
      ...options,
      streams: {
        random: () => 0.5,
        every(_, callback) {
          looks.push(callback);
          return () => {};
        },
        ...options.streams,
      },
    });
    const { port } = await server.listen(0, 'localhost');
    const pass = (seconds: number): void => {
      for (let i = 0; i < seconds; i++) {
        now += 1000;
        for (const look of looks) look();
      }
    };
    const running: Running = Object.assign(state, { server, hub, port, ...heard, pass });
    this.#open.push(running);
    return running;
  };

  readonly send = async (
    { port }: Running,
    path: string,
    token: string,
    options: Sent = {},
  ): Promise<IncomingMessage> => {
    const { body, endless = false, ...others } = options;
    const request = httpsRequest({
      host: 'localhost',
      port,
      path,
      ca: this.#authority?.certificate,
      agent: false,
      ...others,
      headers: { ...(token === '' ? {} : { authorization: `Bearer ${token}` }), ...options.headers },
    });
    this.#sockets.push(request);
    // If the server has closed the connection already, its response can still be read.
    request.on('error', () => {});
    if (endless) request.write(body);
    else request.end(body);
    const [response] = (await once(request, 'response')) as [IncomingMessage];
    response.on('error', () => {});
    return response;
  };

  readonly ask = async (
    ...args: Parameters<ServerBed['send']>
  ): Promise<{ code: number; body: unknown; message: IncomingMessage }> => {
    const message = await this.send(...args);
    const body = await text(message);
    return { code: message.statusCode ?? 0, body: body === '' ? null : JSON.parse(body), message };
  };

  /** Reads lines as they arrive; a batch ends with a bookmark. */
  readonly watch = async (running: Running, token: string, query = '', node = 'cp-1') => {
    const path = `${NODE_VIEWS_PATH}?watch=true&fieldSelector=metadata.name%3D${node}${query}`;
    const response = await this.send(running, path, token);
    assert.equal(response.statusCode, 200);
    const messages = linesOf(response);
    const batch = async (): Promise<StreamMessage[]> => {
      const batch: StreamMessage[] = [];
      for (;;) {
        const { value, done } = await messages.next();
        if (done === true) return batch;
        batch.push(value);
        if (value.type === 'bookmark') return batch;
      }
    };
    return { response, batch };
  };

  /** A connection without HTTP. */
  connect({ port }: Running): TLSSocket {
    const socket = connect({ host: 'localhost', port, ca: this.#authority?.certificate });
    this.#sockets.push(socket);
    socket.on('error', () => {});
    return socket;
  }
}
