/**
 * What a controller needs of an API server, in this process: lists, watches, reviews, its Lease.
 */

import type { IncomingMessage, ServerResponse } from 'node:http';
import { json } from 'node:stream/consumers';
import { type FakeApi, type FakeObject, fakeApi } from '../fake/fake-api.ts';
import { identityOf } from './clients.ts';

export const POLICIES = '/apis/nodewall.io/v1alpha1/clusternetworkpolicies';
export const NODES = '/api/v1/nodes';
const CUSTOM = [POLICIES, ...['tiers', 'clustergroups'].map((name) => `/apis/nodewall.io/v1alpha1/${name}`)];

interface Lease extends FakeObject {
  readonly spec: { readonly holderIdentity?: string; readonly leaseTransitions?: number };
}

interface TokenReview {
  readonly spec: { readonly token: string; readonly audiences?: readonly string[] };
}

/** One renewal of the Lease. */
export interface Renewal {
  /** Milliseconds, monotonic. */
  readonly at: number;
  readonly holder: string;
}

export class ApiServer {
  readonly objects: FakeApi;
  readonly renewals: Renewal[] = [];

  private constructor(objects: FakeApi) {
    this.objects = objects;
    for (const collection of CUSTOM) objects.install(collection);
    objects.answers = (request, response) => this.#answers(request, response);
  }

  static async start(): Promise<ApiServer> {
    return new ApiServer(await fakeApi());
  }

  close(): Promise<void> {
    return this.objects.close();
  }

  #answers(request: IncomingMessage, response: ServerResponse): boolean {
    const { pathname } = new URL(request.url ?? '/', this.objects.server);
    const isOfOne = /\/(leases|configmaps|apiservices|secrets)\/[^/]+$/.test(pathname);
    if (request.method === 'GET' && !isOfOne) {
      // What nobody has put there is an empty list; other groups are not installed.
      if (!/^\/apis($|\/[^/]+\/[^/]+$|\/crd\.antrea\.io\/)/.test(pathname)) this.objects.install(pathname);
      return false;
    }
    this.#single(request, response, pathname).catch((error: unknown) => response.destroy(error as Error));
    return true;
  }

  async #single(request: IncomingMessage, response: ServerResponse, path: string): Promise<void> {
    const body = request.method === 'GET' || request.method === 'DELETE' ? null : await json(request);
    if (path.endsWith('/tokenreviews')) answer(response, this.#review(body as TokenReview));
    else if (path.endsWith('/subjectaccessreviews')) answer(response, { status: { allowed: true } });
    else if (path.includes('/leases')) this.#lease(response, path, body as Lease | null);
    else if (request.method === 'GET')
      answer(response, { kind: 'Status', code: 404, reason: 'NotFound' }, 404);
    // Nobody reads statuses, Events and the APIService.
    else answer(response, body);
  }

  #review({ spec: { token, audiences = [] } }: TokenReview): object {
    const user = identityOf(`Bearer ${token}`);
    return { status: user === null ? { authenticated: false } : { authenticated: true, user, audiences } };
  }

  #lease(response: ServerResponse, path: string, sent: Lease | null): void {
    const collection = path.slice(0, path.indexOf('/leases') + '/leases'.length);
    if (sent !== null) {
      this.renewals.push({ at: performance.now(), holder: sent.spec.holderIdentity ?? '' });
      const resourceVersion = String(this.objects.put(collection, sent));
      answer(response, { ...sent, metadata: { ...sent.metadata, resourceVersion } });
      return;
    }
    const [lease] = this.objects.objects(collection);
    if (lease === undefined) answer(response, { kind: 'Status', code: 404, reason: 'NotFound' }, 404);
    else answer(response, lease);
  }
}

function answer(response: ServerResponse, body: unknown, code = 200): void {
  response.writeHead(code, { 'content-type': 'application/json' }).end(JSON.stringify(body));
}
