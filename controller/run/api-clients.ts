import type { KubeConfig } from '@kubernetes/client-node';
import { type KubeApiClient, kubeApi } from '../kubeapi/kube-api.ts';
import { type ApiTransport, apiTransport } from '../watch/cluster/transport.ts';

/**
 * The controller's clients of the API server. Each has connections of its own: reviews that
 * strangers cause, and slow writes of statuses, must not delay the renewal of the Lease.
 */
export class ApiClients {
  /** For all that the others are not for. */
  readonly general: KubeApiClient;
  readonly lease: KubeApiClient;
  /** For TokenReviews and SubjectAccessReviews. */
  readonly reviews: KubeApiClient;
  readonly watches: ApiTransport;

  constructor(kubeConfig: KubeConfig) {
    this.general = kubeApi(kubeConfig);
    this.lease = kubeApi(kubeConfig);
    this.reviews = kubeApi(kubeConfig);
    this.watches = apiTransport(kubeConfig);
  }

  close(): void {
    for (const client of [this.watches, this.general, this.lease, this.reviews]) client.close();
  }
}
