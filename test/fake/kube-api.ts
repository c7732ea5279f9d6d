import type { KubeApi, KubeRequest } from '../../controller/kubeapi/kube-api.ts';
import { KubeError } from '../../controller/kubeapi/kube-error.ts';

interface Stored {
  readonly metadata: { readonly name: string; readonly resourceVersion: string; readonly uid: string };
  readonly [field: string]: unknown;
}

export interface FakeKubeApi {
  readonly request: KubeApi;
  /** By path. */
  readonly objects: Map<string, Stored>;
  /** Every request that came, in order, refused or not. */
  readonly requests: KubeRequest[];
  /** Called before each request is looked at: throws in place of an answer. */
  before: (request: KubeRequest) => void | Promise<void>;
  /** Called when a request has been carried out: throws where the answer gets lost. */
  after: (request: KubeRequest) => void | Promise<void>;
  /** As somebody else would. */
  put(path: string, object: object): void;
}

/**
 * The part of a Kubernetes API server that single requests meet, in memory: resource versions and
 * conflicts, create of what is there, get of what isn't, merge patches, and `/status` that changes
 * the status alone. It knows no kinds: a path is an object, or the collection of those below it.
 */
export function fakeKubeApi(): FakeKubeApi {
  const objects = new Map<string, Stored>();
  let version = 0;
  const uids = new Map<string, string>();

  function store(path: string, object: Record<string, unknown>): Stored {
    const metadata = object.metadata as { name?: string } | undefined;
    const name = metadata?.name ?? path.slice(path.lastIndexOf('/') + 1);
    const uid = uids.get(path) ?? `uid-${++version}`;
    uids.set(path, uid);
    const stored = { ...object, metadata: { ...metadata, name, uid, resourceVersion: String(++version) } };
    objects.set(path, stored);
    return stored;
  }

  function refuse(status: number, reason: string, message: string): never {
    throw new KubeError(message, { status, reason });
  }

  function existing(path: string): Stored {
    return objects.get(path) ?? refuse(404, 'NotFound', `${path} not found`);
  }

  function answer({ method, path, body }: KubeRequest): unknown {
    const isStatus = path.endsWith('/status');
    const at = isStatus ? path.slice(0, -'/status'.length) : path;
    const given = structuredClone(body ?? {}) as Record<string, unknown>;
    const metadata = given.metadata as { name?: string; resourceVersion?: string; uid?: string } | undefined;
    switch (method) {
      case 'GET': {
        if (objects.has(at)) return existing(at);
        const below = [...objects].filter(([other]) => other.slice(0, other.lastIndexOf('/')) === at);
        if (below.length === 0 && /\/[^/]*s$/.test(at) === false) return existing(at);
        return { metadata: { resourceVersion: String(version) }, items: below.map(([, object]) => object) };
      }
      case 'POST': {
        if (metadata?.name === undefined) return store(`${at}/generated-${version + 1}`, given);
        const created = `${at}/${metadata.name}`;
        if (objects.has(created)) return refuse(409, 'AlreadyExists', `${created} already exists`);
        uids.delete(created);
        return store(created, given);
      }
      case 'PUT':
      case 'PATCH': {
        const before = existing(at);
        const isOld =
          metadata?.resourceVersion !== undefined &&
          metadata.resourceVersion !== before.metadata.resourceVersion;
        if (isOld) return refuse(409, 'Conflict', `${at} has been modified`);
        if (metadata?.uid !== undefined && metadata.uid !== before.metadata.uid) {
          return refuse(409, 'Conflict', `${at}: uid in precondition is another`);
        }
        if (Array.isArray(body))
          return refuse(415, 'UnsupportedMediaType', 'the fake takes merge patches only');
        const next = method === 'PUT' ? given : (merged(before, given) as Record<string, unknown>);
        return store(at, isStatus ? { ...before, status: next.status } : next);
      }
      case 'DELETE': {
        const before = existing(at);
        objects.delete(at);
        uids.delete(at);
        return before;
      }
    }
  }

  const fake: FakeKubeApi = {
    objects,
    requests: [],
    before: () => {},
    after: () => {},
    put: (path, object) => void store(path, { ...object }),
    async request<T>(request: KubeRequest): Promise<T> {
      fake.requests.push(request);
      await fake.before(request);
      const answered = structuredClone(answer(request)) as T;
      await fake.after(request);
      return answered;
    },
  };
  return fake;
}

/** RFC 7386. */
function merged(target: unknown, patch: unknown): unknown {
  if (typeof patch !== 'object' || patch === null || Array.isArray(patch)) return patch;
  const result: Record<string, unknown> = typeof target === 'object' && target !== null ? { ...target } : {};
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) delete result[key];
    else result[key] = merged(result[key], value);
  }
  return result;
}
