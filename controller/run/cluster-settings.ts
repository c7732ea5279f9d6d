import type { Config } from '../../apis/config.ts';
import type { NodeReport } from '../../apis/node-report.ts';
import type { GateValue } from '../../apis/stream.ts';
import type { Clock } from '../../lib/process/clock.ts';
import type { Log } from '../../lib/process/log.ts';
import { present } from '../../lib/sharing/present.ts';
import {
  type ConfigMapData,
  type FrontProxySetting,
  followConfigMap,
  frontProxySetting,
} from '../kubeapi/configmap/configmap.ts';
import { Gate, type GateName } from '../kubeapi/configmap/feature-gate.ts';
import type { Following } from '../watch/cluster/follow-object.ts';
import type { Reflector } from '../watch/cluster/reflector.ts';
import { type ControllerContext, hasEgress } from './controller-context.ts';

interface ClusterSettingsOptions {
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

interface UnsetGatesOptions {
  /** The last report of each node. */
  readonly reports: () => Iterable<NodeReport>;
  readonly log: Log;
  readonly clock: Clock;
  /** Announces it to people; false: another replica leads, or none does yet. */
  readonly announce: (note: string) => boolean;
}

/** Milliseconds between two counts: time for the reports to arrive. */
const LOOK = 10_000;

/** Whether a node goes on with what the gate is for. */
const GOES_ON: Readonly<Record<GateName, (report: NodeReport) => boolean>> = {
  NodeNetworkPolicy: ({ enabled }) => enabled,
  EgressGateway: ({ egress }) => egress?.tunnel !== undefined,
};
const SWITCH_ON = 'kubectl apply -f deploy/gate/on.yaml';
const MEANS: Readonly<Record<GateName, string>> = {
  NodeNetworkPolicy: `on enforcing, new nodes enforce nothing: ${SWITCH_ON}`,
  EgressGateway:
    'on steering, and follow no change of egress gateways: set it to true, or false, in ConfigMap nodewall-config',
};

/**
 * The feature gates without a value, and the nodes that go on all the same. It says so again when
 * their number changes.
 */
export class UnsetGates {
  readonly #options: UnsetGatesOptions;
  /** The unset gates, with the number of nodes that was logged and announced last. */
  readonly #unset = new Map<GateName, { readonly logged: number; readonly announced: number }>();
  #cancel: (() => void) | null = null;

  constructor(options: UnsetGatesOptions) {
    this.#options = options;
  }

  set(name: GateName, value: GateValue): void {
    if (value === 'unset') this.#unset.set(name, this.#unset.get(name) ?? { logged: 0, announced: 0 });
    else this.#unset.delete(name);
    if (this.#unset.size > 0) this.#arm();
    else this.close();
  }

  /** How many nodes go on without a value of this gate. */
  nodes(name: GateName): number {
    if (!this.#unset.has(name)) return 0;
    let count = 0;
    for (const report of this.#options.reports()) if (GOES_ON[name](report)) count++;
    return count;
  }

  /** The text about all of them; null: nothing has to be said. */
  remark(): string | null {
    const texts = [...this.#unset.keys()].map((name) => remarkOf(name, this.nodes(name)));
    return texts.filter((text) => text !== null).join(' ') || null;
  }

  close(): void {
    this.#cancel?.();
    this.#cancel = null;
  }

  #arm(): void {
    const { clock, log, announce } = this.#options;
    this.#cancel ??= clock.after(LOOK, () => {
      this.#cancel = null;
      for (const [name, { logged, announced }] of this.#unset) {
        const count = this.nodes(name);
        const text = count === 0 ? null : remarkOf(name, count);
        if (text !== null && count !== logged) log.warn(text, { stage: 'watch', nodes: count });
        const isAnnounced = text === null || count === announced || announce(text);
        this.#unset.set(name, { logged: count, announced: isAnnounced ? count : announced });
      }
      this.#arm();
    });
  }
}

function remarkOf(name: GateName, count: number): string | null {
  if (count === 0 && name === 'EgressGateway') return null;
  if (count === 0)
    return `The feature gate ${name} has no value, and no node enforces anything: ${SWITCH_ON}`;
  const nodes = count === 1 ? '1 node goes' : `${count} nodes go`;
  return `The feature gate ${name} has no value; ${nodes} ${MEANS[name]}`;
}
