/**
 * The administrator's requests to the API server, without a process for each: kubectl takes some
 * 0.1 s of processor time to start, which tests that wait would spend all the time.
 */

import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import type { IncomingMessage } from 'node:http';
import { Agent, request } from 'node:https';
import { parseAllDocuments, parse as parseYaml } from 'yaml';
import { pause, succeeds } from '../kernel/until.ts';
import { type Namespace, relay } from '../netns/namespace.ts';

interface ApiClientOptions {
  /** Path of a kubeconfig with a token (cluster-files.ts). */
  readonly kubeconfig: string;
  /** Where the server is reached from, and the path of the Unix socket that is made for it. */
  readonly inside?: { readonly namespace: Namespace; readonly socketPath: string };
}

interface ApiObject {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly namespace?: string };
}

export interface ApiClient {
  /** Whether GET of the path succeeds. */
  isWell(path: string): Promise<boolean>;
  /** As `kubectl get -o json` with these arguments. Rejects with the server's message. */
  get<T>(...args: readonly string[]): Promise<T>;
  /**
   * As `kubectl apply --server-side` of each document; with `force` it takes what others have set.
   * Rejects with the server's message.
   */
  apply(manifest: string, options?: { readonly force?: boolean }): Promise<void>;
  /** As `kubectl label --overwrite`; null removes a label. */
  label(object: readonly string[], labels: Readonly<Record<string, string | null>>): Promise<void>;
  /** As `kubectl delete --grace-period=0 --wait=false`. Rejects with the server's message. */
  remove(...args: readonly string[]): Promise<void>;
  /** As `kubectl create token`, of a service account (NAMESPACE/NAME). */
  token(serviceAccount: string, spec: TokenSpec): Promise<string>;
  /** Merges into an object's status; `object` as in `kubectl patch`. */
  patchStatus(object: readonly string[], status: object): Promise<void>;
}

/** authentication.k8s.io/v1. */
interface TokenSpec {
  readonly expirationSeconds: number;
  readonly audiences?: readonly string[];
  readonly boundObjectRef?: { readonly apiVersion: 'v1'; readonly kind: string; readonly name: string };
}

interface Resource {
  readonly path: string;
  readonly plural: string;
  readonly kind: string;
  readonly groupVersion: string;
  /** All that kubectl calls it, lower case. */
  readonly names: readonly string[];
  readonly isNamespaced: boolean;
}

/** Asks for all resources of all groups at once (KEP-3352). */
const DISCOVERY = 'application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList';

export function apiClient(options: ApiClientOptions): ApiClient {
  const send = sender(options);
  let resources: readonly Resource[] = [];

  async function find(what: string, isIt: (one: Resource) => boolean): Promise<Resource> {
    const known = resources.find(isIt);
    if (known !== undefined) return known;
    const found = await Promise.all(
      ['/api', '/apis'].map((path) => send('GET', path, { accept: DISCOVERY })),
    );
    resources = found.flatMap((list) => toResources(list as DiscoveryList));
    const one = resources.find(isIt);
    if (one === undefined) throw new Error(`the server doesn't have a resource type "${what}"`);
    return one;
  }

  async function pathOf(args: readonly string[]): Promise<string> {
    const { words, flags } = parse(args);
    const [type = '', name = ''] = words.length === 1 ? (words[0]?.split('/') ?? []) : words;
    const resource = await find(type, ({ names }) => names.includes(type.toLowerCase()));
    const namespace = flags.has('all-namespaces') ? undefined : (flags.get('namespace') ?? 'default');
    const query = new URLSearchParams();
    for (const [flag, key] of SELECTORS) if (flags.has(flag)) query.set(key, flags.get(flag) ?? '');
    return `${objectPath(resource, name, namespace)}?${query}`;
  }

  return {
    isWell: (path) => succeeds(send('GET', path)),
    async get<T>(...args: readonly string[]) {
      const [types = '', ...others] = args;
      try {
        if (!types.includes(',')) return withKinds(await send('GET', await pathOf(args))) as T;
        const lists = await Promise.all(
          types.split(',').map(async (type) => withKinds(await send('GET', await pathOf([type, ...others])))),
        );
        return { items: lists.flatMap((list) => (list as { items: readonly unknown[] }).items) } as T;
      } catch (error) {
        throw new Error(`get ${args.join(' ')}: ${(error as Error).message}`, { cause: error });
      }
    },
    async apply(manifest, { force = false } = {}) {
      for (const object of toObjects(manifest)) {
        const { apiVersion, kind, metadata } = object;
        const resource = await find(kind, (one) => one.kind === kind && one.groupVersion === apiVersion);
        const path = objectPath(resource, metadata.name, metadata.namespace ?? 'default');
        await send('PATCH', `${path}?fieldManager=kubectl&fieldValidation=Strict&force=${force}`, {
          'content-type': 'application/apply-patch+yaml',
          body: JSON.stringify(object),
        });
      }
    },
    async label(object, labels) {
      const [path = ''] = (await pathOf(object)).split('?');
      await send('PATCH', path, mergePatch({ metadata: { labels } }));
    },
    async remove(...args) {
      const [type = '', ...names] = args.filter((arg) => !arg.startsWith('-'));
      const flags = args.filter((arg) => arg.startsWith('-'));
      for (const name of names) {
        const body = JSON.stringify({ gracePeriodSeconds: 0, propagationPolicy: 'Background' });
        await send('DELETE', await pathOf([type, name, ...flags]), {
          'content-type': 'application/json',
          body,
        });
      }
    },
    async token(serviceAccount, spec) {
      const [namespace, name] = serviceAccount.split('/');
      const path = `/api/v1/namespaces/${namespace}/serviceaccounts/${name}/token`;
      const body = JSON.stringify({ apiVersion: 'authentication.k8s.io/v1', kind: 'TokenRequest', spec });
      const made = await send('POST', path, { 'content-type': 'application/json', body });
      return (made as { status: { token: string } }).status.token;
    },
    async patchStatus(object, status) {
      const [path] = (await pathOf(object)).split('?');
      await send('PATCH', `${path}/status`, mergePatch({ status }));
    },
  };
}

/** A list whose items have a kind, as kubectl shows them: the server gives the list alone one. */
function withKinds(answer: unknown): unknown {
  const { apiVersion, kind, items } = answer as {
    readonly apiVersion?: string;
    readonly kind?: string;
    readonly items?: readonly object[];
  };
  if (items === undefined || kind?.endsWith('List') !== true) return answer;
  return {
    ...(answer as object),
    items: items.map((item) => ({ apiVersion, kind: kind.slice(0, -4), ...item })),
  };
}

const mergePatch = (patch: object) => ({
  'content-type': 'application/merge-patch+json',
  body: JSON.stringify(patch),
});

const SELECTORS = [
  ['selector', 'labelSelector'],
  ['field-selector', 'fieldSelector'],
] as const;

/** kubectl's arguments: words, and flags of the form --NAME=VALUE. */
function parse(args: readonly string[]): { words: string[]; flags: Map<string, string> } {
  const words = args.filter((arg) => !arg.startsWith('-'));
  const flags = new Map<string, string>();
  for (const arg of args.filter((one) => one.startsWith('-'))) {
    const [, name, value = 'true'] = /^--([a-z-]+)(?:=(.*))?$/.exec(arg) ?? [];
    if (name === undefined) throw new Error(`not an argument of get: ${arg}`);
    flags.set(name, value);
  }
  return { words, flags };
}

function toObjects(manifest: string): ApiObject[] {
  return parseAllDocuments(manifest).flatMap((document) => {
    const value = document.toJS() as (ApiObject & { items?: readonly ApiObject[] }) | null;
    if (value === null) return [];
    return value.kind === 'List' ? [...(value.items ?? [])] : [value];
  });
}

function objectPath(resource: Resource, name: string, namespace: string | undefined): string {
  const within = resource.isNamespaced && namespace !== undefined ? `/namespaces/${namespace}` : '';
  return `${resource.path}${within}/${resource.plural}${name === '' ? '' : `/${name}`}`;
}

interface DiscoveryList {
  readonly items: readonly {
    readonly metadata: { readonly name?: string };
    readonly versions: readonly {
      readonly version: string;
      readonly resources?: readonly {
        readonly resource: string;
        readonly responseKind: { readonly kind: string };
        readonly scope: 'Namespaced' | 'Cluster';
        readonly singularResource: string;
        readonly shortNames?: readonly string[];
      }[];
    }[];
  }[];
}

/** The server's preferred groups and versions come first. */
function toResources({ items }: DiscoveryList): Resource[] {
  return items.flatMap(({ metadata: { name: group = '' }, versions }) =>
    versions.flatMap(({ version, resources = [] }) =>
      resources.map(
        ({ resource: plural, responseKind: { kind }, scope, singularResource, shortNames = [] }) => ({
          path: group === '' ? `/api/${version}` : `/apis/${group}/${version}`,
          groupVersion: group === '' ? version : `${group}/${version}`,
          plural,
          kind,
          names: [plural, singularResource, ...shortNames, `${plural}.${group}`],
          isNamespaced: scope === 'Namespaced',
        }),
      ),
    ),
  );
}

type Send = (
  method: string,
  path: string,
  more?: { readonly body?: string; readonly accept?: string; readonly 'content-type'?: string },
  tries?: number,
) => Promise<unknown>;

/** Sends a request, on a connection that is kept open; rejects where the status is not 2xx. */
function sender({ kubeconfig, inside }: ApiClientOptions): Send {
  const { clusters, users } = parseYaml(readFileSync(kubeconfig, 'utf8'));
  const [{ cluster }] = clusters;
  const { server } = cluster;
  const ca = atob(cluster['certificate-authority-data']);
  const { token } = users[0].user;
  const { hostname, port } = new URL(server);
  // A test that waits asks many times.
  const agent = new Agent({ keepAlive: true });
  let ready: Promise<void> | undefined;
  const connected = async (): Promise<object> => {
    if (inside === undefined) return { host: hostname.replace(/^\[|\]$/g, ''), port };
    const { namespace, socketPath } = inside;
    ready ??= relay(
      namespace,
      { path: socketPath },
      { host: hostname.replace(/^\[|\]$/g, ''), port: Number(port) },
    );
    await ready;
    return { socketPath };
  };
  return async function send(method, path, more = {}, tries = TRIES): Promise<unknown> {
    const { body, accept = 'application/json', ...headers } = more;
    const where = await connected();
    const authorization = `Bearer ${token}`;
    const sent = request({
      ...where,
      method,
      path,
      ca,
      agent,
      // The certificate is for the server's address, whatever leads there.
      checkServerIdentity: () => undefined,
      headers: { authorization, accept, ...headers },
      timeout: 60_000,
    });
    sent.once('timeout', () => sent.destroy(new Error(`${method} ${path}: no answer`)));
    sent.end(body);
    let response: IncomingMessage;
    try {
      [response] = await once(sent, 'response');
    } catch (error) {
      // An API server that ended has closed the connection; what it did may be asked for twice.
      if (sent.reusedSocket && (error as NodeJS.ErrnoException).code === 'ECONNRESET')
        return send(method, path, more, tries);
      throw error;
    }
    let text = '';
    for await (const part of response.setEncoding('utf8')) text += part;
    const { statusCode = 0 } = response;
    if (statusCode >= 200 && statusCode < 300) return text === 'ok' ? text : JSON.parse(text);
    if (statusCode === 429 && tries > 1) {
      await pause(1000 * Number(response.headers['retry-after'] ?? 1));
      return send(method, path, more, tries - 1);
    }
    throw new Error(toMessage(statusCode, text));
  };
}

/** As kubectl does where the server says "too many requests" and when to come again. */
const TRIES = 10;

/** As kubectl words it: `Error from server (NotFound): nodes "a" not found`. */
function toMessage(code: number, text: string): string {
  try {
    const { reason, message } = JSON.parse(text) as { reason?: string; message?: string };
    return `Error from server (${reason ?? code}): ${message ?? text}`;
  } catch {
    return `Error from server (${code}): ${text}`;
  }
}
