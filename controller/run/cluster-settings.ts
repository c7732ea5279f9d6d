import type { Config } from '../../apis/config.ts';
import type { GateValue } from '../../apis/stream.ts';
import type { Log } from '../../lib/process/log.ts';
import { present } from '../../lib/sharing/present.ts';
import { type ConfigMapData, followConfigMap } from '../kubeapi/configmap/configmap.ts';
import type { GateName } from '../kubeapi/configmap/feature-gate.ts';
import { type FrontProxySetting, frontProxySetting } from '../kubeapi/configmap/front-proxy.ts';
import { Gate } from '../kubeapi/configmap/gate.ts';
import type { Following } from '../watch/cluster/follow-object.ts';
import type { Reflector } from '../watch/cluster/reflector.ts';
import { type ControllerContext, hasEgress } from './controller-context.ts';

export interface ClusterSettingsOptions {
  /** The feature gates from the command line; null: use the cluster's. */
  readonly given: Readonly<Record<GateName, boolean | null>>;
  /** The gates in the configuration file, used if the cluster has none. */
  readonly configured: Config['featureGates'];
  /** The namespace of ConfigMap nodewall-config. */
  readonly namespace: string;
  readonly log: Log;
  /** Called when a gate of the cluster changes, unless the command line sets it. */
  readonly gateChanged: (name: GateName, enabled: GateValue, over: number | null) => void;
  readonly frontProxyChanged: () => void;
}

/** Settings from objects of the cluster: the feature gates, and the API server's front proxy. */
export class ClusterSettings {
  readonly #options: ClusterSettingsOptions;
  readonly #gates: readonly (readonly [GateName, Gate])[];
  #frontProxy: FrontProxySetting | null = null;

  constructor(options: ClusterSettingsOptions) {
    const { configured, given, gateChanged, log } = options;
    this.#options = options;
    this.#gates = (['NodeNetworkPolicy', 'EgressGateway'] as const).map((name) => {
      const gate = new Gate(name, configured[name] ?? null, {
        changed(enabled, over) {
          if (given[name] === null) gateChanged(name, enabled, over);
        },
        problem: (text, enabled) => {
          const kept = enabled === 'unset' ? 'has no value' : `keeps its value ${enabled}`;
          log.error(`${text}; feature gate ${name} ${kept}`, { stage: 'watch' });
        },
      });
      return [name, gate];
    });
  }

  /** Null: not known yet. */
  gate(name: GateName): GateValue | null {
    return this.#options.given[name] ?? new Map(this.#gates).get(name)?.enabled ?? null;
  }

  /** All of them. */
  gates(): Readonly<Record<GateName, GateValue | null>> {
    const [policy, egress] = [this.gate('NodeNetworkPolicy'), this.gate('EgressGateway')];
    return { NodeNetworkPolicy: policy, EgressGateway: egress };
  }

  /** Null: no front proxy is trusted. */
  get frontProxy(): FrontProxySetting | null {
    return this.#frontProxy;
  }

  /** The settings to store in the Lease. */
  annotations(): Readonly<Record<string, string>> {
    return Object.assign({}, ...this.#gates.map(([, gate]) => gate.annotations()));
  }

  /** @param annotations of the Lease; null: it doesn't exist */
  setAnnotations(annotations: Readonly<Record<string, string>> | null): void {
    for (const [, gate] of this.#gates) gate.setAnnotations(annotations);
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

  followGates(following: Following): Reflector {
    return followConfigMap({
      ...following,
      namespace: this.#options.namespace,
      name: 'nodewall-config',
      changed: (data) => this.setConfigMap(data),
    });
  }

  /** ConfigMap nodewall-config; null: there is none. */
  setConfigMap(data: ConfigMapData | null): void {
    for (const [, gate] of this.#gates) gate.setConfigMap(data);
  }
}

/** The feature gates of this run's command line and configuration file. */
export function gateSettings(
  context: ControllerContext,
): Pick<ClusterSettingsOptions, 'given' | 'configured'> {
  const { gate, egressGate, config } = context;
  const { NodeNetworkPolicy } = config.featureGates;
  return {
    given: {
      NodeNetworkPolicy: gate,
      EgressGateway: egressGate === undefined ? hasEgress(context) : egressGate.given,
    },
    configured: {
      ...present({ NodeNetworkPolicy }),
      ...(egressGate?.configured == null ? {} : { EgressGateway: egressGate.configured }),
    },
  };
}
