import type { Log } from '../../lib/process/log.ts';
import { messageOf } from '../kubeapi/connection.ts';
import type { KubeApi } from '../kubeapi/kube-api.ts';
import type { EgressStatus } from '../status/egress/egress-status.ts';
import { EgressStatusKeeper } from '../status/egress/keeper.ts';
import { FailureEvents } from '../status/failure-events.ts';
import { StatusKeeper } from '../status/keeper.ts';
import {
  POLICY_TARGET,
  type StatusTarget,
  type StatusWriter,
  statusWriter,
  type WriterEvents,
} from '../status/writer.ts';
import type { ProcessContext } from './controller-context.ts';
import type { ControllerMetrics } from './controller-metrics.ts';

export interface PolicyStatusesOptions extends Pick<ProcessContext, 'clock' | 'identity'> {
  readonly request: KubeApi;
  readonly metrics: Pick<ControllerMetrics, 'statusWritten' | 'statusFailed'>;
  readonly log: Log;
}

/** Their names are their paths. */
const EGRESS_TARGET: StatusTarget<EgressStatus> = { path: (name) => name, toPatch: (status) => status };

/** Writes the statuses of policies, and events on them, while this replica leads. */
export class PolicyStatuses {
  readonly keeper: StatusKeeper;
  readonly egress: EgressStatusKeeper;
  readonly #writer: StatusWriter;
  readonly #egressWriter: StatusWriter<EgressStatus>;

  constructor({ request, clock, identity, metrics, log }: PolicyStatusesOptions) {
    const events: WriterEvents = {
      written: () => metrics.statusWritten(),
      failed(policy, error, retryIn) {
        metrics.statusFailed();
        log.warn('cannot write the status of a policy; trying again', {
          stage: 'status',
          policy,
          error: messageOf(error),
          retryIn,
        });
      },
    };
    this.#writer = statusWriter(request, clock, events, POLICY_TARGET);
    this.#egressWriter = statusWriter(request, clock, events, EGRESS_TARGET);
    const failures = new FailureEvents({
      request,
      clock,
      identity,
      failed: (error) => void log.warn('cannot write an Event', { stage: 'status', error: messageOf(error) }),
    });
    this.keeper = new StatusKeeper({ writer: this.#writer, events: failures, clock });
    this.egress = new EgressStatusKeeper({ writer: this.#egressWriter, clock });
  }

  /** If false, drops pending writes. */
  async lead(leads: boolean): Promise<void> {
    await Promise.all([this.keeper.lead(leads), this.egress.lead(leads)]);
  }

  /** The number of queued statuses. */
  waiting(): number {
    return this.#writer.waiting() + this.#egressWriter.waiting();
  }
}
