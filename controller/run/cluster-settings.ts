import type { Log } from '../../lib/process/log.ts';
import { followConfigMap } from '../kubeapi/configmap/configmap.ts';
import { type FrontProxySetting, frontProxySetting } from '../kubeapi/configmap/front-proxy.ts';
import { Gate } from '../kubeapi/configmap/gate.ts';
import type { Following } from '../watch/cluster/follow-object.ts';
import type { Reflector } from '../watch/cluster/reflector.ts';

export interface ClusterSettingsOptions {
  /** The feature gate from the command line; null: use the cluster's. */
  readonly givenGate: boolean | null;
  /** The gate in the configuration file, used if the cluster has none. */
  readonly configuredGate: boolean | null;
  /** The namespace of ConfigMap nodewall-config. */
  readonly namespace: string;
  readonly log: Log;
  /** Called when the cluster's gate changes, unless the command line sets the gate. */
  readonly gateChanged: (enabled: boolean) => void;
  readonly frontProxyChanged: () => void;
}

/** Settings from objects of the cluster: the feature gate, and the API server's front proxy. */
export class ClusterSettings {
  readonly #options: ClusterSettingsOptions;
  readonly #gate: Gate;
  #frontProxy: FrontProxySetting | null = null;

  constructor(options: ClusterSettingsOptions) {
    const { configuredGate, givenGate, gateChanged, log } = options;
    this.#options = options;
    this.#gate = new Gate(configuredGate, {
      changed(enabled) {
        if (givenGate === null) gateChanged(enabled);
      },
      problem: (text) =>
        void log.error(`${text}; feature gate NodeNetworkPolicy keeps its value`, { stage: 'watch' }),
    });
  }

  get isGateKnown(): boolean {
    return this.#options.givenGate !== null || this.#gate.enabled !== null;
  }

  /** Null: no front proxy is trusted. */
  get frontProxy(): FrontProxySetting | null {
    return this.#frontProxy;
  }

  /** The settings to store in the Lease. */
  annotations(): Readonly<Record<string, string>> {
    return this.#gate.annotations();
  }

  /** @param annotations of the Lease; null: it doesn't exist */
  takeLease(annotations: Readonly<Record<string, string>> | null): void {
    this.#gate.takeLease(annotations);
  }

  followFrontProxy(following: Following): Reflector {
    return followConfigMap({
      ...following,
      namespace: 'kube-system',
      name: 'extension-apiserver-authentication',
      changed: (data) => {
        this.#frontProxy = frontProxySetting(data);
        this.#options.frontProxyChanged();
      },
    });
  }

  followGate(following: Following): Reflector {
    return followConfigMap({
      ...following,
      namespace: this.#options.namespace,
      name: 'nodewall-config',
      changed: (data) => this.#gate.takeConfigMap(data),
    });
  }
}
