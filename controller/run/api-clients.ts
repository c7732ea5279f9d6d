import type { KubeConfig } from '@kubernetes/client-node';
import type { Clock } from '../../lib/process/clock.ts';
import type { Log } from '../../lib/process/log.ts';
import { type KubeApiClient, kubeApi } from '../kubeapi/kube-api.ts';
import { OwnToken } from '../kubeapi/own-token.ts';
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
