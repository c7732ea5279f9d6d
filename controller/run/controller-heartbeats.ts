import type { NamespacedName } from '../../apis/objects.ts';
import { CommandError, EXIT } from '../../lib/process/exit.ts';
import type { Taken } from '../extension/lease-extension.ts';
import { HeartbeatProcess, type HeartbeatProcessOptions } from '../heartbeat/heartbeat-process.ts';
import type { OwnToken } from '../kubeapi/own-token.ts';
import type { ControllerContext } from './controller-context.ts';

export interface ControllerHeartbeatsOptions extends Pick<HeartbeatProcessOptions, 'annotations' | 'peers'> {
  readonly context: Pick<ControllerContext, 'kubeConfig' | 'options' | 'config' | 'log'>;
  readonly identity: string;
  /** The Lease, and the controllers' ServiceAccount. */
  readonly service: NamespacedName;
  /** Called when this replica begins or stops to lead. */
  readonly changed: () => void;
  readonly token: Pick<OwnToken, 'answered'>;
  readonly heartbeatAnswered: (heartbeatAnswered: Taken) => void;
  /** Called when the controller can't go on. */
  readonly failed: (error: CommandError) => void;
}

/** The process of the Lease and of heartbeats, with the log lines of the leader election. */
export function controllerHeartbeats(parts: ControllerHeartbeatsOptions): HeartbeatProcess {
  const { context, annotations, peers, identity, service, changed } = parts;
  const { kubeConfig, options, config, log } = context;
  const { leaseDuration, renewDeadline, retryPeriod } = config.leaderElection;
  const cluster = kubeConfig.getCurrentCluster();
  if (cluster === null) throw new Error('the kubeconfig has no current context with a cluster');
  /** The failure that was said last: each attempt after it fails in the same way. */
  let said = '';
  return new HeartbeatProcess({
    annotations,
    peers,
    data: {
      identity,
      service,
      cluster,
      user: kubeConfig.getCurrentUser() ?? { name: '' },
      times: {
        duration: leaseDuration * 1000,
        renewDeadline: renewDeadline * 1000,
        retry: retryPeriod * 1000,
      },
      audiences: options.tokenAudiences.split(',').filter((audience) => audience !== ''),
    },
    events: {
      answered: (status) => parts.token.answered(status),
      heartbeatAnswered: parts.heartbeatAnswered,
      ended: ({ message }) =>
        parts.failed(new CommandError(EXIT.refused, `${message}; the controller ends with it`)),
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
      failed(error) {
        log.log(said === error ? 'debug' : 'warn', 'cannot read or write the Lease; trying again', {
          error,
        });
        said = error;
      },
    },
  });
}
