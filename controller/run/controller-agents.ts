import type { ControllerState } from '../../apis/controller-state.ts';
import type { NamespacedName } from '../../apis/objects.ts';
import type { HeartbeatProcess } from '../heartbeat/heartbeat-process.ts';
import type { NodeMetrics } from '../metrics/node-metrics.ts';
import { failure } from '../publish/answer.ts';
import type { Hub } from '../publish/hub.ts';
import type { NodeQuestionService } from '../publish/node-questions.ts';
import type { NodeReports } from '../publish/node-reports.ts';
import type { ServerEvent } from '../publish/streams.ts';
import { AgentService } from './agent-service.ts';
import type { ApiClients } from './api-clients.ts';
import type { ClusterSettings } from './cluster-settings.ts';
import type { Compiling } from './compiling.ts';
import type { ControllerConsole } from './controller-console.ts';
import { type ControllerContext, hasEgress, type ProcessContext } from './controller-context.ts';
import type { ControllerMetrics } from './controller-metrics.ts';
import { controllerProbing } from './controller-probing.ts';
import type { OtherControllers } from './peers.ts';
import type { ReportDelivery } from './report-delivery.ts';

interface ControllerAgentsOptions {
  readonly context: ControllerContext;
  readonly process: Pick<ProcessContext, 'clock' | 'random'>;
  readonly api: Pick<ApiClients, 'reviews'>;
  readonly hub: Hub;
  readonly settings: Pick<ClusterSettings, 'frontProxy'>;
  readonly metrics: Pick<ControllerMetrics, 'registry'>;
  readonly nodeMetrics: Pick<NodeMetrics, 'page'>;
  readonly compiling: Pick<Compiling, 'snapshot' | 'ignoredAddresses'>;
  readonly heartbeats: HeartbeatProcess;
  readonly reports: NodeReports;
  readonly delivery: Pick<ReportDelivery, 'missing' | 'arrived'>;
  readonly peers: Pick<OtherControllers, 'probes' | 'states'>;
  readonly nodeQuestions: NodeQuestionService;
  readonly console: Pick<ControllerConsole, 'documents'>;
  /** The controllers' ServiceAccount. */
  readonly account: NamespacedName;
  readonly isLeader: () => boolean;
  /** Whether others than scrapers of the controller's own metrics are answered. */
  readonly isOpen: () => boolean;
  /** This controller's own state. */
  readonly own: () => Promise<ControllerState>;
  readonly onEvent: (event: ServerEvent) => void;
}

/** The server of a controller for agents and readers, wired to the parts that answer. */
export function controllerAgents(options: ControllerAgentsOptions): AgentService {
  const { context, process, hub, settings, compiling, delivery, peers, isLeader, account } = options;
  const { heartbeats } = options;
  const service: AgentService = new AgentService({
    hub,
    request: options.api.reviews.request,
    clock: process.clock,
    tokenAudiences: context.options.tokenAudiences,
    frontProxy: () => settings.frontProxy,
    registry: options.metrics.registry,
    nodeMetrics: options.nodeMetrics,
    isOpen: options.isOpen,
    refusesAgents: () => {
      const why = delivery.missing();
      return why === null ? null : failure('ServiceUnavailable', why, { 'retry-after': '1' });
    },
    ignoredAddresses: (node) => compiling.ignoredAddresses(node),
    reports: options.reports,
    ...(hasEgress(context) ? { leases: heartbeats, acceptor: heartbeats.acceptor } : {}),
    probes: controllerProbing({
      context,
      process,
      compiling,
      peers,
      isLeader,
      agents: () => service,
      account: account.name,
    }),
    nodeQuestions: options.nodeQuestions,
    console: options.console.documents,
    controllers: { own: options.own, others: () => peers.states() },
    account,
    onReport: (report, from) => delivery.arrived(report, from),
    onEvent: options.onEvent,
  });
  return service;
}
