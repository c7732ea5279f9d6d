import type { AddressInfo } from 'node:net';
import { CONTROLLER_ACCOUNT } from '../../apis/control-plane.ts';
import type { ControllerState } from '../../apis/controller-state.ts';
import type { ClusterObjects, NamespacedName } from '../../apis/objects.ts';
import type { ProbeUpdate, QuestionUpdate } from '../../apis/stream.ts';
import type { WallClock } from '../../lib/process/clock.ts';
import { FairQueue } from '../../lib/process/fair-queue.ts';
import type { ListenAddress } from '../../lib/process/option-value.ts';
import type { CertificateAndKey } from '../kubeapi/certificates/issue.ts';
import type { FrontProxySetting } from '../kubeapi/configmap/configmap.ts';
import type { KubeApi } from '../kubeapi/kube-api.ts';
import type { NodeMetrics } from '../metrics/node-metrics.ts';
import { failure } from '../publish/answer.ts';
import {
  accessAuthoriser,
  firstOf,
  frontProxyAuthenticator,
  isFrontProxy,
  ofAccount,
  REVIEW_QUEUE,
  reviewAccess,
  reviewToken,
  type TokenReviewSpec,
  tokenAuthenticator,
} from '../publish/auth.ts';
import { apiServerEndpoints } from '../publish/endpoints.ts';
import { InwardProbing, PeerQuestions, type ProberStreams } from '../publish/inward-probing.ts';
import type { ServerTls } from '../publish/limits.ts';
import type { NodeQuestionService } from '../publish/node-questions.ts';
import {
  type Acceptor,
  type ControlPlaneOptions,
  type ControlPlaneServer,
  controlPlaneServer,
  type ServerStats,
} from '../publish/server.ts';
import type { ControllerConsole } from './controller-console.ts';
import { type ControllerContext, hasEgress, type ProcessContext } from './controller-context.ts';
import { controllerLog } from './controller-log.ts';
import type { WebhookService } from './controller-webhook.ts';
import type { ControllerLead } from './lead.ts';
import type { OtherControllers, ReportDelivery } from './peers.ts';
import type { ControllerView } from './view.ts';

/** The parts of the server that answer, as they are given. */
type Answering =
  | ('hub' | 'reports' | 'isOpen' | 'refusesAgents' | 'onReport' | 'onEvent' | 'ignoredAddresses')
  | ('leases' | 'probes' | 'nodeQuestions' | 'console' | 'controllers' | 'beside');

interface AgentServiceOptions extends Pick<ControlPlaneOptions, Answering> {
  /** For TokenReviews and SubjectAccessReviews; others must not have to wait behind them. */
  readonly request: KubeApi;
  readonly clock: WallClock;
  /** Comma-separated; '' means the API server's own. */
  readonly tokenAudiences: string;
  /** Called for each request. */
  readonly frontProxy: () => FrontProxySetting | null;
  /** Served at `/metrics`. */
  readonly registry: { readonly contentType: string; metrics(): Promise<string> };
  /** Served below it. */
  readonly nodeMetrics: Pick<NodeMetrics, 'page'>;
  /** Accepts the connections; absent: this process does. */
  readonly acceptor?: Acceptor;
  /** The controllers' ServiceAccount, by which they know each other. */
  readonly account: NamespacedName;
}

/** The server for agents and readers; at most one, and none until `listen` is called. */
export class AgentService {
  readonly #options: AgentServiceOptions;
  #server: ControlPlaneServer | null = null;

  constructor(options: AgentServiceOptions) {
    this.#options = options;
  }

  async listen(address: ListenAddress, pair: CertificateAndKey): Promise<AddressInfo> {
    const {
      request,
      clock,
      tokenAudiences,
      frontProxy,
      registry,
      nodeMetrics,
      acceptor,
      account,
      ...answering
    } = this.#options;
    const { now } = clock;
    const date = (): number => clock.date().getTime();
    const queue = new FairQueue(REVIEW_QUEUE);
    const audiences = tokenAudiences.split(',').filter((audience) => audience !== '');
    const review = (spec: TokenReviewSpec) => reviewToken(request, spec);
    // Tokens for the API server: those of controllers and scrapers.
    const peer = tokenAuthenticator({ review, audiences: [], now, date, queue });
    const server = controlPlaneServer({
      ...answering,
      tls: this.#tls(pair),
      authenticate: firstOf(
        frontProxyAuthenticator(frontProxy),
        tokenAuthenticator({ review, audiences, now, date, queue }),
      ),
      isFrontProxy(socket) {
        const trusted = frontProxy();
        return trusted !== null && isFrontProxy(socket, trusted);
      },
      metrics: {
        authenticate: peer,
        contentType: registry.contentType,
        text: () => registry.metrics(),
        allNodes: () => nodeMetrics.page(),
      },
      authorise: accessAuthoriser((spec) => reviewAccess(request, spec), now, queue),
      authenticatePeer: ofAccount(peer, account),
      now,
      date,
    });
    const { host, port } = address;
    const open = acceptor === undefined ? server.listen(port, host) : server.listenBehind(acceptor, address);
    this.#server = server;
    return await open;
  }

  /** For new connections. */
  useTls(pair: CertificateAndKey): void {
    this.#server?.setTls(this.#tls(pair));
  }

  spreadStreams(): void {
    this.#server?.spreadStreams();
  }

  probers(): readonly string[] {
    return this.#server?.probers() ?? [];
  }

  sendProbe(node: string, update: ProbeUpdate): boolean {
    return this.#server?.sendProbe(node, update) ?? false;
  }

  sendQuestion(node: string, update: QuestionUpdate): boolean {
    return this.#server?.sendQuestion(node, update) ?? false;
  }

  /** Null until it listens. */
  stats(): ServerStats | null {
    return this.#server?.stats() ?? null;
  }

  async close(): Promise<void> {
    await this.#server?.close();
  }

  #tls({ certificate: cert, key }: CertificateAndKey): ServerTls {
    const frontProxy = this.#options.frontProxy();
    return { cert, key, ...(frontProxy === null ? {} : { clientCa: frontProxy.clientCa }) };
  }
}

interface ControllerAgentsOptions {
  readonly context: ControllerContext;
  readonly process: Pick<ProcessContext, 'clock' | 'random'>;
  readonly view: ControllerView;
  readonly lead: Pick<ControllerLead, 'heartbeats' | 'isLeader'>;
  readonly nodeMetrics: Pick<NodeMetrics, 'page'>;
  readonly delivery: Pick<ReportDelivery, 'missing' | 'arrived'>;
  readonly peers: Pick<OtherControllers, 'probes' | 'states'>;
  readonly nodeQuestions: NodeQuestionService;
  readonly console: Pick<ControllerConsole, 'documents'>;
  /** Where it has no port of its own. */
  readonly webhook: () => Pick<WebhookService, 'share'>;
  /** Whether others than scrapers of the controller's own metrics are answered. */
  readonly isOpen: () => boolean;
  /** This controller's own state. */
  readonly own: () => Promise<ControllerState>;
}

/** The server of a controller for agents and readers, wired to the parts that answer. */
export function controllerAgents(options: ControllerAgentsOptions): AgentService {
  const { context, process, view, delivery, peers } = options;
  const { heartbeats } = options.lead;
  const service: AgentService = new AgentService({
    hub: view.hub,
    request: view.api.reviews.request,
    clock: process.clock,
    tokenAudiences: context.options.tokenAudiences,
    frontProxy: () => view.settings.frontProxy,
    registry: view.metrics.registry,
    nodeMetrics: options.nodeMetrics,
    isOpen: options.isOpen,
    refusesAgents: () => {
      const why = delivery.missing();
      return why === null ? null : failure('ServiceUnavailable', why, { 'retry-after': '1' });
    },
    ignoredAddresses: (node) => view.compiling.ignoredAddresses(node),
    reports: view.reports,
    ...(hasEgress(context) ? { leases: heartbeats, acceptor: heartbeats.acceptor } : {}),
    ...(context.webhook === 'shared' ? { beside: (proven) => options.webhook().share(proven) } : {}),
    probes: inwardProbing(options, () => service),
    nodeQuestions: options.nodeQuestions,
    console: options.console.documents,
    controllers: { own: options.own, others: () => peers.states() },
    account: CONTROLLER_ACCOUNT,
    onReport: (report, from) => delivery.arrived(report, from),
    onEvent: controllerLog(context.log).server,
  });
  return service;
}

/**
 * The probes of guarded apply that come to a node from outside: from controllers, and from nodes.
 */
function inwardProbing(
  { context, process: { clock, random }, view: { compiling }, peers, lead }: ControllerAgentsOptions,
  agents: () => Pick<AgentService, 'probers' | 'sendProbe'>,
): InwardProbing {
  const streams: ProberStreams = {
    probers: () => agents().probers(),
    send: (node, update) => agents().sendProbe(node, update),
  };
  const addressesOf = (node: string): readonly string[] =>
    compiling.snapshot?.objects.nodes.find(({ name }) => name === node)?.addresses ?? [];
  return new InwardProbing({
    probes: context.config.guard.inward,
    addressesOf,
    ownPort(name, node) {
      if (name === 'to-controller') return context.config.controllerPorts.agents;
      if (name === 'to-webhook') return context.config.controllerPorts.webhook;
      return apiServerPort(compiling.snapshot?.objects ?? null, addressesOf(node));
    },
    isLeader: () => lead.isLeader(),
    // The ServiceAccount's name where this controller's pod is not known.
    self: context.options.podName ?? CONTROLLER_ACCOUNT.name,
    questions: new PeerQuestions({ streams, clock, random }),
    elsewhere: peers.probes,
  });
}

/** The port of the API server that serves at one of these addresses; null: none does. */
function apiServerPort(objects: ClusterObjects | null, addresses: readonly string[]): number | null {
  const endpoints = objects === null ? [] : apiServerEndpoints(objects);
  return endpoints.find((one) => one.addresses.some((text) => addresses.includes(text)))?.port ?? null;
}
