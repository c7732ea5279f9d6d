import type { LeaderElectionTimes } from '../../apis/config.ts';
import type { Log } from '../../lib/process/log.ts';
import { messageOf } from '../kubeapi/connection.ts';
import type { KubeApi } from '../kubeapi/kube-api.ts';
import { Election } from '../kubeapi/lease/election.ts';
import { type Annotations, leaseStore } from '../kubeapi/lease/lease.ts';
import type { ProcessContext } from './controller-context.ts';

export interface ControllerElectionOptions extends ProcessContext {
  readonly request: KubeApi;
  /** The namespace of the Lease. */
  readonly namespace: string;
  readonly name: string;
  readonly annotations: () => Annotations;
  readonly log: Log;
  readonly times: LeaderElectionTimes;
  /** Called when this replica begins or stops to lead. */
  readonly changed: () => void;
}

/** The leader election, with its log lines. */
export function controllerElection(parts: ControllerElectionOptions): Election {
  const { request, namespace, name, annotations, identity, clock, random, log, changed } = parts;
  const { leaseDuration, renewDeadline, retryPeriod } = parts.times;
  /** The failure that was said last: each attempt after it fails in the same way. */
  let said = '';
  return new Election({
    store: leaseStore({ request, namespace, name, annotations }),
    identity,
    clock,
    random,
    times: {
      duration: leaseDuration * 1000,
      renewDeadline: renewDeadline * 1000,
      retry: retryPeriod * 1000,
    },
    events: {
      leading() {
        said = '';
        log.info('elected leader', { identity });
        changed();
      },
      lost(reason) {
        log.warn('no longer leader; watching on as standby', { identity, reason });
        changed();
      },
      leader(now) {
        said = '';
        if (now !== identity)
          log.info(now === '' ? 'no replica leads' : 'another replica leads', { leader: now });
      },
      failed: (error) => {
        const why = messageOf(error);
        log.log(said === why ? 'debug' : 'warn', 'cannot read or write the Lease; trying again', {
          error: why,
        });
        said = why;
      },
    },
  });
}
