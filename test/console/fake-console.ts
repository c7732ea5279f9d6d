/**
 * What serves the console's pages and documents, with values that a test gives: `console/dist` as
 * built, as the real one sends them.
 */
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { json } from 'node:stream/consumers';
import {
  CONSOLE_PATH,
  OVERVIEW_WATCH,
  OVERVIEWS_PATH,
  type Overview,
  type OverviewChange,
  type OverviewLine,
  PREVIEWS_PATH,
} from '../../apis/console.ts';
import type { Audit, DeniedPeers, Drops, Lint, Preview } from '../../apis/console-documents.ts';
import type { Explanation } from '../../apis/flow.ts';
import { NODE_VIEWS_PATH } from '../../apis/stream.ts';
import { CONSOLE_FILES, StaticFiles } from '../../controller/console/static-files.ts';
import { sampleOverview } from './sample-cluster.ts';
import {
  sampleAudit,
  sampleDrops,
  sampleExplanation,
  sampleLint,
  samplePeers,
  samplePreview,
} from './sample-documents.ts';

export interface Documents {
  overview: Overview;
  drops: Drops;
  peers: DeniedPeers;
  audit: Audit;
  lint: Lint;
  preview: Preview;
  explanation: Explanation;
}

export function sampleDocuments(size = { nodes: 24, policies: 12 }): Documents {
  return {
    overview: sampleOverview(size),
    drops: sampleDrops(),
    peers: samplePeers(),
    audit: sampleAudit(),
    lint: sampleLint(),
    preview: samplePreview(),
    explanation: sampleExplanation(),
  };
}

interface SeenRequest {
  readonly method: string;
  readonly url: string;
  readonly body: unknown;
}

export class FakeConsole {
  /** A page's requests are answered with these; a test may change them. */
  documents: Documents;
  /** Parts of paths that are answered with this status and message. */
  readonly refusals = new Map<string, readonly [status: number, message: string]>();
  readonly requests: SeenRequest[] = [];
  readonly socket: string;
  readonly #folder: string;
  readonly #server: Server;
  readonly #watchers = new Set<ServerResponse>();
  readonly #files = new StaticFiles(CONSOLE_FILES);

  private constructor(folder: string, documents: Documents) {
    this.#folder = folder;
    this.socket = join(folder, 'socket');
    this.documents = documents;
    this.#server = createServer((request, response) => void this.#answer(request, response));
  }

  static async start(documents = sampleDocuments()): Promise<FakeConsole> {
    const fake = new FakeConsole(await mkdtemp(join(tmpdir(), 'nodewall-console-')), documents);
    await fake.listen();
    return fake;
  }

  async listen(): Promise<void> {
    this.#server.listen(this.socket);
    await once(this.#server, 'listening');
  }

  /** Ends all connections, and takes no more, as when the command that serves the page ends. */
  async stop(): Promise<void> {
    const closed = once(this.#server, 'close');
    this.#server.close();
    this.#server.closeAllConnections();
    await closed;
  }

  async close(): Promise<void> {
    if (this.#server.listening) await this.stop();
    await rm(this.#folder, { recursive: true });
  }

  /** Sends a change to all who watch. */
  change(change: Omit<OverviewChange, 'time' | 'revision'>): void {
    const { time, revision } = this.documents.overview;
    for (const watcher of this.#watchers) write(watcher, { type: 'change', time, revision, ...change });
  }

  /** Ends the streams of all who watch. */
  cut(): void {
    for (const watcher of this.#watchers) watcher.destroy();
  }

  get watchers(): number {
    return this.#watchers.size;
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { method = '', url = '' } = request;
    const body = method === 'POST' ? await json(request).catch(() => null) : null;
    this.requests.push({ method, url, body });
    const [path = ''] = url.split('?', 1);
    const refusal = [...this.refusals].find(([part]) => path.includes(part))?.[1];
    if (refusal !== undefined) return refuse(response, ...refusal);
    if (path.startsWith(`${CONSOLE_PATH}/`))
      return await this.#file(path.slice(CONSOLE_PATH.length + 1), request, response);
    if (url.endsWith(`/${OVERVIEW_WATCH}`)) return this.#watch(response);
    const value = this.#document(path);
    if (value === undefined) return refuse(response, 404, `no ${path}`);
    response.setHeader('content-type', 'application/json');
    response.end(JSON.stringify(value));
  }

  async #file(name: string, request: IncomingMessage, response: ServerResponse): Promise<void> {
    const found = await this.#files.file(name, request.headers['accept-encoding'] ?? '');
    if (found === null) return refuse(response, 404, `no file ${name}`);
    response.writeHead(200, { ...found.headers, 'content-type': found.type });
    response.end(found.bytes);
  }

  #document(path: string): unknown {
    const { overview, explanation, preview, ...others } = this.documents;
    if (path === PREVIEWS_PATH) return preview;
    if (path.startsWith(`${NODE_VIEWS_PATH}/`)) return { node: path.split('/').at(-2), explanation };
    if (path === `${OVERVIEWS_PATH}/cluster`) return overview;
    const name = path.slice(OVERVIEWS_PATH.length + 1);
    return Object.hasOwn(others, name) ? others[name as keyof typeof others] : undefined;
  }

  #watch(response: ServerResponse): void {
    response.setHeader('content-type', 'application/json');
    write(response, { type: 'overview', overview: this.documents.overview });
    this.#watchers.add(response);
    response.on('close', () => this.#watchers.delete(response));
  }
}

function write(response: ServerResponse, line: OverviewLine): void {
  response.write(`${JSON.stringify(line)}\n`);
}

function refuse(response: ServerResponse, status: number, message: string): void {
  response.writeHead(status, { 'content-type': 'application/json' });
  response.end(
    JSON.stringify({ kind: 'Status', apiVersion: 'v1', status: 'Failure', code: status, message }),
  );
}
