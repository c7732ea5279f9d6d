import type { AddressInfo } from 'node:net';
import type { NodeReport } from '../../apis/node-report.ts';
import type { NamespacedName } from '../../apis/objects.ts';
import type { ProbeUpdate, QuestionUpdate } from '../../apis/stream.ts';
import type { WallClock } from '../../lib/process/clock.ts';
import { FairQueue } from '../../lib/process/fair-queue.ts';
import type { ListenAddress } from '../../lib/process/option-value.ts';
import { present } from '../../lib/sharing/present.ts';
import type { ConsoleDocuments } from '../console/documents.ts';
import type { CertificateAndKey } from '../kubeapi/certificates/issue.ts';
import type { FrontProxySetting } from '../kubeapi/configmap/front-proxy.ts';
import type { KubeApi } from '../kubeapi/kube-api.ts';
import { reviewAccess, reviewToken } from '../kubeapi/reviews.ts';
import type { NodeMetrics } from '../metrics/node-metrics.ts';
import type { Failure } from '../publish/answer.ts';
import {
  accessAuthoriser,
  firstOf,
  frontProxyAuthenticator,
  isFrontProxy,
  ofAccount,
  REVIEW_QUEUE,
  type TokenReviewSpec,
  tokenAuthenticator,
} from '../publish/auth.ts';
import type { Hub } from '../publish/hub.ts';
import type { NodeQuestionService } from '../publish/node-questions.ts';
import type { NodeReports } from '../publish/node-reports.ts';
import type { IgnoredAddresses } from '../publish/node-view-object.ts';
import {
  type Acceptor,
  type ControlPlaneServer,
  controlPlaneServer,
  type ServerStats,
} from '../publish/server.ts';
import type { ServerTls } from '../publish/server-limits.ts';
import type { ControllerStates, LeaseService, ProbeService } from '../publish/services.ts';
import type { ServerEvent } from '../publish/streams.ts';

export interface AgentServiceOptions {
  readonly hub: Hub;
  /** For TokenReviews and SubjectAccessReviews; others must not have to wait behind them. */
  readonly request: KubeApi;
  readonly clock: WallClock;
  /** Comma-separated; '' means the API server's own. */
  readonly tokenAudiences: string;
  /** Called for each request. */
  readonly frontProxy: () => FrontProxySetting | null;
  /** Whether others than scrapers of the controller's own metrics are answered. */
  readonly isOpen: () => boolean;
  /** The reason why watches and reports of agents are refused here; null: they are not. */
  readonly refusesAgents: () => Failure | null;
  /** Served at `/metrics`. */
  readonly registry: { readonly contentType: string; metrics(): Promise<string> };
  /** Served below it. */
  readonly nodeMetrics: Pick<NodeMetrics, 'page'>;
  readonly onReport: (report: NodeReport, from: 'agent' | 'controller') => void;
  readonly reports: NodeReports;
  /** Absent: the feature gate EgressGateway is off. */
  readonly leases?: LeaseService;
  /** Accepts the connections; absent: this process does. */
  readonly acceptor?: Acceptor;
  readonly probes: ProbeService;
  readonly nodeQuestions: NodeQuestionService;
  readonly console: ConsoleDocuments;
  readonly controllers: ControllerStates;
  /** The controllers' ServiceAccount, by which they know each other. */
  readonly account: NamespacedName;
  readonly ignoredAddresses: (node: string) => IgnoredAddresses;
  readonly onEvent: (event: ServerEvent) => void;
}

/** The server for agents and readers; at most one, and none until `listen` is called. */
export class AgentService {
  readonly #options: AgentServiceOptions;
  #server: ControlPlaneServer | null = null;

  constructor(options: AgentServiceOptions) {
    this.#options = options;
  }

  async listen(address: ListenAddress, pair: CertificateAndKey): Promise<AddressInfo> {
    const { hub, request, clock, frontProxy, refusesAgents, registry, onReport, reports, onEvent } =
      this.#options;
    const { isOpen, ignoredAddresses, leases, probes, nodeQuestions, nodeMetrics, console, controllers } =
      this.#options;
    const { now } = clock;
    const date = (): number => clock.date().getTime();
    const queue = new FairQueue(REVIEW_QUEUE);
    const audiences = this.#options.tokenAudiences.split(',').filter((audience) => audience !== '');
    const review = (spec: TokenReviewSpec) => reviewToken(request, spec);
    // Tokens for the API server: those of controllers and scrapers.
    const peer = tokenAuthenticator({ review, audiences: [], now, date, queue });
    const server = controlPlaneServer({
      hub,
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
      isOpen,
      refusesAgents,
      onReport,
      ignoredAddresses,
      reports,
      ...present({ leases }),
      probes,
      nodeQuestions,
      console,
      controllers,
      authenticatePeer: ofAccount(peer, this.#options.account),
      onEvent,
      now,
      date,
    });
    const { acceptor } = this.#options;
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
