import { CONTROLLER_ACCOUNT } from '../../apis/control-plane.ts';
import type { ControllerState } from '../../apis/controller-state.ts';
import type { GateValue } from '../../apis/stream.ts';
import { compileExtension } from '../extension/compile.ts';
import type { HeartbeatProcess } from '../heartbeat/heartbeat-process.ts';
import { ImpactProcess } from '../impact/impact-process.ts';
import type { Registration } from '../kubeapi/apiservice/registration.ts';
import type { GateName } from '../kubeapi/configmap/feature-gate.ts';
import type { RbacRule } from '../kubeapi/rbac-rule.ts';
import { NodeMetrics } from '../metrics/node-metrics.ts';
import { Hub } from '../publish/hub.ts';
import { NodeQuestions } from '../publish/node-questions.ts';
import { Replicas } from '../replicas/replicas.ts';
import { NodeVersions } from '../rollout/node-versions.ts';
import { egressVersions } from '../status/egress/egress-versions.ts';
import { antreaPolicyVersions, policyVersions } from '../status/policy-versions.ts';
import type { Following } from '../watch/cluster/follow-object.ts';
import type { Reflector } from '../watch/cluster/reflector.ts';
import { type Changes, changes } from '../webhook/changes.ts';
import type { AgentService } from './agent-service.ts';
import { ApiClients } from './api-clients.ts';
import { ClusterSettings, gateSettings } from './cluster-settings.ts';
import { Compiling } from './compiling.ts';
import { controllerAgents } from './controller-agents.ts';
import { ControllerConsole } from './controller-console.ts';
import { type ControllerContext, hasEgress, type ProcessContext } from './controller-context.ts';
import { controllerHeartbeats } from './controller-heartbeats.ts';
import { controllerLog } from './controller-log.ts';
import { type ControllerMetrics, controllerMetrics } from './controller-metrics.ts';
import { controllerRegistration } from './controller-registration.ts';
import { ControllerWatches } from './controller-watches.ts';
import { controllerWebhook } from './controller-webhook.ts';
import { Credentials } from './credentials.ts';
import { GuardrailWatch } from './guardrail-watch.ts';
import type { Lifecycle, LifeEvent } from './lifecycle.ts';
import { ownState } from './own-state.ts';
import { Peers } from './peers.ts';
import { PolicyStatuses } from './policy-statuses.ts';
import { ReportDelivery } from './report-delivery.ts';
import { UnsetGates } from './unset-gates.ts';
import type { WebhookService } from './webhook-service.ts';

const SERVICE = CONTROLLER_ACCOUNT;

/** The controller, as its parts see it. */
export interface Reactions {
  happen(event: LifeEvent): void;
  life(): Lifecycle;
}

/**
 * The parts of a controller, wired to each other. Nothing starts here: the controller starts and
 * stops them, and decides by their events.
 */
export class ControllerParts {
  readonly #context: ControllerContext;
  readonly #process: ProcessContext;
  readonly #reactions: Reactions;
  readonly #says: ReturnType<typeof controllerLog>;
  readonly api: ApiClients;
  readonly hub: Hub;
  readonly metrics: ControllerMetrics;
  readonly statuses: PolicyStatuses;
  readonly compiling: Compiling;
  readonly #versions: NodeVersions;
  readonly impact: ImpactProcess;
  readonly guardrails: GuardrailWatch;
  readonly settings: ClusterSettings;
  readonly replicas: Replicas;
  readonly nodeMetrics: NodeMetrics;
  readonly delivery: ReportDelivery;
  readonly unsetGates: UnsetGates;
  readonly peers: Peers;
  readonly nodeQuestions: NodeQuestions;
  readonly console: ControllerConsole;
  readonly registration: Registration;
  readonly credentials: Credentials;
  readonly heartbeats: HeartbeatProcess;
  readonly agents: AgentService;
  readonly webhook: WebhookService;
  readonly watches: ControllerWatches;
  /** Wakes callers that wait for another state of the cluster. */
  readonly worlds: Changes = changes();

  constructor(context: ControllerContext, processContext: ProcessContext, reactions: Reactions) {
    this.#context = context;
    this.#process = processContext;
    this.#reactions = reactions;
    this.#says = controllerLog(context.log);
    this.api = new ApiClients(context.kubeConfig, processContext.clock, context.log);
    this.hub = new Hub({ gate: context.gate ?? 'unset', watches: () => this.watches.source.positions() });
    this.#versions = new NodeVersions(Object.keys(context.config.interfaceGroups));
    this.metrics = this.#makeMetrics();
    this.heartbeats = this.#makeHeartbeats();
    this.statuses = this.#makeStatuses();
    this.compiling = this.#makeCompiling();
    this.impact = new ImpactProcess(context.config, () => this.compiling.objects);
    this.guardrails = new GuardrailWatch({
      impact: this.impact,
      compiling: this.compiling,
      keeper: this.statuses.guardrails,
      config: context.config,
      clock: processContext.clock,
      log: context.log,
    });
    this.settings = this.#makeSettings();
    this.nodeMetrics = this.#makeNodeMetrics();
    this.delivery = this.#makeDelivery();
    this.unsetGates = this.#makeUnsetGates();
    this.replicas = this.#makeReplicas();
    this.registration = this.#makeRegistration();
    this.credentials = this.#makeCredentials();
    this.peers = this.#makePeers();
    this.nodeQuestions = new NodeQuestions({
      send: (node, update) => this.agents.sendQuestion(node, update),
      elsewhere: this.peers.questions,
      clock: processContext.clock,
    });
    this.console = this.#makeConsole();
    this.agents = this.#makeAgents();
    this.webhook = this.#makeWebhook();
    this.watches = this.#makeWatches();
    if (context.gate !== null) this.statuses.keeper.gate(context.gate);
  }

  /** By which watches and the certificate fail now. */
  missingRights(): readonly RbacRule[] {
    const watches = this.watches.metrics().map(({ lacks }) => lacks);
    return [...watches, this.credentials.lacks].filter((rule) => rule !== null);
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

  #setGate(name: GateName, enabled: GateValue, over: number | null): void {
    this.#context.log.info(enabled === 'unset' ? 'feature gate without a value' : 'feature gate set', {
      [name]: enabled,
    });
    this.unsetGates.set(name, enabled);
    if (name === 'NodeNetworkPolicy') {
      this.hub.setGate(enabled, over);
      this.statuses.keeper.gate(enabled);
      this.console.changed();
    } else if ((enabled === true) !== hasEgress(this.#context))
      this.#reactions.happen({ type: 'restartRequested' });
    else this.hub.setEgressUnset(enabled === 'unset');
    this.#reactions.happen({ type: 'changed' });
  }

  #makeMetrics(): ControllerMetrics {
    return controllerMetrics({
      isLeading: () => this.heartbeats.isLeader(),
      watches: () => this.watches.metrics(),
      server: () => this.agents.stats(),
      statusesWaiting: () => this.statuses.waiting(),
      certificateExpires: () => this.credentials.expires,
      rollouts: () => this.statuses.rollouts.counts(),
      guardrails: () => this.statuses.guardrails.counts(),
      lastDefinitions: () => this.statuses.definitions.count(),
      unsetGateNodes: (name) => this.unsetGates.nodes(name),
      ...(hasEgress(this.#context) ? { leases: () => this.statuses.egressLeases() } : {}),
    });
  }

  async #ownState(): Promise<ControllerState> {
    return ownState({
      context: this.#context,
      life: this.#reactions.life(),
      isLeading: this.heartbeats.isLeader(),
      missingRights: this.missingRights(),
      gates: this.settings.gates(),
      revision: this.hub.revision,
      streams: this.agents.stats()?.watchers ?? 0,
      others: this.peers.known,
      certificateExpires: this.credentials.expires,
      statusesWaiting: this.statuses.waiting(),
      leftOutServices: this.compiling.leftOutServices,
      watches: this.watches.metrics(),
      metrics: await this.metrics.registry.metrics(),
      date: this.#process.clock.date(),
    });
  }

  #makeStatuses(): PolicyStatuses {
    const { metrics, heartbeats } = this;
    return new PolicyStatuses({
      ...this.#process,
      metrics,
      heartbeats,
      request: this.api.general.request,
      log: this.#context.log,
      rollout: this.#context.config.rollout,
      versions: this.#versions,
      isLeader: () => heartbeats.isLeader(),
    });
  }

  #makeCompiling(): Compiling {
    const { nodeCIDRs, egress } = this.#context.config;
    return new Compiling({
      hub: this.hub,
      statuses: this.statuses,
      rollouts: { versions: this.#versions, keeper: this.statuses.rollouts },
      extension: hasEgress(this.#context)
        ? compileExtension({
            config: egress,
            nodeCIDRs,
            statuses: this.statuses,
            log: this.#context.log,
          })
        : null,
      metrics: this.metrics,
      log: this.#context.log,
      clock: this.#process.clock,
      nodeCIDRs,
      podCIDRs: egress.podCIDRs,
      nodeEvent: (node, event) => this.statuses.nodeEvents.happened(node, event),
      sayProblems: this.#says.problems,
      published: () => {
        this.heartbeats.setNodes(this.hub.nodes());
        this.#reactions.happen({ type: 'published' });
        this.console.changed();
        this.guardrails.evaluate();
      },
    });
  }

  #makeSettings(): ClusterSettings {
    return new ClusterSettings({
      ...gateSettings(this.#context),
      namespace: SERVICE.namespace,
      log: this.#context.log,
      gateChanged: (name, enabled, over) => this.#setGate(name, enabled, over),
      frontProxyChanged: () => this.#reactions.happen({ type: 'frontProxy' }),
    });
  }

  #makeNodeMetrics(): NodeMetrics {
    return new NodeMetrics({
      nodes: () => this.hub.nodes(),
      reports: { get: (node) => this.delivery.reports.get(node) },
      policies: () => this.compiling.policies,
      missing: () => this.delivery.missing(),
      clock: this.#process.clock,
    });
  }

  #makeConsole(): ControllerConsole {
    return new ControllerConsole({
      context: this.#context,
      clock: this.#process.clock,
      hub: this.hub,
      compiling: this.compiling,
      reports: this.delivery.reports,
      statuses: this.statuses,
      questions: this.nodeQuestions,
      missing: () => this.delivery.missing(),
      unsetGates: this.unsetGates,
    });
  }

  #makeUnsetGates(): UnsetGates {
    return new UnsetGates({
      reports: () => this.delivery.reports.all(),
      log: this.#context.log,
      clock: this.#process.clock,
      announce: (note) => this.statuses.gateUnset(note),
    });
  }

  #makeReplicas(): Replicas {
    return new Replicas({
      ...SERVICE,
      self: this.#context.options.podName ?? null,
      changed: () => {
        this.peers.refresh();
        this.heartbeats.update();
        this.#reactions.happen({ type: 'replicas' });
      },
      leaseChanged: (lease) => {
        this.settings.setAnnotations(lease?.annotations ?? null);
        if (lease?.holder === '') this.heartbeats.tryNow();
      },
    });
  }

  #makeRegistration(): Registration {
    return controllerRegistration({
      log: this.#context.log,
      clock: this.#process.clock,
      request: this.api.general.request,
      life: () => this.#reactions.life(),
      replicas: this.replicas,
      credentials: () => this.credentials,
    });
  }

  #makeCredentials(): Credentials {
    return new Credentials({
      context: this.#context,
      clock: this.#process.clock,
      request: this.api.general.request,
      service: SERVICE,
      changed: () => this.#reactions.happen({ type: 'certificate' }),
      trusted: () => this.#reactions.happen({ type: 'trusted' }),
    });
  }

  #makePeers(): Peers {
    return new Peers({
      ...this.#process,
      context: this.#context,
      service: SERVICE,
      caBundle: () => this.credentials.caBundle,
      addresses: () => this.replicas.otherAddresses,
      reports: this.delivery.reports,
      received: (reports) => this.delivery.learned(reports),
      joined: () => this.agents.spreadStreams(),
    });
  }

  #makeHeartbeats(): HeartbeatProcess {
    const { identity } = this.#process;
    return controllerHeartbeats({
      context: this.#context,
      identity,
      service: SERVICE,
      token: this.api.token,
      annotations: () => this.settings.annotations(),
      peers: () => ({ known: this.peers.known, caBundle: this.credentials.caBundle }),
      changed: () => {
        if (this.heartbeats.isLeader()) this.watches.freshness.begin();
        else this.watches.freshness.end();
        this.#reactions.happen({ type: 'changed' });
      },
      heartbeatAnswered: (taken) => this.statuses.owners.heartbeatAnswered(taken),
      failed: (error) => this.#reactions.happen({ type: 'failed', error }),
    });
  }

  #makeDelivery(): ReportDelivery {
    return new ReportDelivery({
      now: this.#process.clock.now,
      compiling: this.compiling,
      statuses: this.statuses,
      hasEgress: hasEgress(this.#context),
      metrics: this.metrics,
      nodeMetrics: this.nodeMetrics,
      console: () => this.console,
      peers: () => this.peers,
    });
  }

  #makeAgents(): AgentService {
    const { api, hub, settings, metrics, nodeMetrics, compiling, delivery, peers } = this;
    const { nodeQuestions, console, heartbeats } = this;
    return controllerAgents({
      context: this.#context,
      process: this.#process,
      account: SERVICE,
      api,
      hub,
      settings,
      metrics,
      nodeMetrics,
      compiling,
      delivery,
      peers,
      nodeQuestions,
      console,
      heartbeats,
      isLeader: () => this.heartbeats.isLeader(),
      isOpen: () => this.#reactions.life().isServing,
      own: () => this.#ownState(),
      onEvent: this.#says.server,
    });
  }

  #makeWebhook(): WebhookService {
    return controllerWebhook({
      context: this.#context,
      api: this.api,
      compiling: this.compiling,
      impact: (change, asker) => this.guardrails.change(change, asker),
      worlds: this.worlds,
      source: () => this.watches.source,
      keep: (deletion, milliseconds) => this.statuses.definitions.keep(deletion, milliseconds),
      paths: this.credentials.paths,
      now: this.#process.clock.now,
    });
  }

  #makeWatches(): ControllerWatches {
    return new ControllerWatches({
      context: this.#context,
      random: this.#process.random,
      get: this.api.watches.get,
      notice: this.#says.watch,
      follow: (following) => this.#follow(following),
      proven: () => this.#reactions.happen({ type: 'changed' }),
    });
  }

  /** In the order of the metrics. */
  #follow(following: Following): Reflector[] {
    const { keeper, rollouts, egress } = this.statuses;
    const antrea = antreaPolicyVersions(following, (...change) => keeper.version(...change));
    const egressOnes = egressVersions(following, (...change) => egress.version(...change));
    return [
      policyVersions(following, (before, now) => {
        for (const one of [keeper, rollouts, this.console]) one.version(before, now);
      }),
      ...(this.#context.config.antreaStatus ? [antrea] : []),
      ...(hasEgress(this.#context) ? egressOnes : []),
      this.settings.followFrontProxy(following),
      ...this.replicas.follow(following),
      this.registration.follow(following),
      ...this.credentials.follow(following),
      this.settings.followGates(following),
    ];
  }
}
