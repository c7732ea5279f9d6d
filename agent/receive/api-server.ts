import type { IncomingMessage } from 'node:http';
import { parseConfig } from '../../apis/config-file.ts';
import { CONTROLLER_ACCOUNT } from '../../apis/control-plane.ts';
import { CONTROL_PLANE } from '../../apis/stream.ts';
import { parseAddress } from '../../lib/net/address.ts';
import type { Clock } from '../../lib/process/clock.ts';
import { bodyText, httpsCall, readAuthorities, readToken, refusalText } from './https-call.ts';

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

/**
 * The few requests that an agent sends to the API server itself; deploy/rbac.yaml allows no others.
 * Each throws ApiServerError.
 */
export interface ApiServer {
  readonly url: URL;
  /** Reads the controllers' CA (PEM); '' if the ConfigMap has none. */
  authorities(signal: AbortSignal): Promise<string>;
  /**
   * Reads the feature gate NodeNetworkPolicy; null: it is not set, or the configuration can't be
   * parsed.
   */
  gate(signal: AbortSignal): Promise<boolean | null>;
  /** Lists the addresses of the pods that run controllers, sorted. */
  controllerAddresses(signal: AbortSignal): Promise<readonly string[]>;
  /** Unregisters the aggregated API if the API server reports it as unavailable. */
  removeApiService(signal: AbortSignal): Promise<'removed' | 'absent' | 'available'>;
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
export const CA_CONFIG_MAP = 'nodewall-ca';
export const GATE_CONFIG_MAP = 'nodewall-config';
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

/** Reads the token and the authorities for each request: both are replaced while the agent runs. */
export function apiServer(address: ApiServerAddress, userAgent: string, clock: Clock): ApiServer {
  async function send(
    method: 'GET' | 'DELETE',
    path: string,
    signal: AbortSignal,
    body?: object,
  ): Promise<IncomingMessage> {
    const [token, authorities] = await Promise.all([
      readToken(address.tokenFile, '--api-token-file'),
      readAuthorities(address.caFile, '--api-ca-file'),
    ]);
    const url = new URL(path, address.url);
    const common = { url, token, authorities, userAgent, signal, agent: false } as const;
    return await httpsCall({ method, ...common, ...(body === undefined ? {} : { body }) }, clock);
  }

  /** Resolves with null if there is no such object. */
  async function request(
    method: 'GET' | 'DELETE',
    path: string,
    signal: AbortSignal,
    body?: object,
  ): Promise<unknown> {
    const ending = new AbortController();
    const cancel = clock.after(REQUEST_TIMEOUT, () => ending.abort());
    try {
      const response = await send(method, path, AbortSignal.any([signal, ending.signal]), body);
      const { statusCode = 0 } = response;
      if (statusCode === 404) {
        response.resume();
        return null;
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
      throw new ApiServerError(`${address.url.host}: ${why}`, null, { cause: error });
    } finally {
      cancel();
    }
  }

  async function configMap(name: string, signal: AbortSignal): Promise<ConfigMap['data']> {
    const path = `${CONFIG_MAPS}/${name}?${new URLSearchParams(CACHED)}`;
    return ((await request('GET', path, signal)) as ConfigMap | null)?.data ?? null;
  }

  return {
    url: address.url,
    async authorities(signal) {
      return (await configMap(CA_CONFIG_MAP, signal))?.['ca.crt'] ?? '';
    },
    async gate(signal) {
      const text = (await configMap(GATE_CONFIG_MAP, signal))?.['config.yaml'];
      if (text === undefined) return null;
      return parseConfig(text, 'config.yaml').config?.featureGates.NodeNetworkPolicy ?? null;
    },
    async controllerAddresses(signal) {
      const { items = [] } = ((await request('GET', PODS, signal)) ?? {}) as PodList;
      const found = items.flatMap(({ status }) => status?.podIPs ?? []).map(({ ip = '' }) => ip);
      const valid = found.filter((ip) => parseAddress(ip) !== null);
      return [...new Set(valid)].sort().slice(0, MOST_ADDRESSES);
    },
    async removeApiService(signal) {
      const found = (await request('GET', API_SERVICE_PATH, signal)) as ApiService | null;
      if (found === null) return 'absent';
      const isAvailable = found.status?.conditions?.some(
        ({ type, status }) => type === 'Available' && status === 'True',
      );
      if (isAvailable) return 'available';
      // The preconditions keep an object that a controller has registered again meanwhile.
      const { uid, resourceVersion } = found.metadata ?? {};
      await request('DELETE', API_SERVICE_PATH, signal, { preconditions: { uid, resourceVersion } });
      return 'removed';
    },
  };
}

function advice(status: number): string {
  if (status !== 401 && status !== 403) return '';
  return "; check the agent's service account and its Role nodewall-agent (deploy/rbac.yaml)";
}
