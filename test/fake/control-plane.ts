import { once } from 'node:events';
import { mkdtemp, rename, rm, writeFile } from 'node:fs/promises';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Duplex } from 'node:stream';
import { json } from 'node:stream/consumers';
import { type Authorities, fileAuthorities } from '../../agent/receive/https-call.ts';
import { AGENT_CALLS, pathOf } from '../../apis/calls.ts';
import type { NodeState } from '../../apis/compiled.ts';
import type { NodeReport } from '../../apis/node-report.ts';
import type { InwardAnswer, InwardQuestion } from '../../apis/probes.ts';
import { type Endpoints, NODE_VIEWS_PATH, toWrittenEndpoints, type Update } from '../../apis/stream.ts';
import { type Authority, createAuthority } from '../cluster/certificates.ts';
import { bookmarkOf, updatesBetween } from './view-updates.ts';

/** What a line becomes on its way; null ends the connection after what was sent. */
export type Fault = (line: string) => string | null;

interface RefusedAnswer {
  readonly status: number;
  readonly message: string;
  readonly headers?: Readonly<Record<string, string>>;
}

/**
 * A controller for one node that does what a test says, over real HTTPS. It sends no bookmarks by
 * itself.
 */
export interface FakeControlPlane {
  readonly url: URL;
  readonly caFile: string;
  /** Those in `caFile`. */
  readonly authorities: Authorities;
  readonly tokenFile: string;
  /** Of the Unix socket. */
  readonly socket: string;
  /** What was asked, oldest first. */
  readonly watches: readonly AskedWatch[];
  readonly reports: readonly NodeReport[];
  /** Requests that got no answer. */
  hanging(): number;
  /** Watches that are open. */
  open(): number;
  publish(state: NodeState): void;
  gate(enabled: boolean): void;
  /** To watches that are open; not part of later views. */
  endpoints(endpoints: readonly Endpoints[]): void;
  bookmark(): void;
  /** To all watches as it is: a line, or a part of one. */
  write(text: string): void;
  /** Of lines from now on; null: none. */
  fault(fault: Fault | null): void;
  /** Makes probes to the node from now on. */
  probes(make: (question: InwardQuestion) => Promise<InwardAnswer>): void;
  /** Of requests from now on. */
  refuse(refusal: ((request: IncomingMessage) => RefusedAnswer | 'hang' | null) | null): void;
  /** Ends all connections: in order, or as a machine does that dies. */
  cut(how: 'end' | 'destroy'): void;
  /** That agents are told now. */
  revision(): string;
  /** Another life: earlier revisions are unknown. */
  restart(): void;
  writeToken(token: string): Promise<void>;
  /** Another certificate, of the same or another authority, for other names. */
  certify(by: Authority, names?: readonly string[]): Promise<void>;
  trust(...authorities: readonly Authority[]): Promise<void>;
  readonly authority: Authority;
  /** Waits until something is so; it is looked at after each request and report. */
  until(condition: () => boolean): Promise<void>;
  /** Nobody listens until `start`. */
  stop(): Promise<void>;
  start(): Promise<void>;
  close(): Promise<void>;
}

interface AskedWatch {
  readonly resourceVersion: string | null;
  readonly token: string;
  /** The fields of the view that the agent holds; null: it sent none. */
  readonly held: readonly string[] | null;
}

interface Watch {
  readonly response: ServerResponse;
  sequence: number;
}

interface Behind {
  /** Where clients are told that it is; somebody there hands connections on to `socket`. */
  readonly host: string;
  readonly port: number;
}

/**
 * Listens on 127.0.0.1; or on a Unix socket, which reaches into network namespaces, for a relay to
 * hand connections on.
 */
export async function fakeControlPlane(
  node: string,
  behind: Behind | null = null,
): Promise<FakeControlPlane> {
  const host = behind?.host ?? '127.0.0.1';
  const folder = await mkdtemp(join(tmpdir(), 'nodewall-controlplane-'));
  const [caFile, tokenFile] = [join(folder, 'ca.crt'), join(folder, 'token')];
  const authority = await createAuthority('fake control plane');
  const first = await authority.issue({ commonName: 'nodewall', names: [host], usage: 'server' });
  const watches: AskedWatch[] = [];
  const reports: NodeReport[] = [];
  const open = new Set<Watch>();
  const sockets = new Set<Duplex>();
  const history = new Map<string, { state: NodeState; enabled: boolean }>();
  const waiting = new Set<() => void>();
  let hanging = 0;
  let epoch = 1;
  let number = 0;
  let now: { state: NodeState; enabled: boolean } | null = null;
  let apiServer: Update | null = null;
  let fault: Fault | null = null;
  let refusal: ((request: IncomingMessage) => RefusedAnswer | 'hang' | null) | null = null;

  let makeProbes: ((question: InwardQuestion) => Promise<InwardAnswer>) | null = null;

  const revision = (): string => `${epoch}.${number}`;
  const look = (): void => {
    for (const check of waiting) check();
  };

  function send(watch: Watch, update: Update): void {
    const line = `${JSON.stringify({ sequence: ++watch.sequence, revision: revision(), ...update })}\n`;
    const sent = fault === null ? line : fault(line);
    if (watch.response.destroyed) return;
    if (sent === null) watch.response.destroy();
    else watch.response.write(sent);
  }

  function sendAll(updates: readonly Update[]): void {
    number++;
    if (now !== null) history.set(revision(), now);
    for (const watch of open) for (const update of updates) send(watch, update);
  }

  function watchFrom(watch: Watch, resourceVersion: string | null): void {
    if (now === null) return;
    const known = resourceVersion === null ? undefined : history.get(resourceVersion);
    const updates = updatesBetween(known?.state ?? null, now.state, now.enabled);
    if (known !== undefined && known.enabled !== now.enabled)
      updates.unshift({ type: 'gate', enabled: now.enabled });
    for (const update of updates) send(watch, update);
    if (apiServer !== null) send(watch, apiServer);
    send(watch, bookmarkOf(now.state, known === undefined));
  }

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(request.url ?? '', 'https://x');
    const refused = refusal?.(request) ?? null;
    if (refused === 'hang') hanging++;
    else if (refused !== null) {
      request.resume();
      const body = JSON.stringify({ kind: 'Status', apiVersion: 'v1', ...refused, code: refused.status });
      response
        .writeHead(refused.status, { 'content-type': 'application/json', ...refused.headers })
        .end(body);
    } else if (request.method === 'PUT' && url.pathname === `${NODE_VIEWS_PATH}/${node}/status`) {
      reports.push((await json(request)) as (typeof reports)[number]);
      response.writeHead(204).end();
    } else if (makeProbes !== null && url.pathname === pathOf(AGENT_CALLS.probes, node)) {
      const answer = await makeProbes((await json(request)) as InwardQuestion);
      response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(answer));
    } else if (
      url.pathname === NODE_VIEWS_PATH &&
      url.searchParams.get('fieldSelector') === `metadata.name=${node}`
    ) {
      const watch: Watch = { response, sequence: 0 };
      response.writeHead(200, { 'content-type': 'application/json' });
      response.flushHeaders();
      open.add(watch);
      response.once('close', () => {
        open.delete(watch);
        look();
      });
      const resourceVersion = url.searchParams.get('resourceVersion');
      const token = request.headers.authorization?.replace(/^Bearer /, '') ?? '';
      const held = request.method === 'POST' ? Object.keys((await json(request)) as object) : null;
      watches.push({ resourceVersion, token, held });
      watchFrom(watch, resourceVersion);
    } else response.writeHead(404).end();
    look();
  }

  const server = createServer({ key: first.key, cert: first.certificate }, (request, response) => {
    answer(request, response).catch((error: unknown) => response.destroy(error as Error));
  });
  server.on('connection', (socket) => {
    sockets.add(socket);
    socket.once('close', () => sockets.delete(socket));
  });
  let port = behind?.port ?? 0;
  const socket = join(folder, 'socket');
  async function start(): Promise<void> {
    if (server.listening) return;
    await rm(socket, { force: true });
    if (behind === null) server.listen(port, host);
    else server.listen(socket);
    await once(server, 'listening');
    if (behind === null) ({ port } = server.address() as AddressInfo);
  }
  async function stop(): Promise<void> {
    server.close();
    for (const socket of sockets) socket.destroy();
    await once(server, 'close');
  }
  async function write(path: string, text: string): Promise<void> {
    await writeFile(`${path}.new`, text);
    await rename(`${path}.new`, path);
  }
  const trust = (...authorities: readonly Authority[]) =>
    write(caFile, authorities.map(({ certificate }) => certificate).join('\n'));
  await start();
  await trust(authority);
  await write(tokenFile, 'token-1\n');
  return {
    url: new URL(`https://${host.includes(':') ? `[${host}]` : host}:${port}`),
    caFile,
    authorities: fileAuthorities(caFile),
    tokenFile,
    socket,
    watches,
    reports,
    authority,
    revision,
    trust,
    start,
    stop,
    hanging: () => hanging,
    open: () => open.size,
    publish(state) {
      const before = now;
      now = { state, enabled: before?.enabled ?? true };
      const updates = updatesBetween(before?.state ?? null, state, now.enabled);
      sendAll([...updates, bookmarkOf(state, before === null)]);
    },
    gate(enabled) {
      if (now === null) throw new Error('nothing is published yet');
      now = { ...now, enabled };
      sendAll([{ type: 'gate', enabled }, bookmarkOf(now.state, false)]);
    },
    endpoints(endpoints) {
      apiServer = { type: 'endpoints', ...toWrittenEndpoints(endpoints) };
      if (now !== null) sendAll([apiServer, bookmarkOf(now.state, false)]);
    },
    bookmark() {
      if (now !== null) sendAll([bookmarkOf(now.state, false)]);
    },
    write(text) {
      for (const { response } of open) response.write(text);
    },
    fault(next) {
      fault = next;
    },
    probes(next) {
      makeProbes = next;
    },
    refuse(next) {
      refusal = next;
    },
    cut(how) {
      for (const { response } of open) {
        if (how === 'end') response.end();
        else response.destroy();
      }
      open.clear();
    },
    restart() {
      epoch++;
      number = 0;
      history.clear();
      if (now !== null) history.set(revision(), now);
      for (const socket of sockets) socket.destroy();
    },
    writeToken: (token) => write(tokenFile, token),
    async certify(by, names = [host]) {
      const { certificate, key } = await by.issue({ commonName: 'nodewall', names, usage: 'server' });
      server.setSecureContext({ cert: certificate, key });
    },
    async until(condition) {
      if (condition()) return;
      await new Promise<void>((resolve) => {
        const check = (): void => {
          if (!condition()) return;
          waiting.delete(check);
          resolve();
        };
        waiting.add(check);
      });
    },
    async close() {
      if (server.listening) await stop();
      await rm(folder, { recursive: true, force: true });
    },
  };
}
