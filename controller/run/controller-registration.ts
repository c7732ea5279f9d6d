import type { Clock } from '../../lib/process/clock.ts';
import type { Log } from '../../lib/process/log.ts';
import { Registration } from '../kubeapi/apiservice/registration.ts';
import { messageOf } from '../kubeapi/connection.ts';
import type { KubeApi } from '../kubeapi/kube-api.ts';
import type { Replicas } from '../replicas/replicas.ts';
import type { Credentials } from './credentials.ts';
import type { Lifecycle } from './lifecycle.ts';

interface ControllerRegistrationOptions {
  readonly log: Log;
  readonly clock: Pick<Clock, 'after'>;
  readonly request: KubeApi;
  readonly life: () => Lifecycle;
  readonly replicas: Pick<Replicas, 'isLast' | 'isNamespaceTerminating'>;
  readonly credentials: Pick<Credentials, 'caBundle'>;
}

/** The controller's APIService: there while it serves, and removed by the last replica. */
export function controllerRegistration(options: ControllerRegistrationOptions): Registration {
  const { log, clock, request, life, replicas, credentials } = options;
  return new Registration({
    request,
    after: clock.after,
    facts: () => ({
      isServing: life().isServing,
      isLast: life().isOver && !life().isAgain && replicas.isLast,
      isStopping: life().isEnding,
      isNamespaceTerminating: replicas.isNamespaceTerminating,
      caBundle: credentials.caBundle,
    }),
    done: (action) => void log.info('APIService changed', { stage: 'publish', action }),
    failed(error) {
      log.error('cannot write the APIService; trying again', { stage: 'publish', error: messageOf(error) });
    },
  });
}
