import { existsSync } from 'node:fs';
import { CommandError, EXIT } from '../../lib/process/exit.ts';
import type { ApiServerAddress } from '../receive/api-server.ts';
import type { AgentOptions } from './agent-options.ts';

/** The directory where kubelet puts the token and the CA of a pod's ServiceAccount. */
const MOUNTED = '/var/run/secrets/kubernetes.io/serviceaccount';

type Options = Pick<AgentOptions, 'apiServer' | 'apiTokenFile' | 'apiCaFile'>;

/**
 * The API server's address from the options, else from a pod's environment; null: neither has it.
 * Throws CommandError if it isn't https://HOST:PORT.
 */
export function apiServerAddress(
  { apiServer, apiTokenFile, apiCaFile }: Options,
  environment: Readonly<Record<string, string | undefined>>,
  mounted = MOUNTED,
): ApiServerAddress | null {
  const tokenFile = apiTokenFile ?? `${mounted}/token`;
  const caFile = apiCaFile ?? `${mounted}/ca.crt`;
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
