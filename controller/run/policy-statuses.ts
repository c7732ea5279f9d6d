import type { Log } from '../../lib/process/log.ts';
import { messageOf } from '../kubeapi/connection.ts';
import type { KubeApi } from '../kubeapi/kube-api.ts';
import { FailureEvents } from '../status/failure-events.ts';
import { StatusKeeper } from '../status/keeper.ts';
import { type StatusWriter, statusWriter } from '../status/writer.ts';
import type { ProcessContext } from './controller-context.ts';
import type { ControllerMetrics } from './controller-metrics.ts';

export interface PolicyStatusesOptions extends Pick<ProcessContext, 'clock' | 'identity'> {
  readonly request: KubeApi;
  readonly metrics: Pick<ControllerMetrics, 'statusWritten' | 'statusFailed'>;
  readonly log: Log;
}

/** Writes the statuses of policies, and events on them, while this replica leads. */
export class PolicyStatuses {
  readonly keeper: StatusKeeper;
  readonly #writer: StatusWriter;

  constructor({ request, clock, identity, metrics, log }: PolicyStatusesOptions) {
    this.#writer = statusWriter(request, clock, {
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
    });
    const events = new FailureEvents({
      request,
      clock,
      identity,
      failed: (error) => void log.warn('cannot write an Event', { stage: 'status', error: messageOf(error) }),
    });
    this.keeper = new StatusKeeper({ writer: this.#writer, events, clock });
  }

  /** The number of queued statuses. */
  waiting(): number {
    return this.#writer.waiting();
  }
}
