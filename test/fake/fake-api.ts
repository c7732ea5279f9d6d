import { EventEmitter } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

/**
 * A Kubernetes API of lists and watches, in this process and without TLS: paged lists, watches from
 * a version, bookmarks, discovery, CRDs that come and go. It does wrong what it is told to, request
 * by request.
 */
export interface FakeApi {
  readonly server: string;
  /** Tells `request` of each one, before it is answered. */
  readonly events: EventEmitter<{ request: [FakeRequest] }>;
  /** Called with each request first: true if it answers that, which no list or watch is. */
  answers: (request: IncomingMessage, response: ServerResponse) => boolean;
  /** Asked of each request what to do wrong. */
  fault: (request: FakeRequest) => Fault | null;
  /** Creates or changes an object of a collection (`/api/v1/pods`); returns its version. */
  put(collection: string, object: FakeObject): number;
  remove(collection: string, object: FakeObject): void;
  /** What a list gives, without versions. */
  objects(collection: string): FakeObject[];
  /** Forgets past events and lists: what goes on from before now is answered 410. */
  compact(): void;
  /**
   * Everything is gone without an event, and versions are counted from here: as when an empty
   * backup of etcd was restored.
   */
  setBack(version: number): void;
  /** A CRD's collection is there from now on, or no longer. */
  install(collection: string): void;
  uninstall(collection: string): void;
  /** Breaks the connections of a collection's watches. */
  cut(collection: string): void;
  /** Connections of watches that are open. */
  watches(): number;
  close(): Promise<void>;
}

export interface FakeObject {
  readonly metadata: {
    readonly name: string;
    readonly namespace?: string;
    readonly uid?: string;
    readonly generation?: number;
    readonly labels?: Readonly<Record<string, string>>;
  };
  readonly [field: string]: unknown;
}

export interface FakeRequest {
  readonly collection: string;
  readonly kind: 'list' | 'watch' | 'discovery';
  readonly query: URLSearchParams;
  readonly headers: IncomingMessage['headers'];
}

export type Fault =
  /** Another answer. */
  | { readonly do: 'answer'; readonly status: number; readonly retryAfter?: number; readonly body?: string }
  /** No answer at all. */
  | { readonly do: 'hang' }
  /** The connection is broken before the answer. */
  | { readonly do: 'drop' }
  /**
   * The answer to a list, or the first event of a watch, is broken off in its middle; `isClean`: in
   * the way that a whole one ends.
   */
  | { readonly do: 'truncate'; readonly isClean: boolean }
  /** Watches: */
  | { readonly do: 'end' }
  | { readonly do: 'silence' }
  | { readonly do: 'duplicate' }
  | { readonly do: 'swap' }
  | { readonly do: 'delay'; readonly milliseconds: number }
  /** One event is not told. */
  | { readonly do: 'lose' }
  | { readonly do: 'line'; readonly line: string };

interface Stored {
  readonly version: number;
  readonly object: FakeObject;
}
interface Happened extends Stored {
  readonly collection: string;
  readonly type: 'ADDED' | 'MODIFIED' | 'DELETED';
}
interface Stream {
  readonly collection: string;
  send(event: Happened): void;
  bookmark(): void;
  end(): void;
  destroy(): void;
}

const BOOKMARKS = 20;

export async function fakeApi(): Promise<FakeApi> {
  const stored = new Map<string, Map<string, Stored>>();
  const streams = new Set<Stream>();
  const pages = new Map<string, { readonly rest: readonly Stored[]; readonly version: number }>();
  let happened: Happened[] = [];
  let version = 1000;
  let oldest = version;
  let pageCount = 0;
  const server = createServer((request, response) => void answer(request, response));
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening));
  const { port } = server.address() as AddressInfo;
  const bookmarks = setInterval(() => {
    for (const stream of streams) stream.bookmark();
  }, BOOKMARKS);

  const collectionOf = (name: string): Map<string, Stored> => {
    const known = stored.get(name) ?? new Map<string, Stored>();
    stored.set(name, known);
    return known;
  };
  const keyOf = ({ metadata: { namespace = '', name } }: FakeObject): string => `${namespace}/${name}`;

  function happen(event: Happened): void {
    happened.push(event);
    for (const stream of streams) if (stream.collection === event.collection) stream.send(event);
  }

  function answer(request: IncomingMessage, response: ServerResponse): void {
    if (api.answers(request, response)) return;
    const url = new URL(request.url ?? '/', api.server);
    const isDiscovery = /^\/apis(\/[^/]+\/[^/]+)?$/.test(url.pathname);
    const watches = url.searchParams.get('watch') === 'true';
    const kind = isDiscovery ? 'discovery' : watches ? 'watch' : 'list';
    const asked: FakeRequest = {
      collection: url.pathname,
      kind,
      query: url.searchParams,
      headers: request.headers,
    };
    api.events.emit('request', asked);
    const fault = api.fault(asked);
    if (fault?.do === 'hang') return;
    if (fault?.do === 'drop') {
      request.socket.destroy();
      return;
    }
    if (fault?.do === 'answer') {
      const headers = fault.retryAfter === undefined ? {} : { 'retry-after': String(fault.retryAfter) };
      response.writeHead(fault.status, headers).end(fault.body ?? '');
      return;
    }
    if (isDiscovery) {
      discover(url.pathname, response);
      return;
    }
    if (!stored.has(url.pathname)) {
      response.writeHead(404).end('404 page not found\n');
      return;
    }
    if (watches) watch(asked, response, fault);
    else list(asked, response, fault);
  }

  function discover(path: string, response: ServerResponse): void {
    const custom = [...stored.keys()].filter((name) => name.startsWith('/apis/'));
    if (path === '/apis') {
      const versions = [...new Set(custom.map((name) => name.split('/').slice(2, 4).join('/')))];
      const groups = versions.map((groupVersion) => ({ versions: [{ groupVersion }] }));
      response.end(JSON.stringify({ kind: 'APIGroupList', groups }));
      return;
    }
    const own = custom.filter((name) => name.startsWith(`${path}/`));
    const resources = own.map((name) => ({ name: name.split('/').at(-1) }));
    if (own.length === 0) response.writeHead(404).end('404 page not found\n');
    else response.end(JSON.stringify({ kind: 'APIResourceList', resources }));
  }

  function list({ collection, query }: FakeRequest, response: ServerResponse, fault: Fault | null): void {
    const token = query.get('continue') ?? '';
    const begun = pages.get(token);
    if (token !== '' && begun === undefined) {
      refuseExpired(response);
      return;
    }
    const { rest, version: of } = begun ?? { rest: [...collectionOf(collection).values()], version };
    const limit = Number(query.get('limit') ?? rest.length);
    const next = rest.length > limit ? `page${++pageCount}` : '';
    if (next !== '') pages.set(next, { rest: rest.slice(limit), version: of });
    const items = rest.slice(0, limit).map(toRaw);
    const metadata = { resourceVersion: String(of), ...(next === '' ? {} : { continue: next }) };
    const text = JSON.stringify({ kind: 'FakeList', metadata, items });
    if (fault?.do !== 'truncate') {
      response.end(text);
      return;
    }
    const half = text.slice(0, text.length / 2);
    if (fault.isClean) response.end(half);
    else response.write(half, () => response.destroy());
  }

  function watch({ collection, query }: FakeRequest, response: ServerResponse, fault: Fault | null): void {
    const from = Number(query.get('resourceVersion'));
    if (from < oldest) {
      refuseExpired(response);
      return;
    }
    response.writeHead(200, { 'content-type': 'application/json' });
    response.flushHeaders();
    if (fault?.do === 'end') response.end();
    else if (fault?.do === 'line') response.write(`${fault.line}\n`);
    const stream = streamOf(collection, response, fault);
    streams.add(stream);
    const timeout = setTimeout(stream.end, Number(query.get('timeoutSeconds')) * 1000);
    response.on('close', () => {
      clearTimeout(timeout);
      streams.delete(stream);
    });
    for (const event of happened) {
      if (event.collection === collection && event.version > from) stream.send(event);
    }
  }

  function streamOf(collection: string, response: ServerResponse, fault: Fault | null): Stream {
    let seen = 0;
    let waiting: string | null = null;
    /** What is delayed keeps its order. */
    const write = (text: string): void => {
      if (fault?.do === 'delay') setTimeout(() => response.write(text), fault.milliseconds);
      else response.write(text);
    };
    return {
      collection,
      send(event) {
        // The fault or the time limit ended it, and its close is still to come.
        if (response.writableEnded) return;
        const line = `${JSON.stringify({ type: event.type, object: toRaw(event) })}\n`;
        seen++;
        switch (fault?.do) {
          case 'silence':
            return;
          case 'duplicate':
            write(`${line}${line}`);
            return;
          case 'lose':
            if (seen > 1) write(line);
            return;
          case 'swap':
            if (waiting === null) waiting = line;
            else {
              write(`${line}${waiting}`);
              waiting = null;
            }
            return;
          case 'truncate':
            if (fault.isClean) response.end(line.slice(0, line.length / 2));
            else response.write(line.slice(0, line.length / 2), () => response.destroy());
            return;
          default:
            write(line);
        }
      },
      bookmark() {
        if (fault?.do === 'silence' || response.writableEnded) return;
        // What waits to be swapped comes before a bookmark at the latest: that is the promise of
        // bookmarks.
        if (waiting !== null) write(waiting);
        waiting = null;
        const object = { metadata: { resourceVersion: String(version) } };
        write(`${JSON.stringify({ type: 'BOOKMARK', object })}\n`);
      },
      end: () => response.end(),
      destroy: () => response.destroy(),
    };
  }

  const api: FakeApi = {
    server: `http://127.0.0.1:${port}`,
    events: new EventEmitter<{ request: [FakeRequest] }>().setMaxListeners(0),
    answers: () => false,
    fault: () => null,
    put(collection, object) {
      const type = collectionOf(collection).has(keyOf(object)) ? 'MODIFIED' : 'ADDED';
      const item = { version: ++version, object };
      collectionOf(collection).set(keyOf(object), item);
      happen({ ...item, collection, type });
      return item.version;
    },
    remove(collection, object) {
      const there = collectionOf(collection).get(keyOf(object));
      if (there === undefined) return;
      collectionOf(collection).delete(keyOf(object));
      happen({ version: ++version, object: there.object, collection, type: 'DELETED' });
    },
    objects: (collection) => [...collectionOf(collection).values()].map(({ object }) => object),
    compact() {
      oldest = ++version;
      happened = [];
      pages.clear();
    },
    setBack(to) {
      version = to;
      oldest = to;
      happened = [];
      for (const items of stored.values()) items.clear();
    },
    install: (collection) => void collectionOf(collection),
    uninstall(collection) {
      for (const object of this.objects(collection)) this.remove(collection, object);
      stored.delete(collection);
      for (const stream of streams) if (stream.collection === collection) stream.end();
    },
    cut(collection) {
      for (const stream of streams) if (stream.collection === collection) stream.destroy();
    },
    watches: () => streams.size,
    async close() {
      clearInterval(bookmarks);
      server.closeAllConnections();
      await new Promise((closed) => server.close(closed));
    },
  };
  return api;
}

function toRaw({ object, version }: Stored): unknown {
  return { ...object, metadata: { ...object.metadata, resourceVersion: String(version) } };
}

function refuseExpired(response: ServerResponse): void {
  const status = { kind: 'Status', code: 410, reason: 'Expired', message: 'too old resource version' };
  response.writeHead(410).end(JSON.stringify(status));
}
