import type { Clock } from '../../lib/process/clock.ts';
import type { Log } from '../../lib/process/log.ts';
import { type ApiServer, ApiServerError } from '../receive/api-server.ts';
import { type Authorities, FetchedAuthorities, fileAuthorities } from '../receive/https-call.ts';
import { Outage, type OutageOptions, type OutageState } from '../receive/outage.ts';

interface AuthoritiesOptions {
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
}: AuthoritiesOptions): Authorities {
  if (caFile !== null || api === null) return fileAuthorities(caFile ?? '');
  const origin = 'ConfigMap nodewall-system/nodewall-ca';
  const fetch = (): Promise<string> => api.authorities(signal);
  return new FetchedAuthorities({ origin, remembered, fetch, clock, learned });
}

interface ApiOutageOptions {
  readonly node: string;
  readonly api: ApiServer;
  readonly log: Log;
  readonly clock: Clock;
  /** Returns numbers from 0 to 1. */
  readonly random: () => number;
  readonly seen: (seen: OutageState) => void;
  readonly policies: OutageOptions['policies'];
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
}: ApiOutageOptions): Outage {
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
