import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import type { IncomingMessage } from 'node:http';
import { type RequestOptions, request } from 'node:https';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { type ConnectionOptions, connect, type TLSSocket } from 'node:tls';
import { NODE_VIEWS_PATH } from '../../apis/stream.ts';
import { type Authority, type Certificate, createAuthority } from '../cluster/certificates.ts';
import type { ServedInput, ServedPorts, ServedStats } from './served.ts';

/** Attackers and agents have addresses of the loopback network. */
export interface From {
  readonly from?: string;
}

export interface Answer {
  readonly code: number;
  readonly body: string;
  readonly headers: IncomingMessage['headers'];
}

/** The servers of a controller in a process of their own (served.ts), and clients of them. */
export class ControlPlane {
  readonly #child: ChildProcess;
  readonly #authority: Authority;
  readonly #proxies: Authority;
  readonly #open = new Set<{ destroy(): void }>();
  readonly ports: ServedPorts;

  private constructor(child: ChildProcess, authorities: readonly [Authority, Authority], ports: ServedPorts) {
    this.#child = child;
    [this.#authority, this.#proxies] = authorities;
    this.ports = ports;
  }

  static async start(limits: ServedInput['limits'] = {}): Promise<ControlPlane> {
    const authorities = [await createAuthority('servers'), await createAuthority('front proxies')] as const;
    const pair = await authorities[0].issue({ commonName: 'c', names: ['localhost'], usage: 'server' });
    const input = { key: pair.key, cert: pair.certificate, clientCa: authorities[1].certificate, limits };
    const child = fork(join(import.meta.dirname, 'served.ts'), [JSON.stringify(input)], { execArgv: [] });
    const [ports] = (await once(child, 'message')) as [ServedPorts];
    return new ControlPlane(child, authorities, ports);
  }

  /** Ends the attackers, and the process. */
  async close(): Promise<void> {
    this.endClients();
    if (this.#child.exitCode !== null) throw new Error('the controller has ended');
    this.#child.disconnect();
    await once(this.#child, 'exit');
  }

  endClients(): void {
    for (const one of this.#open) one.destroy();
    this.#open.clear();
  }

  frontProxy(commonName = 'front-proxy-client'): Promise<Certificate> {
    return this.#proxies.issue({ commonName, usage: 'client' });
  }

  /** Values are those since the last call. */
  async stats(): Promise<ServedStats> {
    this.#child.send('stats');
    const [stats] = (await once(this.#child, 'message')) as [ServedStats];
    return stats;
  }

  /** A change for all agents. */
  change(): void {
    this.#child.send('change');
  }

  /** A connection whose errors do not matter. It resolves when it is secure, or closed. */
  async connect(options: From & ConnectionOptions = {}): Promise<TLSSocket> {
    const { from, ...others } = options;
    const socket = connect(this.#to({ port: this.ports.agents, ...others }, from));
    this.#keep(socket);
    await new Promise((resolve) => {
      socket.once('secureConnect', resolve).once('close', resolve);
    });
    return socket;
  }

  async ask(
    path: string,
    options: From & RequestOptions & { readonly token?: string; readonly body?: string | Buffer } = {},
  ): Promise<Answer> {
    const response = await this.open(path, options);
    const body = await text(response);
    return { code: response.statusCode ?? 0, body, headers: response.headers };
  }

  /** The response whose body nobody has read. */
  async open(
    path: string,
    options: From & RequestOptions & { readonly token?: string; readonly body?: string | Buffer } = {},
  ): Promise<IncomingMessage> {
    const { from, token, body, headers, ...others } = options;
    const authorization = token === undefined ? {} : { authorization: `Bearer ${token}` };
    const outgoing = request(
      this.#to(
        { port: this.ports.agents, path, agent: false, headers: { ...authorization, ...headers }, ...others },
        from,
      ),
    );
    this.#keep(outgoing);
    outgoing.end(body);
    const [response] = (await once(outgoing, 'response')) as [IncomingMessage];
    response.on('error', () => {});
    return response;
  }

  /** An agent's stream, with the number of bookmarks that it received. */
  async agent(node: string): Promise<{ bookmarks: number; isOpen: boolean }> {
    const path = `${NODE_VIEWS_PATH}?watch=true&fieldSelector=metadata.name=${node}`;
    const response = await this.open(path, { token: `agent.${node}`, from: '127.9.0.1' });
    const state = { bookmarks: 0, isOpen: response.statusCode === 200 };
    response.setEncoding('utf8').on('data', (chunk: string) => {
      state.bookmarks += chunk.split('"type":"bookmark"').length - 1;
    });
    response.on('close', () => {
      state.isOpen = false;
    });
    return state;
  }

  #to<T extends object>(options: T, from: string | undefined) {
    const localAddress = from === undefined ? {} : { localAddress: from };
    return {
      host: '127.0.0.1',
      servername: 'localhost',
      ca: this.#authority.certificate,
      ...localAddress,
      ...options,
    };
  }

  #keep(client: { destroy(): void; on(event: 'error', listener: () => void): unknown }): void {
    client.on('error', () => {});
    this.#open.add(client);
  }
}
