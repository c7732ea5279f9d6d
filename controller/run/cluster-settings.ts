import type { Log } from '../../lib/process/log.ts';
import { followConfigMap } from '../kubeapi/configmap/configmap.ts';
import { type FrontProxySetting, frontProxySetting } from '../kubeapi/configmap/front-proxy.ts';
import { Gate } from '../kubeapi/configmap/gate.ts';
import type { Following } from '../watch/cluster/follow-object.ts';
import type { Reflector } from '../watch/cluster/reflector.ts';

export interface ClusterSettingsParts {
  /** The feature gate as the command line has it; null: as the cluster has it. */
  readonly givenGate: boolean | null;
  /** The gate of the configuration file, for a cluster that says nothing. */
  readonly configuredGate: boolean | null;
  /** Where ConfigMap nodewall-config is. */
  readonly namespace: string;
  readonly log: Log;
  /** The cluster's gate, where it counts, is another. */
  readonly gateChanged: (enabled: boolean) => void;
  readonly frontProxyChanged: () => void;
}

/**
 * What objects of the cluster say that the command line could say: the feature gate, and whom the
 * API server vouches by.
 */
export class ClusterSettings {
  readonly #parts: ClusterSettingsParts;
  readonly #gate: Gate;
  #frontProxy: FrontProxySetting | null = null;

  constructor(parts: ClusterSettingsParts) {
    const { configuredGate, givenGate, gateChanged, log } = parts;
    this.#parts = parts;
    this.#gate = new Gate(configuredGate, {
      changed(enabled) {
        if (givenGate === null) gateChanged(enabled);
      },
      problem: (text) => void log.error(`${text}; the feature gate stays as it was`, { stage: 'watch' }),
    });
  }

  get isGateKnown(): boolean {
    return this.#parts.givenGate !== null || this.#gate.enabled !== null;
  }

  /** Null: nobody may vouch for anybody. */
  get frontProxy(): FrontProxySetting | null {
    return this.#frontProxy;
  }

  /** What the Lease remembers of the settings. */
  annotations(): Readonly<Record<string, string>> {
    return this.#gate.annotations();
  }

  /** Annotations of the Lease; null: there is none. */
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
        this.#parts.frontProxyChanged();
      },
    });
  }

  followGate(following: Following): Reflector {
    return followConfigMap({
      ...following,
      namespace: this.#parts.namespace,
      name: 'nodewall-config',
      changed: (data) => this.#gate.takeConfigMap(data),
    });
  }
}
