import type { Cluster, KubeConfig, User } from '@kubernetes/client-node';
import type { Call } from '../../apis/calls.ts';
import type { NamespacedName } from '../../apis/objects.ts';
import { present } from '../../lib/sharing/present.ts';
import { type KubeApiClient, kubeApi } from '../kubeapi/kube-api.ts';

interface PeerClientsOptions {
  /** Makes an empty one. */
  readonly kubeConfig: () => KubeConfig;
  /** The credentials for the API server: the token says that this is a controller. */
  readonly user: User;
  /** The Service whose name is in every controller's certificate. */
  readonly service: NamespacedName;
  /** See Credentials. */
  readonly caBundle: () => string | null | undefined;
  /** Offered to them (ALPN); absent: those of HTTP. */
  readonly protocols?: readonly string[];
}

/** Connections to other controllers, which are kept between requests. */
export class PeerClients {
  readonly #options: PeerClientsOptions;
  #clients = new Map<string, KubeApiClient>();
  /** That the clients trust. */
  #trusted: string | null | undefined;

  constructor(options: PeerClientsOptions) {
    this.#options = options;
  }

  /**
   * @param peer HOST:PORT
   * @param body null: the call has none
   * Throws KubeError, and InvalidError if the answer is not valid.
   */
  async call<Request extends object | null, Answer>(
    peer: string,
    { method, path, patience, parseAnswer }: Call<Request, Answer>,
    body: Request,
    signal?: AbortSignal,
  ): Promise<Answer> {
    const answer = await this.#clientOf(peer).request<unknown>({
      method,
      path,
      ...(body === null ? {} : { body }),
      ...(patience === null ? {} : { timeout: patience }),
      ...present({ signal }),
    });
    return parseAnswer(answer, body);
  }

  #clientOf(peer: string): KubeApiClient {
    const { kubeConfig, user, service, caBundle, protocols } = this.#options;
    const bundle = caBundle();
    if (bundle === undefined) throw new Error('the CA of the controllers is not known yet');
    if (bundle !== this.#trusted) {
      this.close();
      this.#trusted = bundle;
    }
    const known = this.#clients.get(peer);
    if (known !== undefined) return known;
    const cluster: Cluster = {
      name: peer,
      server: `https://${peer}`,
      skipTLSVerify: false,
      tlsServerName: `${service.name}.${service.namespace}.svc`,
      ...(bundle === null ? {} : { caData: bundle }),
    };
    const config = kubeConfig();
    config.loadFromClusterAndUser(cluster, user);
    const made = kubeApi(config, 'the controller', undefined, protocols);
    this.#clients.set(peer, made);
    return made;
  }

  /** Closes the connections to all others. */
  keep(peers: readonly string[]): void {
    for (const [peer, client] of this.#clients) {
      if (peers.includes(peer)) continue;
      client.close();
      this.#clients.delete(peer);
    }
  }

  close(): void {
    for (const client of this.#clients.values()) client.close();
    this.#clients = new Map();
  }
}
