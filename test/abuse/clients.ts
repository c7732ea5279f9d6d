import { once } from 'node:events';
import type { IncomingMessage } from 'node:http';
import { type RequestOptions, request } from 'node:https';
import { text } from 'node:stream/consumers';
import { type ConnectionOptions, connect, type TLSSocket } from 'node:tls';
import { NODE_VIEWS_PATH } from '../../apis/stream.ts';
import type { Identity } from '../../controller/publish/auth.ts';
import { AGENT_USER } from '../../controller/publish/limits.ts';

/** Attackers and agents have addresses of the loopback network. */
interface From {
  readonly from?: string;
}

interface Answer {
  readonly code: number;
  readonly body: string;
  readonly headers: IncomingMessage['headers'];
}

/** All on 127.0.0.1. */
export interface Ports {
  readonly agents: number;
  readonly webhook: number;
  readonly health: number;
}

/** Clients of a controller's ports. */
export class Clients {
  readonly #open = new Set<{ destroy(): void }>();
  readonly #ca: string;
  readonly ports: Ports;

  /** @param ca PEM */
  constructor(ports: Ports, ca: string) {
    this.ports = ports;
    this.#ca = ca;
  }

  endClients(): void {
    for (const one of this.#open) one.destroy();
    this.#open.clear();
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
      ca: this.#ca,
      ...localAddress,
      ...options,
    };
  }

  #keep(client: { destroy(): void; on(event: 'error' | 'close', listener: () => void): unknown }): void {
    client.on('error', () => {});
    client.on('close', () => this.#open.delete(client));
    this.#open.add(client);
  }
}

/** Waits until the connection ends, and reads what comes. */
export async function closed(socket: TLSSocket): Promise<void> {
  // The server may reset the connection.
  socket.on('error', () => {});
  socket.resume();
  if (!socket.destroyed) await new Promise((resolve) => socket.once('close', resolve));
}

/** What arrives until the connection ends, in whichever way. */
export async function everything(socket: TLSSocket): Promise<string> {
  const chunks: Buffer[] = [];
  socket.on('data', (chunk) => chunks.push(chunk));
  await closed(socket);
  return Buffer.concat(chunks).toString('latin1');
}

/** `agent.NODE` and `user.NAME` are tokens; of all others nobody is the owner. */
export function identityOf(authorization = ''): Identity | null {
  const [, kind, name = ''] = /^Bearer (agent|user)\.(\S+)$/.exec(authorization) ?? [];
  if (kind === undefined) return null;
  const extra = kind === 'agent' ? { 'authentication.kubernetes.io/node-name': [name] } : {};
  return { username: kind === 'agent' ? AGENT_USER : name, uid: '', groups: [], extra, expires: null };
}
