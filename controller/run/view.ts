import { EventEmitter } from 'node:events';
import { CONTROLLER_ACCOUNT } from '../../apis/control-plane.ts';
import type { NodeReport } from '../../apis/node-report.ts';
import type { GateValue } from '../../apis/stream.ts';
import { validateOptions } from '../../apis/validate/object.ts';
import { controllerExtension } from '../extension/controller.ts';
import type { ControllerExtension } from '../extension/extension.ts';
import type { GateName } from '../kubeapi/configmap/feature-gate.ts';
import { Hub } from '../publish/hub.ts';
import { NodeReports } from '../publish/node-reports.ts';
import { Replicas } from '../replicas/replicas.ts';
import { NodeVersions } from '../rollout/node-versions.ts';
import type { NodeEvent } from '../status/node-events.ts';
import type { WatchedPolicy } from '../status/policy-versions.ts';
import { ClusterSource, type Deliver } from '../watch/cluster/cluster-source.ts';
import type { Following } from '../watch/cluster/follow-object.ts';
import { Freshness } from '../watch/cluster/freshness.ts';
import type { Reflector } from '../watch/cluster/reflector.ts';
import type { ApiGet } from '../watch/cluster/transport.ts';
import { WATCH_TIMES, type WatchMetrics, type WatchNotice } from '../watch/cluster/watch-failures.ts';
import { ApiClients } from './api-clients.ts';
import { ClusterSettings, gateSettings } from './cluster-settings.ts';
import { Compiling, type PublishedSnapshot } from './compiling.ts';
import { type ControllerContext, hasEgress, type ProcessContext } from './controller-context.ts';
import { controllerLog } from './controller-log.ts';
import { type ControllerMetrics, controllerMetrics } from './controller-metrics.ts';
import type { LifeEvent } from './lifecycle.ts';

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
  /** Null: its feature gate is off. */
  readonly extension: ControllerExtension | null;
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
    this.extension = this.#makeExtension();
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

  #makeExtension(): ControllerExtension | null {
    const { config, log } = this.#context;
    const { nodeCIDRs, egress } = config;
    return hasEgress(this.#context) ? controllerExtension({ config: egress, nodeCIDRs, log }) : null;
  }

  #makeCompiling({ clock }: ProcessContext): Compiling {
    const { nodeCIDRs, egress } = this.#context.config;
    return new Compiling({
      hub: this.hub,
      versions: this.versions,
      extension: this.extension,
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

/**
 * By these the assemblies of a controller (view.ts, lead.ts, serve.ts) tell those that are made
 * after them, and the controller's life cycle, what happened. Listeners are called at once, in the
 * order in which the assemblies are made.
 */
interface ControllerEvents {
  life: [event: LifeEvent];
  published: [state: PublishedSnapshot];
  /** A feature gate of the cluster has another value. */
  gate: [name: GateName, value: GateValue];
  /** The other controllers, or the state of the namespace, changed. */
  replicas: [];
  /** The last leader has given the Lease up. */
  leaseReleased: [];
  /** A report counts now; `before`: the last one of the same node, null: it is the first. */
  reported: [report: NodeReport, before: NodeReport | null];
  /** Something has to be said of a Node. */
  nodeEvent: [node: string, event: NodeEvent];
  /** A policy of nodewall.io, as it is stored. */
  policyVersion: [before: WatchedPolicy | null, now: WatchedPolicy | null];
}

export class ControllerBus extends EventEmitter<ControllerEvents> {
  life(event: LifeEvent): void {
    this.emit('life', event);
  }
}

interface ControllerWatchesOptions {
  readonly context: Pick<ControllerContext, 'kubeConfig' | 'config' | 'options' | 'log'>;
  /** Returns numbers from 0 to 1. */
  readonly random: () => number;
  readonly get: ApiGet;
  readonly notice: (notice: WatchNotice) => void;
  /** Called when all watches are proven, since `freshness.begin`, not to be behind. */
  readonly proven: () => void;
}

/** All watches of a controller: the source of objects to compile, and those of its other parts. */
class ControllerWatches {
  readonly source: ClusterSource;
  /** This replica leads only once its watches are proven, since the election, not to be behind. */
  readonly freshness: Freshness;
  readonly #following: Following;
  readonly #reflectors: Reflector[] = [];

  constructor({ context, random, get, notice, proven }: ControllerWatchesOptions) {
    const { kubeConfig, config, options, log } = context;
    const relist = [options.relistPeriod * 1000, options.relistPeriod * 2000] as const;
    this.source = new ClusterSource({
      kubeConfig,
      ...validateOptions(config),
      times: { relist },
      random,
      onNotice: notice,
    });
    this.#following = { get, times: { ...WATCH_TIMES, relist }, random, notice };
    // A watch that has listed nothing yet shows nothing old.
    const watches = () => [this.source, ...this.#reflectors.filter((one) => one.isListed())];
    this.freshness = new Freshness(watches, (milliseconds) => {
      log.info('all watches are proven fresh', { milliseconds: Math.round(milliseconds) });
      proven();
    });
  }

  /** Adds watches beside the source; before the start. */
  follow(make: (following: Following) => readonly Reflector[]): void {
    this.#reflectors.push(...make(this.#following));
  }

  /** @param deliver called with the source's objects at first, and after every change */
  async start(deliver: Deliver): Promise<void> {
    for (const one of this.#reflectors) one.start();
    await this.source.start(deliver);
  }

  metrics(): readonly WatchMetrics[] {
    return [...this.source.metrics(), ...this.#reflectors.map((one) => one.metrics())];
  }

  async close(): Promise<void> {
    await Promise.all([...this.#reflectors.map((one) => one.close()), this.source.close()]);
  }
}
