import { believesAnyServer } from '../../apis/config.ts';
import { CONTROLLER_ACCOUNT } from '../../apis/control-plane.ts';
import type { NodeReport } from '../../apis/stream.ts';
import { CommandError, EXIT, type ExitStatus } from '../../lib/process/exit.ts';
import { type MetricsServer, serveMetrics } from '../../lib/process/metrics-server.ts';
import { untilStopped } from '../../lib/process/stopped.ts';
import { Registration } from '../kubeapi/apiservice/registration.ts';
import { messageOf } from '../kubeapi/connection.ts';
import type { Election } from '../kubeapi/lease/election.ts';
import { failure } from '../publish/failure.ts';
import { Hub } from '../publish/hub.ts';
import { type AgedReport, NodeReports } from '../publish/node-reports.ts';
import { Replicas } from '../replicas/replicas.ts';
import { policyVersions } from '../status/policy-versions.ts';
import { type ClusterSource, clusterSource } from '../watch/cluster/cluster-source.ts';
import { Freshness } from '../watch/cluster/freshness.ts';
import type { Reflector } from '../watch/cluster/reflector.ts';
import { WATCH_TIMES } from '../watch/cluster/watch-times.ts';
import { type Changes, changes } from '../webhook/changes.ts';
import { latestWorld } from '../webhook/latest.ts';
import { AgentService } from './agent-service.ts';
import { ApiClients } from './api-clients.ts';
import { ClusterSettings } from './cluster-settings.ts';
import { Compiling } from './compiling.ts';
import type { ControllerContext, ProcessContext } from './controller-context.ts';
import { controllerElection } from './controller-election.ts';
import { controllerLog } from './controller-log.ts';
import { type ControllerMetrics, controllerMetrics } from './controller-metrics.ts';
import { Credentials } from './credentials.ts';
import { handOver } from './hand-over.ts';
import { afterEvent, afterLook, type Effect, IDLE, type LifeEvent, missing, type Turn } from './lifecycle.ts';
import { Peers } from './peers.ts';
import { PolicyStatuses } from './policy-statuses.ts';
import { Steps } from './steps.ts';
import { WebhookService } from './webhook-service.ts';

const SERVICE = CONTROLLER_ACCOUNT;

/**
 * The controller: stages 1 to 3, and statuses and events. Every replica watches, compiles, and
 * serves agents, readers and webhooks; the one that holds the Lease also writes statuses. Agents'
 * reports reach all replicas.
 */
export class Controller {
  readonly #context: ControllerContext;
  readonly #process: ProcessContext;
  readonly #says: ReturnType<typeof controllerLog>;
  readonly #api: ApiClients;
  readonly #hub: Hub;
  readonly #metrics: ControllerMetrics;
  readonly #statuses: PolicyStatuses;
  readonly #source: ClusterSource;
  readonly #compiling: Compiling;
  readonly #settings: ClusterSettings;
  readonly #replicas: Replicas;
  readonly #reports: NodeReports;
  readonly #peers: Peers;
  readonly #registration: Registration;
  readonly #credentials: Credentials;
  readonly #election: Election;
  /** This replica leads only once its watches are proven, since the election, not to be behind. */
  readonly #freshness: Freshness;
  readonly #agents: AgentService;
  readonly #webhook: WebhookService;
  readonly #reflectors: readonly Reflector[];
  /** Wakes callers that wait for another state of the cluster. */
  readonly #worlds: Changes = changes();
  readonly #watching: Steps;
  readonly #serving: Steps;
  readonly #over = new AbortController();
  readonly #fatal = Promise.withResolvers<never>();
  #life = IDLE;
  /** The turns in progress. */
  #turns: Promise<void> = Promise.resolve();
  #health: MetricsServer | null = null;
  #areReportsKnown = false;

  constructor(context: ControllerContext, processContext: ProcessContext) {
    this.#context = context;
    this.#process = processContext;
    // Only `run` handles this rejection.
    this.#fatal.promise.catch(() => {});
    this.#says = controllerLog(context.log);
    this.#api = new ApiClients(context.kubeConfig);
    this.#hub = new Hub({ gate: context.gate ?? false, watches: () => this.#source.positions() });
    this.#metrics = this.#makeMetrics();
    this.#statuses = this.#makeStatuses();
    this.#source = this.#makeSource();
    this.#compiling = this.#makeCompiling();
    this.#settings = this.#makeSettings();
    this.#reports = new NodeReports(processContext.clock.now);
    this.#replicas = this.#makeReplicas();
    this.#registration = this.#makeRegistration();
    this.#credentials = this.#makeCredentials();
    this.#peers = this.#makePeers();
    this.#election = this.#makeElection();
    this.#freshness = this.#makeFreshness();
    this.#agents = this.#makeAgents();
    this.#webhook = this.#makeWebhook();
    this.#reflectors = this.#makeReflectors();
    if (context.gate !== null) this.#statuses.keeper.gate(context.gate);
    this.#watching = this.#watchingSteps();
    this.#serving = this.#servingSteps();
  }

  /**
   * Runs until it is asked to stop and others can continue, or a part fails; in that case throws
   * its error.
   */
  async run(): Promise<ExitStatus> {
    const { log } = this.#context;
    const fatal = this.#fatal.promise;
    try {
      await this.#watching.start();
      this.#serving.start().catch((error: unknown) => this.#happen({ type: 'failed', error }));
      const signal = await Promise.race([untilStopped(this.#over.signal), fatal]);
      log.info('stopping; agents keep their rules', { signal });
      this.#happen({ type: 'stopRequested' });
      await Promise.race([this.#handOver(), untilStopped(this.#over.signal), fatal]);
      return EXIT.done;
    } finally {
      await this.#serving.stop();
      await this.#watching.stop();
    }
  }

  /** Steps that follow the cluster; they are started first. */
  #watchingSteps(): Steps {
    return new Steps([
      { name: 'connections to the API server', stop: () => this.#api.close() },
      { name: 'statuses', stop: () => this.#statuses.keeper.lead(false) },
      { name: 'inputs', start: () => this.#startInputs(), stop: () => this.#closeInputs() },
    ]);
  }

  /**
   * Steps that depend on answers of the cluster; the controller may be asked to stop while they
   * start.
   */
  #servingSteps(): Steps {
    return new Steps([
      {
        name: 'certificate',
        // Closed with the inputs.
        start: async () => {
          await this.#credentials.start();
          this.#happen({ type: 'certificate' });
        },
      },
      { name: 'webhook', start: () => this.#serveWebhook(), stop: () => this.#webhook.close() },
      {
        name: 'other controllers',
        start: async () => this.#learnReports(),
        stop: () => this.#peers.close(),
      },
      // Listens when `#takeTurns` finds that it is due.
      { name: 'agents', stop: () => this.#agents.close() },
      { name: 'APIService', stop: () => this.#registration.close() },
      {
        name: 'election',
        start: async () => {
          await this.#source.synced;
          if (!this.#life.isOver) this.#election.start();
        },
        // Releases the Lease only after the server for agents is closed.
        stop: () => this.#election.release(),
      },
      {
        name: 'turns',
        stop: async () => {
          this.#over.abort();
          this.#happen({ type: 'over' });
          await this.#turns;
        },
      },
    ]);
  }

  async #startInputs(): Promise<void> {
    const { options, log } = this.#context;
    if (options.metricsListen !== undefined) {
      this.#health = await serveMetrics({
        listen: options.metricsListen,
        registry: this.#metrics.registry,
        isLocal: true,
        healthy: () => null,
        ready: () => this.#missing() ?? (this.#life.isServing ? this.#reportsMissing() : 'not serving yet'),
      });
      log.info('serving health and metrics', { port: this.#health.port });
    }
    for (const one of this.#reflectors) one.start();
    await this.#source.start((snapshot) => this.#compiling.deliver(snapshot));
  }

  async #closeInputs(): Promise<void> {
    await Promise.all([
      ...this.#reflectors.map((one) => one.close()),
      this.#source.close(),
      this.#compiling.close(),
      this.#credentials.close(),
      this.#health?.close(),
    ]);
  }

  #happen(event: LifeEvent): void {
    const { life, effects } = afterEvent(this.#life, event);
    this.#life = life;
    for (const effect of effects) this.#do(effect);
  }

  #do(effect: Effect): void {
    if (effect === 'look') this.#look();
    else if (effect === 'wake') this.#worlds.happened();
    else if (effect === 'register') this.#registration.look();
    else if (effect === 'useTls') this.#useTls();
    else this.#fatal.reject(effect.giveUp);
  }

  /** Starts or stops serving and leading as required; one check after the other. */
  #look(): void {
    this.#turns = this.#turns
      .then(() => this.#takeTurns())
      .catch((cause: unknown) => {
        const error = new CommandError(EXIT.refused, `--listen: ${messageOf(cause)}`, { cause });
        this.#happen({ type: 'failed', error });
      });
  }

  async #takeTurns(): Promise<void> {
    const leads = this.#election.isLeader() && this.#freshness.isProven;
    const { life, effects } = afterLook(this.#life, this.#readiness(), leads);
    this.#life = life;
    for (const turn of effects) await this.#turn(turn);
  }

  async #turn(turn: Turn): Promise<void> {
    switch (turn) {
      case 'resign':
        return this.#statuses.keeper.lead(false);
      case 'serve':
        return this.#serveAgents();
      case 'lead':
        await this.#statuses.keeper.lead(true);
        this.#happen({ type: 'leading' });
    }
  }

  #readiness() {
    return { isListed: this.#hub.ready, isGateKnown: this.#settings.isGateKnown };
  }

  /** Null, or the reason why nothing can be served. */
  #missing(): string | null {
    return missing(this.#life, this.#readiness());
  }

  #reportsMissing(): string | null {
    return this.#areReportsKnown ? null : 'the reports that other controllers have are not here yet';
  }

  #learnReports(): void {
    void this.#peers.learn().then(() => {
      // Agents are served only with the reported addresses in force.
      this.#compiling.useReports();
      this.#areReportsKnown = true;
    });
  }

  #takeReport(report: NodeReport): void {
    this.#statuses.keeper.report(report);
    this.#compiling.takeReport(report);
  }

  #useTls(): void {
    const { certificate } = this.#credentials;
    if (certificate === null) return;
    this.#agents.useTls(certificate);
    this.#webhook.useTls(certificate);
  }

  async #serveAgents(): Promise<void> {
    const { certificate } = this.#credentials;
    if (certificate === null) return;
    const { address, port } = await this.#agents.listen(this.#context.listen, certificate);
    // The certificate may have changed meanwhile: this event applies the current one.
    this.#happen({ type: 'serving' });
    this.#context.log.info('serving agents and readers', { address, port, revision: this.#hub.revision });
  }

  async #serveWebhook(): Promise<void> {
    const { certificate } = this.#credentials;
    const { webhook, log } = this.#context;
    if (webhook === null || certificate === null) return;
    const port = await this.#webhook.listen(webhook, certificate);
    log.info('serving webhooks', { port });
  }

  /** Resolves when other replicas can continue without this one. */
  async #handOver(): Promise<void> {
    const why = await handOver({
      clock: this.#process.clock,
      facts: () => ({
        self: this.#replicas.self,
        pods: this.#replicas.pods,
        isNamespaceTerminating: this.#replicas.isNamespaceTerminating,
        agents: this.#agents.stats()?.watchers ?? 0,
        isPublished: (pod) => this.#compiling.isPublished(pod),
        unsentBytes: this.#agents.stats()?.unsentBytes ?? 0,
      }),
      changed: this.#worlds.wait,
      isOver: () => this.#life.isOver,
    });
    if (why !== null) this.#context.log.info('exiting', { reason: why });
  }

  #setGate(enabled: boolean): void {
    this.#context.log.info('feature gate set', { NodeNetworkPolicy: enabled });
    this.#hub.setGate(enabled);
    this.#statuses.keeper.gate(enabled);
    this.#happen({ type: 'changed' });
  }

  #relist(): readonly [number, number] {
    const { relistPeriod } = this.#context.options;
    return [relistPeriod * 1000, relistPeriod * 2000];
  }

  #makeMetrics(): ControllerMetrics {
    return controllerMetrics({
      isLeading: () => this.#election.isLeader(),
      watches: () => [...this.#source.metrics(), ...this.#reflectors.map((one) => one.metrics())],
      server: () => this.#agents.stats(),
      statusesWaiting: () => this.#statuses.waiting(),
    });
  }

  #makeStatuses(): PolicyStatuses {
    return new PolicyStatuses({
      ...this.#process,
      request: this.#api.general.request,
      metrics: this.#metrics,
      log: this.#context.log,
    });
  }

  #makeSource(): ClusterSource {
    const { kubeConfig, config } = this.#context;
    return clusterSource({
      kubeConfig,
      failsafe: config.failsafe.ingress,
      believesAnyServer: believesAnyServer(config.names),
      interfaceGroups: Object.keys(config.interfaceGroups),
      nodeCIDRs: config.nodeCIDRs,
      times: { relist: this.#relist() },
      random: this.#process.random,
      onNotice: this.#says.watch,
    });
  }

  #makeCompiling(): Compiling {
    return new Compiling({
      hub: this.#hub,
      statuses: this.#statuses.keeper,
      metrics: this.#metrics,
      log: this.#context.log,
      clock: this.#process.clock,
      nodeCIDRs: this.#context.config.nodeCIDRs,
      sayProblems: this.#says.problems,
      published: () => this.#happen({ type: 'published' }),
    });
  }

  #makeSettings(): ClusterSettings {
    const { gate, config, log } = this.#context;
    return new ClusterSettings({
      givenGate: gate,
      configuredGate: config.featureGates.NodeNetworkPolicy ?? null,
      namespace: SERVICE.namespace,
      log,
      gateChanged: (enabled) => this.#setGate(enabled),
      frontProxyChanged: () => this.#happen({ type: 'frontProxy' }),
    });
  }

  #makeReplicas(): Replicas {
    return new Replicas({
      ...SERVICE,
      self: this.#context.options.podName ?? null,
      changed: () => {
        this.#peers.look();
        this.#happen({ type: 'replicas' });
      },
      leaseChanged: (lease) => {
        this.#settings.takeLease(lease?.annotations ?? null);
        if (lease?.holder === '') this.#election.look();
      },
    });
  }

  #makeRegistration(): Registration {
    const { log } = this.#context;
    return new Registration({
      request: this.#api.general.request,
      after: this.#process.clock.after,
      facts: () => ({
        isServing: this.#life.isServing,
        isLast: this.#life.isOver && this.#replicas.isLast,
        isStopping: this.#life.isEnding,
        isNamespaceTerminating: this.#replicas.isNamespaceTerminating,
        caBundle: this.#credentials.caBundle,
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
      request: this.#api.general.request,
      service: SERVICE,
      changed: () => this.#happen({ type: 'certificate' }),
      trusted: () => this.#happen({ type: 'trusted' }),
    });
  }

  #makePeers(): Peers {
    return new Peers({
      ...this.#process,
      context: this.#context,
      service: SERVICE,
      caBundle: () => this.#credentials.caBundle,
      addresses: () => this.#replicas.otherAddresses,
      reports: this.#reports,
      received: (reports: readonly AgedReport[]) => {
        for (const one of reports) if (this.#reports.take(one)) this.#takeReport(one.report);
      },
      joined: () => this.#agents.spreadStreams(),
    });
  }

  #makeElection(): Election {
    return controllerElection({
      ...this.#process,
      ...SERVICE,
      request: this.#api.lease.request,
      annotations: () => this.#settings.annotations(),
      log: this.#context.log,
      changed: () => {
        if (this.#election.isLeader()) this.#freshness.begin();
        else this.#freshness.end();
        this.#happen({ type: 'changed' });
      },
    });
  }

  #makeFreshness(): Freshness {
    // A watch that has listed nothing yet shows nothing old.
    const watches = () => [this.#source, ...this.#reflectors.filter((one) => one.isListed())];
    return new Freshness(watches, (milliseconds) => {
      this.#context.log.info('all watches are proven fresh', { milliseconds: Math.round(milliseconds) });
      this.#happen({ type: 'changed' });
    });
  }

  #makeAgents(): AgentService {
    return new AgentService({
      hub: this.#hub,
      request: this.#api.reviews.request,
      clock: this.#process.clock,
      tokenAudiences: this.#context.options.tokenAudiences,
      frontProxy: () => this.#settings.frontProxy,
      registry: this.#metrics.registry,
      refusesAgents: () => {
        const why = this.#reportsMissing();
        return why === null ? null : failure('ServiceUnavailable', why, { 'retry-after': '1' });
      },
      ignoredAddresses: (node) => this.#compiling.ignoredAddresses(node),
      reports: this.#reports,
      account: SERVICE,
      onReport: (report, from) => {
        if (from === 'agent') {
          this.#metrics.reported();
          this.#peers.pass(report);
        }
        this.#takeReport(report);
      },
      onEvent: this.#says.server,
    });
  }

  #makeWebhook(): WebhookService {
    const { config, log } = this.#context;
    return new WebhookService({
      world: () => ({
        objects: this.#compiling.snapshot?.objects ?? null,
        failsafe: config.failsafe,
        believesAnyServer: believesAnyServer(config.names),
        interfaceGroups: Object.keys(config.interfaceGroups),
      }),
      changed: this.#worlds.wait,
      latest: latestWorld({ request: this.#api.general.request, isCurrent: () => this.#source.isCurrent() }),
      onFailure: ({ message: error }) =>
        void log.error('internal error in a review', { stage: 'webhook', error }),
    });
  }

  /** In the order of the metrics. */
  #makeReflectors(): Reflector[] {
    const follow = {
      get: this.#api.watches.get,
      times: { ...WATCH_TIMES, relist: this.#relist() },
      random: this.#process.random,
      notice: this.#says.watch,
    };
    return [
      policyVersions(follow, (before, now) => this.#statuses.keeper.version(before, now)),
      this.#settings.followFrontProxy(follow),
      ...this.#replicas.follow(follow),
      this.#registration.follow(follow),
      ...this.#credentials.follow(follow),
      this.#settings.followGate(follow),
    ];
  }
}
