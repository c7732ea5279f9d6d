import type { IncomingMessage } from 'node:http';
import { parseConfig } from '../../apis/config-file.ts';
import { CONTROLLER_ACCOUNT } from '../../apis/control-plane.ts';
import { API_VERSIONS, type ApiGroup } from '../../apis/objects.ts';
import { CONTROL_PLANE, type GateValue } from '../../apis/stream.ts';
import { parseAddress } from '../../lib/net/address.ts';
import type { Clock } from '../../lib/process/clock.ts';
import {
  bodyText,
  type HttpsCall,
  httpsCall,
  readAuthorities,
  readToken,
  refusalText,
} from './https-call.ts';

/**
 * The address of the Kubernetes API server, and the files with the agent's token and the server's
 * CA.
 */
export interface ApiServerAddress {
  /** https://HOST:PORT. */
  readonly url: URL;
  readonly tokenFile: string;
  readonly caFile: string;
}

export class ApiServerError extends Error {
  override readonly name = 'ApiServerError';
  /** The HTTP status; null if there was no answer. */
  readonly status: number | null;

  constructor(message: string, status: number | null, options?: ErrorOptions) {
    super(message, options);
    this.status = status;
  }
}

/** Time limit for a whole request (milliseconds). */
const REQUEST_TIMEOUT = 10_000;
/** Size limit of a response body (bytes). A pod takes a few KB; finished pods are left out. */
const LONGEST_ANSWER = 8 * 1024 * 1024;
const MOST_ADDRESSES = 1_000;

const { namespace, name: account } = CONTROLLER_ACCOUNT;
const CONFIG_MAPS = `/api/v1/namespaces/${namespace}/configmaps`;
const CA_CONFIG_MAP = 'nodewall-ca';
const GATE_CONFIG_MAP = 'nodewall-config';
export const API_SERVICE = `${CONTROL_PLANE.version}.${CONTROL_PLANE.group}`;
const API_SERVICE_PATH = `/apis/apiregistration.k8s.io/v1/apiservices/${API_SERVICE}`;
/** Answered from the API server's cache, so that a thousand agents put no load on etcd. */
const CACHED = { resourceVersion: '0' } as const;
const PODS = `/api/v1/namespaces/${namespace}/pods?${new URLSearchParams({
  fieldSelector: `spec.serviceAccountName=${account},status.phase!=Succeeded,status.phase!=Failed`,
  ...CACHED,
})}`;

interface ConfigMap {
  readonly data?: Readonly<Record<string, string>> | null;
}

interface PodList {
  readonly items?: readonly { readonly status?: { readonly podIPs?: readonly { readonly ip?: string }[] } }[];
}

interface ApiService {
  readonly metadata?: { readonly uid?: string; readonly resourceVersion?: string };
  readonly status?: { readonly conditions?: readonly { readonly type?: string; readonly status?: string }[] };
}

/** A policy whose rules this node has. */
export interface PolicyId {
  readonly apiGroup: ApiGroup;
  readonly policy: string;
  readonly uid: string;
}

interface ObjectMetadata {
  readonly metadata?: { readonly uid?: string };
}

type ObjectList = { readonly items?: readonly ObjectMetadata[] } | null;

/** Metadata alone: the specs of thousands of policies would be megabytes. */
const METADATA = {
  list: 'application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1',
  get: 'application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1',
} as const;

function policiesPath(group: ApiGroup): string {
  return `/apis/${group}/${API_VERSIONS[group]}/clusternetworkpolicies`;
}

type Request = Pick<HttpsCall, 'method' | 'body' | 'signal' | 'accept'> & {
  readonly path: string;
  /** A 404 counts only if it says that the object of this name is absent; else any does. */
  readonly absent?: string;
};

/**
 * The few requests that an agent sends to the API server itself; deploy/rbac.yaml allows no others.
 * Each throws ApiServerError. The token and the authorities are read for each request: both are
 * replaced while the agent runs.
 */
export class ApiServer {
  readonly #address: ApiServerAddress;
  readonly #userAgent: string;
  readonly #clock: Clock;

  constructor(address: ApiServerAddress, userAgent: string, clock: Clock) {
    this.#address = address;
    this.#userAgent = userAgent;
    this.#clock = clock;
  }

  get url(): URL {
    return this.#address.url;
  }

  /** Reads the controllers' CA (PEM); '' if the ConfigMap has none. */
  async authorities(signal: AbortSignal): Promise<string> {
    return (await this.#configMap(CA_CONFIG_MAP, signal))?.['ca.crt'] ?? '';
  }

  /**
   * Reads the feature gate NodeNetworkPolicy. It is unset, too, where the configuration can't be
   * parsed.
   */
  async gate(signal: AbortSignal): Promise<GateValue> {
    const text = (await this.#configMap(GATE_CONFIG_MAP, signal))?.['config.yaml'];
    if (text === undefined) return 'unset';
    return parseConfig(text, 'config.yaml').config?.featureGates.NodeNetworkPolicy ?? 'unset';
  }

  /** Lists the addresses of the pods that run controllers, sorted. */
  async controllerAddresses(signal: AbortSignal): Promise<readonly string[]> {
    const { items = [] } = ((await this.#request({ method: 'GET', path: PODS, signal })) ?? {}) as PodList;
    const found = items.flatMap(({ status }) => status?.podIPs ?? []).map(({ ip = '' }) => ip);
    const valid = found.filter((ip) => parseAddress(ip) !== null);
    return [...new Set(valid)].sort().slice(0, MOST_ADDRESSES);
  }

  /**
   * Which of these policies exist no more. None is taken for deleted by a cache that may be behind,
   * nor by an API server that does not know the kind: only by its answer about that object.
   */
  async deletedPolicies(known: readonly PolicyId[], signal: AbortSignal): Promise<readonly PolicyId[]> {
    const missing: PolicyId[] = [];
    for (const [group, policies] of Map.groupBy(known, ({ apiGroup }) => apiGroup)) {
      const path = `${policiesPath(group)}?${new URLSearchParams(CACHED)}`;
      const list = (await this.#request({
        method: 'GET',
        path,
        signal,
        accept: METADATA.list,
      })) as ObjectList;
      if (list === null || !Array.isArray(list.items)) continue;
      const uids = new Set(list.items.map(({ metadata }) => metadata?.uid));
      missing.push(...policies.filter(({ uid }) => !uids.has(uid)));
    }
    const deleted: PolicyId[] = [];
    for (const one of missing) if (await this.#isDeleted(one, signal)) deleted.push(one);
    return deleted;
  }

  async #isDeleted({ apiGroup, policy, uid }: PolicyId, signal: AbortSignal): Promise<boolean> {
    const path = `${policiesPath(apiGroup)}/${encodeURIComponent(policy)}`;
    const wanted = { method: 'GET', path, signal, accept: METADATA.get, absent: policy } as const;
    const found = (await this.#request(wanted)) as ObjectMetadata | null;
    return found === null || (found.metadata?.uid !== undefined && found.metadata.uid !== uid);
  }

  /** Unregisters the aggregated API if the API server reports it as unavailable. */
  async removeApiService(signal: AbortSignal): Promise<'removed' | 'absent' | 'available'> {
    const path = API_SERVICE_PATH;
    const found = (await this.#request({ method: 'GET', path, signal })) as ApiService | null;
    if (found === null) return 'absent';
    // The API server says so. Nobody may delete another one (kustomize/base/admission.yaml).
    const isUnavailable = found.status?.conditions?.some(
      ({ type, status }) => type === 'Available' && status === 'False',
    );
    if (isUnavailable !== true) return 'available';
    // The preconditions keep an object that a controller has registered again meanwhile.
    const { uid, resourceVersion } = found.metadata ?? {};
    const body = { preconditions: { uid, resourceVersion } };
    const isGone = (await this.#request({ method: 'DELETE', path, signal, body })) === null;
    return isGone ? 'absent' : 'removed';
  }

  async #send({ path, ...request }: Request): Promise<IncomingMessage> {
    const { url, tokenFile, caFile } = this.#address;
    const [token, authorities] = await Promise.all([
      readToken(tokenFile, '--api-token-file'),
      readAuthorities(caFile, '--api-ca-file'),
    ]);
    const sender = { token, authorities, userAgent: this.#userAgent, agent: false } as const;
    return await httpsCall({ ...request, ...sender, url: new URL(path, url) }, this.#clock);
  }

  /** Resolves with null if there is no such object. */
  async #request(request: Request): Promise<unknown> {
    const ending = new AbortController();
    const cancel = this.#clock.after(REQUEST_TIMEOUT, () => ending.abort());
    try {
      const response = await this.#send({
        ...request,
        signal: AbortSignal.any([request.signal, ending.signal]),
      });
      const { statusCode = 0 } = response;
      if (statusCode === 404) {
        const text = await bodyText(response, LONGEST_ANSWER);
        if (request.absent === undefined || isAbsence(text, request.absent)) return null;
        throw new ApiServerError(`the API server has no ${request.path.split('/', 5).at(-1)} (404)`, 404);
      }
      if (statusCode < 200 || statusCode > 299) {
        const text = `the API server refused (${statusCode}: ${await refusalText(response)})${advice(statusCode)}`;
        throw new ApiServerError(text, statusCode);
      }
      return JSON.parse(await bodyText(response, LONGEST_ANSWER));
    } catch (error) {
      if (error instanceof ApiServerError) throw error;
      const why = ending.signal.aborted
        ? `no answer within ${REQUEST_TIMEOUT / 1000} s`
        : (error as Error).message;
      throw new ApiServerError(`${this.url.host}: ${why}`, null, { cause: error });
    } finally {
      cancel();
    }
  }

  async #configMap(name: string, signal: AbortSignal): Promise<ConfigMap['data']> {
    const path = `${CONFIG_MAPS}/${name}?${new URLSearchParams(CACHED)}`;
    return ((await this.#request({ method: 'GET', path, signal })) as ConfigMap | null)?.data ?? null;
  }
}

/** Whether a metav1.Status says that the object of this name does not exist. */
function isAbsence(text: string, name: string): boolean {
  try {
    const { reason, details } = JSON.parse(text) as {
      readonly reason?: unknown;
      readonly details?: { readonly name?: unknown };
    };
    return reason === 'NotFound' && details?.name === name;
  } catch {
    return false;
  }
}

function advice(status: number): string {
  if (status === 401)
    return '; the token is not accepted: was the ServiceAccount made again? Restart the pod';
  if (status !== 403) return '';
  return "; check the agent's service account and its Role nodewall-agent (deploy/rbac.yaml)";
}
