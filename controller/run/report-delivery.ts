import type { NodeReport } from '../../apis/node-report.ts';
import type { Compiling } from './compiling.ts';
import type { OtherControllers } from './peers.ts';

export interface ReportDeliveryOptions {
  readonly compiling: Pick<Compiling, 'useReports'>;
  readonly peers: Pick<OtherControllers, 'learn' | 'pass'>;
  /** Counts a report of an agent. */
  readonly reported: () => void;
}

/** Passes reports of agents on to the other controllers, and has theirs at the start. */
export class ReportDelivery {
  readonly #options: ReportDeliveryOptions;
  #isComplete = false;

  constructor(options: ReportDeliveryOptions) {
    this.#options = options;
  }

  /** Null, or the reason why agents can't be served yet. */
  missing(): string | null {
    return this.#isComplete ? null : 'the reports that other controllers have are not here yet';
  }

  /** Asks the other controllers for the reports that they have. */
  learn(): void {
    const { peers, compiling } = this.#options;
    void peers.learn().then(async () => {
      // Agents are served only with the reported addresses in force.
      await compiling.useReports();
      this.#isComplete = true;
    });
  }

  /** One has come, and is in the view already. */
  arrived(report: NodeReport, from: 'agent' | 'controller'): void {
    if (from === 'controller') return;
    this.#options.reported();
    this.#options.peers.pass(report);
  }
}
