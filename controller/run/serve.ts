import type { AddressInfo } from 'node:net';
import { hostname } from 'node:os';
import { CONTROLLER_ACCOUNT } from '../../apis/control-plane.ts';
import type { ControllerState } from '../../apis/controller-state.ts';
import { VERSION } from '../../lib/process/version.ts';
import { Registration } from '../kubeapi/api-service.ts';
import { messageOf } from '../kubeapi/connection.ts';
import { formatMissingRight, type RbacRule } from '../kubeapi/kube-error.ts';
import { NodeMetrics } from '../metrics/node-metrics.ts';
import { NodeQuestions } from '../publish/node-questions.ts';
import { type Changes, changeSignal } from '../webhook/latest.ts';
import { type AgentService, controllerAgents } from './agent-service.ts';
import { ControllerConsole } from './controller-console.ts';
import type { ControllerContext, ProcessContext } from './controller-context.ts';
import { controllerWebhook, type WebhookService } from './controller-webhook.ts';
import { Credentials } from './credentials.ts';
import type { ControllerLead } from './lead.ts';
import type { Lifecycle } from './lifecycle.ts';
import { OtherControllers, ReportDelivery } from './peers.ts';
import type { ControllerBus, ControllerView } from './view.ts';

interface ControllerServeOptions {
  readonly context: ControllerContext;
  readonly process: ProcessContext;
  readonly bus: ControllerBus;
  readonly view: ControllerView;
  readonly lead: ControllerLead;
  readonly life: () => Lifecycle;
}

/**
 * All that answers: agents, readers, the console, webhooks, the other controllers. Reads the view
 * and what the leader decided. It hands on what arrives here: reports to the view, and to lead the
 * addresses of other controllers and the definitions that a deletion has to keep.
 */
export class ControllerServe {
  readonly #options: ControllerServeOptions;
  readonly credentials: Credentials;
  readonly registration: Registration;
  readonly peers: OtherControllers;
  readonly delivery: ReportDelivery;
  readonly agents: AgentService;
  readonly webhook: WebhookService;
  readonly console: ControllerConsole;
  /** Wakes callers that wait for another state of the cluster. */
  readonly worlds: Changes = changeSignal();
  readonly #nodeMetrics: NodeMetrics;
  readonly #questions: NodeQuestions;

  constructor(options: ControllerServeOptions) {
    this.#options = options;
    const { view, process } = options;
    this.credentials = this.#makeCredentials();
    this.registration = this.#makeRegistration();
    this.peers = this.#makePeers();
    const { compiling, metrics } = view;
    this.delivery = new ReportDelivery({ compiling, peers: this.peers, reported: () => metrics.reported() });
    this.#nodeMetrics = this.#makeNodeMetrics();
    this.#questions = new NodeQuestions({
      send: (node, update) => this.agents.sendQuestion(node, update),
      elsewhere: this.peers.questions,
      clock: process.clock,
    });
    this.console = this.#makeConsole();
    this.agents = this.#makeAgents();
    this.webhook = this.#makeWebhook();
    this.#listen();
    view.watches.follow((following) => [
      this.registration.follow(following),
      ...this.credentials.follow(following),
    ]);
  }

  /** By which watches and the certificate fail now. */
  missingRights(): readonly RbacRule[] {
    const watches = this.#options.view.watches.metrics().map(({ lacks }) => lacks);
    return [...watches, this.credentials.lacks].filter((rule) => rule !== null);
  }

  /** Has the certificate used for new connections, if there is one. */
  useTls(): void {
    const { certificate } = this.credentials;
    if (certificate === null) return;
    this.#options.lead.heartbeats.useTls(certificate);
    this.agents.useTls(certificate);
    this.webhook.useTls(certificate);
  }

  /** Opens the port for agents and readers; null: there is no certificate yet. */
  async listen(): Promise<AddressInfo | null> {
    const { certificate } = this.credentials;
    if (certificate === null) return null;
    this.#options.lead.heartbeats.useTls(certificate);
    return await this.agents.listen(this.#options.context.listen, certificate);
  }

  async listenForWebhooks(): Promise<void> {
    const { certificate } = this.credentials;
    const { webhook, log } = this.#options.context;
    if (webhook === null || webhook === 'shared' || certificate === null) return;
    const port = await this.webhook.listen(webhook, certificate);
    log.info('serving webhooks', { port });
  }

  #listen(): void {
    const { bus, view, lead } = this.#options;
    bus.on('life', ({ kind }) => {
      if (kind === 'published') this.console.changed();
    });
    bus.on('gate', () => this.console.changed());
    bus.on('policyVersion', (before, now) => this.console.version(before, now));
    bus.on('reported', (report, before) => {
      this.#nodeMetrics.receive(report, before);
      this.console.receive(report, before);
    });
    bus.on('replicas', () => {
      this.peers.refresh();
      this.#tellPeers();
    });
    view.metrics.observe({
      isLeading: () => lead.isLeader(),
      watches: () => view.watches.metrics(),
      server: () => this.agents.stats(),
      statusesWaiting: () => lead.statuses.waiting(),
      certificateExpires: () => this.credentials.expires,
      rollouts: () => lead.statuses.rollouts.counts(),
      guardrails: () => lead.statuses.guardrails.counts(),
      lastDefinitions: () => lead.statuses.definitions.count(),
      unsetGateNodes: (name) => lead.unsetGates.nodes(name),
      leases: () => lead.statuses.extension?.counts() ?? { slots: 0, addresses: 0, nodesNotReady: 0 },
    });
  }

  #tellPeers(): void {
    this.#options.lead.setPeers({ known: this.peers.known, caBundle: this.credentials.caBundle });
  }

  #makeCredentials(): Credentials {
    const { context, process, bus, view } = this.#options;
    return new Credentials({
      context,
      clock: process.clock,
      request: view.api.general.request,
      service: CONTROLLER_ACCOUNT,
      changed: () => bus.life({ kind: 'certificate' }),
      trusted: () => {
        this.#tellPeers();
        bus.life({ kind: 'trusted' });
      },
    });
  }

  /** The controller's APIService: there while it serves, and removed by the last replica. */
  #makeRegistration(): Registration {
    const { context, process, view, life } = this.#options;
    const { replicas, api } = view;
    return new Registration({
      request: api.general.request,
      after: process.clock.after,
      facts: () => ({
        isWanted: context.options.aggregatedApi !== false,
        isServing: life().isServing,
        isLast: life().isOver && !life().isAgain && replicas.isLast,
        isStopping: life().isEnding,
        isNamespaceTerminating: replicas.isNamespaceTerminating,
        caBundle: this.credentials.caBundle,
      }),
      done: (action) => void context.log.info('APIService changed', { stage: 'publish', action }),
      failed: (error) => {
        const fields = { stage: 'publish', error: messageOf(error) };
        context.log.error('cannot write the APIService; trying again', fields);
      },
    });
  }

  #makePeers(): OtherControllers {
    const { context, process, view } = this.#options;
    return new OtherControllers({
      ...process,
      context,
      service: CONTROLLER_ACCOUNT,
      caBundle: () => this.credentials.caBundle,
      addresses: () => view.replicas.otherAddresses,
      reports: view.reports,
      received(reports) {
        for (const one of reports) view.reports.receive(one);
      },
      joined: () => this.agents.spreadStreams(),
    });
  }

  #makeNodeMetrics(): NodeMetrics {
    const { process, view } = this.#options;
    return new NodeMetrics({
      nodes: () => view.hub.nodes(),
      reports: view.reports,
      policies: () => view.compiling.policies,
      missing: () => this.delivery.missing(),
      clock: process.clock,
    });
  }

  #makeConsole(): ControllerConsole {
    const { context, process, view, lead } = this.#options;
    return new ControllerConsole({
      context,
      clock: process.clock,
      hub: view.hub,
      compiling: view.compiling,
      reports: view.reports,
      statuses: lead.statuses,
      questions: this.#questions,
      missing: () => this.delivery.missing(),
      unsetGates: lead.unsetGates,
    });
  }

  #makeAgents(): AgentService {
    return controllerAgents({
      ...this.#options,
      nodeMetrics: this.#nodeMetrics,
      delivery: this.delivery,
      peers: this.peers,
      nodeQuestions: this.#questions,
      console: this.console,
      webhook: () => this.webhook,
      isOpen: () => this.#options.life().isServing,
      own: () => this.#ownState(),
    });
  }

  #makeWebhook(): WebhookService {
    return controllerWebhook({
      ...this.#options,
      worlds: this.worlds,
      paths: this.credentials.paths,
    });
  }

  /** The state of this controller, as it says it itself. */
  async #ownState(): Promise<ControllerState> {
    const { context, view, lead, life } = this.#options;
    const { podName } = context.options;
    const { isEnding, isOver } = life();
    const { expires } = this.credentials;
    const { rss, heapUsed } = process.memoryUsage();
    return {
      name: podName ?? `${context.listen.host ?? hostname()}:${context.listen.port}`,
      version: VERSION,
      nodejs: process.version,
      time: this.#options.process.clock.date().toISOString(),
      uptime: Math.round(process.uptime()),
      memory: { rss, heapUsed },
      isStopping: isEnding || isOver,
      isLeading: lead.isLeader(),
      missingRights: this.missingRights().map(formatMissingRight),
      gates: view.settings.gates(),
      revision: view.hub.revision,
      streams: this.agents.stats()?.watchers ?? 0,
      others: this.peers.known,
      certificateExpires: expires === null ? null : new Date(expires).toISOString(),
      statusesWaiting: lead.statuses.waiting(),
      leftOutServices: view.compiling.leftOutServices,
      watches: view.watches.metrics().map(({ lacks: _, bookmarks: __, lastEvent, ...counts }) => ({
        ...counts,
        lastEvent: lastEvent === null ? null : new Date(lastEvent).toISOString(),
      })),
      metrics: await view.metrics.registry.metrics(),
    };
  }
}
