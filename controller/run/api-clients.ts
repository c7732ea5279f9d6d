import type { KubeConfig } from '@kubernetes/client-node';
import type { Clock } from '../../lib/process/clock.ts';
import type { Log } from '../../lib/process/log.ts';
import { type KubeApiClient, kubeApi } from '../kubeapi/kube-api.ts';
import { type ApiTransport, apiTransport } from '../watch/cluster/transport.ts';

/**
 * The controller's clients of the API server. Each has connections of its own: reviews that
 * strangers cause must not delay writes of statuses. The Lease has one in another process.
 */
export class ApiClients {
  /** For all that the others are not for. */
  readonly general: KubeApiClient;
  /** For TokenReviews and SubjectAccessReviews. */
  readonly reviews: KubeApiClient;
  readonly watches: ApiTransport;

  /** The token that all of them send. */
  readonly token: OwnToken;

  constructor(kubeConfig: KubeConfig, clock: Pick<Clock, 'now'>, log: Log) {
    this.token = new OwnToken({
      clock,
      refused: (why) => void log.error(why),
      accepted: () => void log.info('the API server accepts the token again'),
    });
    const answered = (status: number): void => this.token.answered(status);
    const client = () => kubeApi(kubeConfig, undefined, answered);
    this.general = client();
    this.reviews = client();
    this.watches = apiTransport(kubeConfig, answered);
  }

  close(): void {
    for (const client of [this.watches, this.general, this.reviews]) client.close();
  }
}

interface OwnTokenOptions {
  readonly clock: Pick<Clock, 'now'>;
  /** Called when the token begins to be refused for long, and again while it is. */
  readonly refused: (why: string) => void;
  /** Called when it is accepted again. */
  readonly accepted: () => void;
}

/** Milliseconds: a token that has just expired is replaced within seconds. */
const PATIENCE = 30_000;
const SAID_AGAIN = 300_000;
const UNAUTHORIZED = 401;

/**
 * Whether the API server accepts this process's own credentials, by the status of each answer. Of a
 * ServiceAccount that was deleted and made again the tokens of running pods are worth nothing,
 * until the kubelet mounts another one: each request is answered 401 then.
 */
export class OwnToken {
  readonly #options: OwnTokenOptions;
  /** Since when every answer is 401; null: the last one was not. */
  #since: number | null = null;
  #said: number | null = null;

  constructor(options: OwnTokenOptions) {
    this.#options = options;
  }

  answered(status: number): void {
    const { clock, refused, accepted } = this.#options;
    if (status !== UNAUTHORIZED) {
      // A server that fails has not looked at the token.
      if (status >= 500) return;
      if (this.#said !== null) accepted();
      this.#since = null;
      this.#said = null;
      return;
    }
    const now = clock.now();
    this.#since ??= now;
    const why = this.refusal();
    if (why === null || (this.#said !== null && now - this.#said < SAID_AGAIN)) return;
    this.#said = now;
    refused(why);
  }

  /** Why this process can do nothing at the API server, and what to do; null: it can. */
  refusal(): string | null {
    if (this.#since === null || this.#options.clock.now() - this.#since < PATIENCE) return null;
    return 'the API server does not accept the token (401): was the ServiceAccount made again? Restart the pods: kubectl rollout restart -n nodewall-system deployment/nodewall-controller';
  }
}
