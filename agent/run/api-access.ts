import { existsSync } from 'node:fs';
import type { Clock } from '../../lib/process/clock.ts';
import { CommandError, EXIT } from '../../lib/process/exit.ts';
import type { Log } from '../../lib/process/log.ts';
import { type ApiServer, type ApiServerAddress, ApiServerError } from '../receive/api-server.ts';
import { type Authorities, FetchedAuthorities, fileAuthorities } from '../receive/authorities.ts';
import { Outage, type OutageParts, type Seen } from '../receive/outage.ts';
import type { AgentOptions } from './agent-options.ts';

interface AuthoritiesParts {
  /** Null: read from the API server. */
  readonly caFile: string | null;
  readonly api: ApiServer | null;
  readonly remembered: string | null;
  readonly signal: AbortSignal;
  readonly clock: Clock;
  readonly learned: (certificates: string) => void;
}

/**
 * The CA certificates for the controller's certificate: from the file if one is given, else from
 * the API server. The caller gives at least one of the two.
 */
export function controllerAuthorities({
  caFile,
  api,
  remembered,
  signal,
  clock,
  learned,
}: AuthoritiesParts): Authorities {
  if (caFile !== null || api === null) return fileAuthorities(caFile ?? '');
  const origin = 'ConfigMap nodewall-system/nodewall-ca';
  const fetch = (): Promise<string> => api.authorities(signal);
  return new FetchedAuthorities({ origin, remembered, fetch, clock, learned });
}

interface OutageOptions {
  readonly node: string;
  readonly api: ApiServer;
  readonly log: Log;
  readonly clock: Clock;
  /** Returns numbers from 0 to 1. */
  readonly random: () => number;
  readonly seen: (seen: Seen) => void;
  readonly policies: OutageParts['policies'];
  /** Called when the API server does not accept the token. */
  readonly refused: () => void;
}

/** An Outage that logs news only, not each request. */
export function loggedOutage({
  node,
  api,
  log,
  clock,
  random,
  seen,
  policies,
  refused,
}: OutageOptions): Outage {
  return new Outage({
    api,
    policies,
    clock,
    random,
    events: {
      seen(now) {
        log.debug('read from the API server', { node, ...now });
        seen(now);
      },
      failed(error) {
        if (error instanceof ApiServerError && error.status === 401) refused();
        log.warn('cannot ask the API server for the controllers, the gate and deleted policies; retrying', {
          node,
          error: error.message,
        });
      },
      unregistered() {
        log.warn('no controller answers; deleted the APIService of the aggregated API', { node });
      },
    },
  });
}

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
