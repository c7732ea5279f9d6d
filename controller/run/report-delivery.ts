import type { NodeReport } from '../../apis/stream.ts';
import type { NodeMetrics } from '../metrics/node-metrics.ts';
import { type AgedReport, NodeReports } from '../publish/node-reports.ts';
import type { Compiling } from './compiling.ts';
import type { ControllerConsole } from './controller-console.ts';
import type { ControllerMetrics } from './controller-metrics.ts';
import type { Peers } from './peers.ts';
import type { PolicyStatuses } from './policy-statuses.ts';

export interface ReportDeliveryOptions {
  /** Returns monotonic milliseconds. */
  readonly now: () => number;
  readonly compiling: Pick<Compiling, 'receiveReport' | 'useReports'>;
  readonly statuses: Pick<PolicyStatuses, 'keeper' | 'rollouts' | 'reportEgress' | 'nodeEvents'>;
  readonly hasEgress: boolean;
  readonly metrics: Pick<ControllerMetrics, 'reported'>;
  readonly nodeMetrics: Pick<NodeMetrics, 'receive'>;
  readonly console: () => Pick<ControllerConsole, 'receive'>;
  readonly peers: () => Pick<Peers, 'learn' | 'pass'>;
}

/** Brings each node's report to the parts of the controller that need it, and to the others. */
export class ReportDelivery {
  readonly #options: ReportDeliveryOptions;
  /** The last report of each node. */
  readonly reports: NodeReports;
  #isComplete = false;

  constructor(options: ReportDeliveryOptions) {
    this.#options = options;
    const { now, nodeMetrics, statuses } = options;
    this.reports = new NodeReports(now, (report, before) => {
      nodeMetrics.receive(report, before);
      statuses.nodeEvents.receive(report, before);
      options.console().receive(report, before);
    });
  }

  /** Null, or the reason why agents can't be served yet. */
  missing(): string | null {
    return this.#isComplete ? null : 'the reports that other controllers have are not here yet';
  }

  /** Asks the other controllers for the reports that they have. */
  learn(): void {
    const { peers, compiling } = this.#options;
    void peers()
      .learn()
      .then(async () => {
        // Agents are served only with the reported addresses in force.
        await compiling.useReports();
        this.#isComplete = true;
      });
  }

  /** Takes those that another controller had, at the start; of each node the newest counts. */
  learned(reports: readonly AgedReport[]): void {
    for (const one of reports) if (this.reports.receive(one)) this.#deliver(one.report);
  }

  /** Takes one that just came, and is in `reports` already. */
  arrived(report: NodeReport, from: 'agent' | 'controller'): void {
    if (from === 'agent') {
      this.#options.metrics.reported();
      this.#options.peers().pass(report);
    }
    this.#deliver(report);
  }

  #deliver(report: NodeReport): void {
    const { statuses, compiling, hasEgress } = this.#options;
    statuses.keeper.report(report);
    statuses.rollouts.reported();
    if (hasEgress) statuses.reportEgress(report);
    compiling.receiveReport(report);
  }
}
