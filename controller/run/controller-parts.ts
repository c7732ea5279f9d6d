import { CONTROLLER_ACCOUNT } from '../../apis/control-plane.ts';
import type { ControllerState } from '../../apis/controller-state.ts';
import type { NodeReport } from '../../apis/stream.ts';
import { validateOptions } from '../../apis/validate/object.ts';
import { ImpactProcess } from '../impact/impact-process.ts';
import { Registration } from '../kubeapi/apiservice/registration.ts';
import type { GateName } from '../kubeapi/configmap/feature-gate.ts';
import { messageOf } from '../kubeapi/connection.ts';
import type { Election } from '../kubeapi/lease/election.ts';
import type { RbacRule } from '../kubeapi/rbac-rule.ts';
import { NodeMetrics } from '../metrics/node-metrics.ts';
import { failure } from '../publish/failure.ts';
import { Hub } from '../publish/hub.ts';
import type { LeaseService } from '../publish/lease-requests.ts';
import { NodeQuestions } from '../publish/node-questions.ts';
import { type AgedReport, NodeReports } from '../publish/node-reports.ts';
import { Replicas } from '../replicas/replicas.ts';
import { NodeVersions } from '../rollout/node-versions.ts';
import { egressVersions } from '../status/egress/egress-versions.ts';
import { policyVersions } from '../status/policy-versions.ts';
import { type ClusterSource, clusterSource } from '../watch/cluster/cluster-source.ts';
import { Freshness } from '../watch/cluster/freshness.ts';
import type { Reflector } from '../watch/cluster/reflector.ts';
import type { WatchMetrics } from '../watch/cluster/watch-notice.ts';
import { WATCH_TIMES } from '../watch/cluster/watch-times.ts';
import { type Changes, changes } from '../webhook/changes.ts';
import { AgentService } from './agent-service.ts';
import { ApiClients } from './api-clients.ts';
import { ClusterSettings } from './cluster-settings.ts';
import { Compiling } from './compiling.ts';
import { ControllerConsole } from './controller-console.ts';
import { type ControllerContext, hasEgress, type ProcessContext } from './controller-context.ts';
import { controllerElection } from './controller-election.ts';
import { controllerLog } from './controller-log.ts';
import { type ControllerMetrics, controllerMetrics } from './controller-metrics.ts';
import { controllerProbing } from './controller-probing.ts';
import { controllerWebhook } from './controller-webhook.ts';
import { Credentials } from './credentials.ts';
import { GuardrailWatch } from './guardrail-watch.ts';
import type { Lifecycle, LifeEvent } from './lifecycle.ts';
import { ownState } from './own-state.ts';
import { Peers } from './peers.ts';
import { PolicyStatuses } from './policy-statuses.ts';
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
  readonly source: ClusterSource;
  readonly compiling: Compiling;
  readonly #versions: NodeVersions;
  /** What changes do, and whether Guardrails hold. */
  readonly impact: ImpactProcess;
  readonly guardrails: GuardrailWatch;
  readonly settings: ClusterSettings;
  readonly replicas: Replicas;
  readonly nodeMetrics: NodeMetrics;
  readonly reports: NodeReports;
  readonly peers: Peers;
  readonly nodeQuestions: NodeQuestions;
  readonly console: ControllerConsole;
  readonly registration: Registration;
  readonly credentials: Credentials;
  readonly election: Election;
  /** This replica leads only once its watches are proven, since the election, not to be behind. */
  readonly freshness: Freshness;
  readonly agents: AgentService;
  readonly webhook: WebhookService;
  readonly reflectors: readonly Reflector[];
  /** Wakes callers that wait for another state of the cluster. */
  readonly worlds: Changes = changes();
  #areReportsKnown = false;

  constructor(context: ControllerContext, processContext: ProcessContext, reactions: Reactions) {
    this.#context = context;
    this.#process = processContext;
    this.#reactions = reactions;
    this.#says = controllerLog(context.log);
    this.api = new ApiClients(context.kubeConfig);
    this.hub = new Hub({ gate: context.gate ?? false, watches: () => this.source.positions() });
    this.#versions = new NodeVersions(Object.keys(context.config.interfaceGroups));
    this.metrics = this.#makeMetrics();
    this.statuses = this.#makeStatuses();
    this.source = this.#makeSource();
    this.compiling = this.#makeCompiling();
    const compiled = () => this.compiling.objects;
    this.impact = new ImpactProcess(context.config, compiled);
    this.guardrails = new GuardrailWatch({
      ...{ impact: this.impact, objects: compiled, keeper: this.statuses.guardrails },
      ...{ clock: processContext.clock, log: context.log },
    });
    this.settings = this.#makeSettings();
    this.nodeMetrics = this.#makeNodeMetrics();
    this.reports = new NodeReports(processContext.clock.now, (report, before) => {
      this.nodeMetrics.take(report, before);
      this.statuses.nodeEvents.take(report, before);
      this.console.take(report, before);
    });
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
    this.election = this.#makeElection();
    this.freshness = this.#makeFreshness();
    this.agents = this.#makeAgents();
    this.webhook = this.#makeWebhook();
    this.reflectors = this.#makeReflectors();
    if (context.gate !== null) this.statuses.keeper.gate(context.gate);
  }

  /** Null, or the reason why agents can't be served yet. */
  reportsMissing(): string | null {
    return this.#areReportsKnown ? null : 'the reports that other controllers have are not here yet';
  }

  /** By which watches and the certificate fail now. */
  missingRights(): readonly RbacRule[] {
    const watches = this.#watches().map(({ lacks }) => lacks);
    return [...watches, this.credentials.lacks].filter((rule) => rule !== null);
  }

  /** Whether the gates are known, and this run is made for what they say. */
  get isGateKnown(): boolean {
    return (
      this.settings.gate('NodeNetworkPolicy') !== null &&
      this.settings.gate('EgressGateway') === hasEgress(this.#context)
    );
  }

  learnReports(): void {
    void this.peers.learn().then(() => {
      // Agents are served only with the reported addresses in force.
      this.compiling.useReports();
      this.#areReportsKnown = true;
    });
  }

  #setGate(name: GateName, enabled: boolean, over: number | null): void {
    this.#context.log.info('feature gate set', { [name]: enabled });
    if (name === 'NodeNetworkPolicy') {
      this.hub.setGate(enabled, over);
      this.statuses.keeper.gate(enabled);
      this.console.changed();
    } else if (enabled !== hasEgress(this.#context)) this.#reactions.happen({ type: 'restartRequested' });
    this.#reactions.happen({ type: 'changed' });
  }

  #takeReport(report: NodeReport): void {
    this.statuses.keeper.report(report);
    this.statuses.rollouts.reported();
    if (hasEgress(this.#context)) this.statuses.egress.report(report);
    this.compiling.takeReport(report);
  }

  #relist(): readonly [number, number] {
    const { relistPeriod } = this.#context.options;
    return [relistPeriod * 1000, relistPeriod * 2000];
  }

  #makeMetrics(): ControllerMetrics {
    return controllerMetrics({
      isLeading: () => this.election.isLeader(),
      watches: () => this.#watches(),
      server: () => this.agents.stats(),
      statusesWaiting: () => this.statuses.waiting(),
      certificateExpires: () => this.credentials.expires,
      rollouts: () => this.statuses.rollouts.counts(),
      guardrails: () => this.statuses.guardrails.counts(),
      ...(hasEgress(this.#context) ? { leases: () => this.statuses.egressLeases() } : {}),
    });
  }

  #watches(): readonly WatchMetrics[] {
    return [...this.source.metrics(), ...this.reflectors.map((one) => one.metrics())];
  }

  async #ownState(): Promise<ControllerState> {
    return ownState({
      context: this.#context,
      life: this.#reactions.life(),
      isLeading: this.election.isLeader(),
      missingRights: this.missingRights(),
      gates: this.settings.gates(),
      revision: this.hub.revision,
      streams: this.agents.stats()?.watchers ?? 0,
      others: this.peers.known,
      certificateExpires: this.credentials.expires,
      statusesWaiting: this.statuses.waiting(),
      watches: this.#watches(),
      metrics: await this.metrics.registry.metrics(),
      date: this.#process.clock.date(),
    });
  }

  #makeStatuses(): PolicyStatuses {
    return new PolicyStatuses({
      ...this.#process,
      request: this.api.general.request,
      metrics: this.metrics,
      log: this.#context.log,
      rollout: this.#context.config.rollout,
      versions: this.#versions,
      isLeader: () => this.election.isLeader(),
    });
  }

  #makeSource(): ClusterSource {
    const { kubeConfig, config } = this.#context;
    return clusterSource({
      kubeConfig,
      ...validateOptions(config),
      times: { relist: this.#relist() },
      random: this.#process.random,
      onNotice: this.#says.watch,
    });
  }

  #makeCompiling(): Compiling {
    return new Compiling({
      hub: this.hub,
      statuses: this.statuses.keeper,
      rollouts: { versions: this.#versions, keeper: this.statuses.rollouts },
      ...(hasEgress(this.#context)
        ? { egress: { config: this.#context.config.egress, statuses: this.statuses.egress } }
        : {}),
      metrics: this.metrics,
      log: this.#context.log,
      clock: this.#process.clock,
      nodeCIDRs: this.#context.config.nodeCIDRs,
      sayProblems: this.#says.problems,
      published: () => {
        this.#reactions.happen({ type: 'published' });
        this.console.changed();
        this.guardrails.look();
      },
    });
  }

  #makeSettings(): ClusterSettings {
    const { gate, egressGate, config, log } = this.#context;
    const { NodeNetworkPolicy } = config.featureGates;
    return new ClusterSettings({
      given: {
        NodeNetworkPolicy: gate,
        EgressGateway: egressGate === undefined ? hasEgress(this.#context) : egressGate.given,
      },
      configured: {
        ...(NodeNetworkPolicy === undefined ? {} : { NodeNetworkPolicy }),
        ...(egressGate?.configured == null ? {} : { EgressGateway: egressGate.configured }),
      },
      namespace: SERVICE.namespace,
      log,
      gateChanged: (name, enabled, over) => this.#setGate(name, enabled, over),
      frontProxyChanged: () => this.#reactions.happen({ type: 'frontProxy' }),
    });
  }

  #makeNodeMetrics(): NodeMetrics {
    return new NodeMetrics({
      nodes: () => this.hub.nodes(),
      reports: { get: (node) => this.reports.get(node) },
      policies: () => this.compiling.policies,
      missing: () => this.reportsMissing(),
      clock: this.#process.clock,
    });
  }

  #makeConsole(): ControllerConsole {
    return new ControllerConsole({
      context: this.#context,
      clock: this.#process.clock,
      hub: this.hub,
      compiling: this.compiling,
      reports: this.reports,
      statuses: this.statuses,
      questions: this.nodeQuestions,
      missing: () => this.reportsMissing(),
    });
  }

  #makeReplicas(): Replicas {
    return new Replicas({
      ...SERVICE,
      self: this.#context.options.podName ?? null,
      changed: () => {
        this.peers.look();
        this.#reactions.happen({ type: 'replicas' });
      },
      leaseChanged: (lease) => {
        this.settings.takeLease(lease?.annotations ?? null);
        if (lease?.holder === '') this.election.look();
      },
    });
  }

  #makeRegistration(): Registration {
    const { log } = this.#context;
    return new Registration({
      request: this.api.general.request,
      after: this.#process.clock.after,
      facts: () => ({
        isServing: this.#reactions.life().isServing,
        isLast: this.#reactions.life().isOver && !this.#reactions.life().isAgain && this.replicas.isLast,
        isStopping: this.#reactions.life().isEnding,
        isNamespaceTerminating: this.replicas.isNamespaceTerminating,
        caBundle: this.credentials.caBundle,
      }),
      done: (action) => void log.info('APIService changed', { stage: 'publish', action }),
      failed(error) {
        log.error('cannot write the APIService; trying again', { stage: 'publish', error: messageOf(error) });
      },
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
      reports: this.reports,
      received: (reports: readonly AgedReport[]) => {
        for (const one of reports) if (this.reports.take(one)) this.#takeReport(one.report);
      },
      joined: () => this.agents.spreadStreams(),
    });
  }

  #makeElection(): Election {
    return controllerElection({
      ...this.#process,
      ...SERVICE,
      request: this.api.lease.request,
      annotations: () => this.settings.annotations(),
      times: this.#context.config.leaderElection,
      log: this.#context.log,
      changed: () => {
        if (this.election.isLeader()) this.freshness.begin();
        else this.freshness.end();
        this.#reactions.happen({ type: 'changed' });
      },
    });
  }

  #makeFreshness(): Freshness {
    // A watch that has listed nothing yet shows nothing old.
    const watches = () => [this.source, ...this.reflectors.filter((one) => one.isListed())];
    return new Freshness(watches, (milliseconds) => {
      this.#context.log.info('all watches are proven fresh', { milliseconds: Math.round(milliseconds) });
      this.#reactions.happen({ type: 'changed' });
    });
  }

  #makeAgents(): AgentService {
    return new AgentService({
      hub: this.hub,
      request: this.api.reviews.request,
      clock: this.#process.clock,
      tokenAudiences: this.#context.options.tokenAudiences,
      frontProxy: () => this.settings.frontProxy,
      registry: this.metrics.registry,
      nodeMetrics: this.nodeMetrics,
      isOpen: () => this.#reactions.life().isServing,
      refusesAgents: () => {
        const why = this.reportsMissing();
        return why === null ? null : failure('ServiceUnavailable', why, { 'retry-after': '1' });
      },
      ignoredAddresses: (node) => this.compiling.ignoredAddresses(node),
      reports: this.reports,
      ...(hasEgress(this.#context) ? { leases: this.#leaseService() } : {}),
      probes: controllerProbing({
        ...{ context: this.#context, process: this.#process },
        ...{ agents: () => this.agents, compiling: this.compiling, peers: this.peers },
        isLeader: () => this.election.isLeader(),
        account: SERVICE.name,
      }),
      nodeQuestions: this.nodeQuestions,
      console: this.console.documents,
      controllers: { own: () => this.#ownState(), others: () => this.peers.states() },
      account: SERVICE,
      onReport: (report, from) => {
        if (from === 'agent') {
          this.metrics.reported();
          this.peers.pass(report);
        }
        this.#takeReport(report);
      },
      onEvent: this.#says.server,
    });
  }

  #leaseService(): LeaseService {
    const takeAsLeader: LeaseService['takeAsLeader'] = (request) => this.statuses.egress.lease(request);
    return {
      takeAsLeader,
      take: async (request) => takeAsLeader(request) ?? (await this.peers.passLease(request)),
    };
  }

  #makeWebhook(): WebhookService {
    return controllerWebhook({
      context: this.#context,
      api: this.api,
      compiling: this.compiling,
      impact: (change, user) => this.guardrails.change(change, user),
      worlds: this.worlds,
      isCurrent: () => this.source.isCurrent(),
      now: this.#process.clock.now,
    });
  }

  /** In the order of the metrics. */
  #makeReflectors(): Reflector[] {
    const follow = {
      get: this.api.watches.get,
      times: { ...WATCH_TIMES, relist: this.#relist() },
      random: this.#process.random,
      notice: this.#says.watch,
    };
    return [
      policyVersions(follow, (before, now) => {
        this.statuses.keeper.version(before, now);
        this.statuses.rollouts.version(before, now);
        this.console.version(before, now);
      }),
      ...(hasEgress(this.#context)
        ? egressVersions(follow, (before, now) => this.statuses.egress.version(before, now))
        : []),
      this.settings.followFrontProxy(follow),
      ...this.replicas.follow(follow),
      this.registration.follow(follow),
      ...this.credentials.follow(follow),
      this.settings.followGates(follow),
    ];
  }
}
