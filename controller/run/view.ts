import { CONTROLLER_ACCOUNT } from '../../apis/control-plane.ts';
import type { GateValue } from '../../apis/stream.ts';
import { compileExtension } from '../extension/compile.ts';
import type { GateName } from '../kubeapi/configmap/feature-gate.ts';
import { Hub } from '../publish/hub.ts';
import { NodeReports } from '../publish/node-reports.ts';
import { Replicas } from '../replicas/replicas.ts';
import { NodeVersions } from '../rollout/node-versions.ts';
import { ApiClients } from './api-clients.ts';
import { ClusterSettings, gateSettings } from './cluster-settings.ts';
import { Compiling } from './compiling.ts';
import { type ControllerContext, hasEgress, type ProcessContext } from './controller-context.ts';
import { controllerLog } from './controller-log.ts';
import { type ControllerMetrics, controllerMetrics } from './controller-metrics.ts';
import { ControllerWatches } from './controller-watches.ts';
import type { ControllerBus } from './events.ts';

/**
 * The knowledge of a controller: it watches the cluster, compiles and publishes what it sees, and
 * has what nodes report. Every replica has the same view. It knows neither who leads nor who is
 * served.
 */
export class ControllerView {
  readonly #context: ControllerContext;
  readonly #bus: ControllerBus;
  readonly #says: ReturnType<typeof controllerLog>;
  readonly api: ApiClients;
  readonly metrics: ControllerMetrics;
  readonly watches: ControllerWatches;
  readonly settings: ClusterSettings;
  readonly replicas: Replicas;
  readonly hub: Hub;
  /** The last report of each node. */
  readonly reports: NodeReports;
  /** Which node gets which version of a policy. */
  readonly versions: NodeVersions;
  readonly compiling: Compiling;

  constructor(context: ControllerContext, process: ProcessContext, bus: ControllerBus) {
    this.#context = context;
    this.#bus = bus;
    this.#says = controllerLog(context.log);
    this.api = new ApiClients(context.kubeConfig, process.clock, context.log);
    this.metrics = controllerMetrics(hasEgress(context));
    this.watches = new ControllerWatches({
      context,
      random: process.random,
      get: this.api.watches.get,
      notice: this.#says.watch,
      proven: () => bus.life({ kind: 'changed' }),
    });
    const { source } = this.watches;
    this.hub = new Hub({ gate: context.gate ?? 'unset', watches: () => source.positions() });
    this.settings = this.#makeSettings();
    this.replicas = this.#makeReplicas();
    this.versions = new NodeVersions(Object.keys(context.config.interfaceGroups));
    this.compiling = this.#makeCompiling(process);
    this.reports = new NodeReports(process.clock.now, (report, before) => {
      bus.emit('reported', report, before);
      this.compiling.receiveReport(report);
    });
    this.watches.follow((following) => [
      this.settings.followFrontProxy(following),
      ...this.replicas.follow(following),
      this.settings.followGates(following),
    ]);
  }

  /** Whether the gates are known, and this run is made for what they say. */
  get isGateKnown(): boolean {
    const egress = this.settings.gate('EgressGateway');
    return (
      this.settings.gate('NodeNetworkPolicy') !== null &&
      egress !== null &&
      (egress === true) === hasEgress(this.#context)
    );
  }

  async start(): Promise<void> {
    await this.watches.start((...delivered) => this.compiling.deliver(...delivered));
  }

  async close(): Promise<void> {
    await Promise.all([this.watches.close(), this.compiling.close()]);
  }

  #makeSettings(): ClusterSettings {
    return new ClusterSettings({
      ...gateSettings(this.#context),
      namespace: CONTROLLER_ACCOUNT.namespace,
      log: this.#context.log,
      gateChanged: (name, value, over) => this.#setGate(name, value, over),
      frontProxyChanged: () => this.#bus.life({ kind: 'frontProxy' }),
    });
  }

  #setGate(name: GateName, value: GateValue, over: number | null): void {
    this.#context.log.info(value === 'unset' ? 'feature gate without a value' : 'feature gate set', {
      [name]: value,
    });
    const isOfThisRun = name !== 'EgressGateway' || (value === true) === hasEgress(this.#context);
    if (name === 'NodeNetworkPolicy') this.hub.setGate(value, over);
    else if (isOfThisRun) this.hub.setEgressUnset(value === 'unset');
    this.#bus.emit('gate', name, value);
    if (!isOfThisRun) this.#bus.life({ kind: 'restartRequested' });
    this.#bus.life({ kind: 'changed' });
  }

  #makeReplicas(): Replicas {
    return new Replicas({
      ...CONTROLLER_ACCOUNT,
      self: this.#context.options.podName ?? null,
      changed: () => {
        this.#bus.emit('replicas');
        this.#bus.life({ kind: 'replicas' });
      },
      leaseChanged: (lease) => {
        this.settings.setAnnotations(lease?.annotations ?? null);
        if (lease?.holder === '') this.#bus.emit('leaseReleased');
      },
    });
  }

  #makeCompiling({ clock }: ProcessContext): Compiling {
    const { nodeCIDRs, egress } = this.#context.config;
    return new Compiling({
      hub: this.hub,
      versions: this.versions,
      extension: hasEgress(this.#context)
        ? compileExtension({
            config: egress,
            nodeCIDRs,
            statuses: { publishEgress: (state) => void this.#bus.emit('egressPublished', state) },
            log: this.#context.log,
          })
        : null,
      metrics: this.metrics,
      log: this.#context.log,
      clock,
      nodeCIDRs,
      podCIDRs: egress.podCIDRs,
      nodeEvent: (node, event) => void this.#bus.emit('nodeEvent', node, event),
      sayProblems: this.#says.problems,
      published: (state) => void this.#bus.emit('published', state),
      delivered: () => this.#bus.life({ kind: 'published' }),
    });
  }
}
