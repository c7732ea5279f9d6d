import { existsSync } from 'node:fs';
import { CommandError, EXIT } from '../../lib/process/exit.ts';
import type { LogOptions } from '../../lib/process/log.ts';
import type { ApiServerAddress } from '../receive/api-server.ts';

/** The options of `nodewall agent`. */
export interface AgentOptions extends LogOptions {
  readonly manifests?: readonly string[];
  readonly node: string;
  readonly config?: string;
  readonly stateDir: string;
  readonly once: boolean;
  readonly strict: boolean;
  readonly featureGates?: string;
  /** https://HOST:PORT; requires the token, and either the CA or an API server that has it. */
  readonly controller?: string;
  readonly tokenFile?: string;
  readonly caFile?: string;
  /** https://HOST:PORT; requires the two files. */
  readonly apiServer?: string;
  readonly apiTokenFile?: string;
  readonly apiCaFile?: string;
  readonly metricsListen?: string;
  /** The path of a Unix socket for /healthz and /readyz; absent: none. */
  readonly healthSocket?: string;
  readonly metricsRules?: boolean;
}

/** The directory where kubelet puts the token and the CA of a pod's ServiceAccount. */
const MOUNTED = '/var/run/secrets/kubernetes.io/serviceaccount';

/**
 * The API server's address from the options, else from a pod's environment; null: neither has it.
 * Throws CommandError if it isn't https://HOST:PORT.
 */
export function apiServerAddress(
  { apiServer, apiTokenFile, apiCaFile }: Pick<AgentOptions, 'apiServer' | 'apiTokenFile' | 'apiCaFile'>,
  environment: Readonly<Record<string, string | undefined>>,
): ApiServerAddress | null {
  const tokenFile = apiTokenFile ?? `${MOUNTED}/token`;
  const caFile = apiCaFile ?? `${MOUNTED}/ca.crt`;
  if (apiServer !== undefined) return { url: httpsUrl('--api-server', apiServer), tokenFile, caFile };
  const { KUBERNETES_SERVICE_HOST: host, KUBERNETES_SERVICE_PORT: port = '443' } = environment;
  if (host === undefined || host === '' || !existsSync(tokenFile) || !existsSync(caFile)) return null;
  const url = `https://${host.includes(':') ? `[${host}]` : host}:${port}`;
  return { url: httpsUrl('KUBERNETES_SERVICE_HOST', url), tokenFile, caFile };
}

/** Parses https://HOST:PORT without anything more. Throws a CommandError that names the option. */
export function httpsUrl(option: string, text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : null;
  const isPlain =
    url !== null && (url.pathname === '/' || url.pathname === '') && url.search + url.hash === '';
  if (url?.protocol === 'https:' && isPlain && url.username + url.password === '') return url;
  const why =
    url?.protocol === 'http:' ? '; without TLS anybody on the path could change the rules of this node' : '';
  throw new CommandError(EXIT.usage, `${option}: ${JSON.stringify(text)}: must be https://HOST:PORT${why}`);
}
