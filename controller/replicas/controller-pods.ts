import { asFields, asList, type FieldMap } from '../../apis/schema/json-schema.ts';
import type { Following } from '../watch/cluster/follow-object.ts';
import { type Reflector, reflector } from '../watch/cluster/reflector.ts';
import type { Resource } from '../watch/cluster/resources.ts';

/** A pod of a controller, only the fields that other replicas use. */
export interface ControllerPod {
  readonly name: string;
  readonly isRunning: boolean;
  /** It is being deleted. */
  readonly isTerminating: boolean;
  /** Its addresses are those of its Node. */
  readonly isOnHostNetwork: boolean;
  readonly addresses: readonly string[];
}

export interface ControllerPodsOptions extends Following {
  readonly namespace: string;
  readonly serviceAccount: string;
  /** Called with all pods, at first and after every change. */
  readonly changed: (pods: readonly ControllerPod[]) => void;
}

export function followControllerPods(options: ControllerPodsOptions): Reflector {
  const { namespace, serviceAccount, changed, ...following } = options;
  const pods = new Map<string, ControllerPod>();
  const resource = {
    name: `pods/${namespace}/${serviceAccount}`,
    kind: 'Pod',
    apiVersion: 'v1',
    plural: `namespaces/${namespace}/pods`,
    isCustom: false,
    fieldSelector: `spec.serviceAccountName=${serviceAccount}`,
  } as const satisfies Resource;
  return reflector<ControllerPod>({
    ...following,
    resource,
    narrow: ({ raw }) => toControllerPod(raw),
    changed(changes) {
      for (const { key, now } of changes) {
        if (now === null) pods.delete(key);
        else pods.set(key, now);
      }
      changed([...pods.values()]);
    },
  });
}

export function toControllerPod(raw: FieldMap): ControllerPod {
  const { name, deletionTimestamp } = asFields(raw.metadata) ?? {};
  const { phase, podIPs } = asFields(raw.status) ?? {};
  const addresses = asList(podIPs).map((item) => asFields(item)?.ip);
  return {
    name: String(name),
    isRunning: phase === 'Running',
    isTerminating: deletionTimestamp !== undefined,
    isOnHostNetwork: asFields(raw.spec)?.hostNetwork === true,
    addresses: addresses.filter((address) => typeof address === 'string'),
  };
}

/**
 * The pods that continue when the pod named `self` stops; null: this process doesn't run in a pod.
 */
export function successors(pods: readonly ControllerPod[], self: string | null): ControllerPod[] {
  return pods.filter(
    ({ name, isRunning, isTerminating, addresses }) =>
      name !== self && isRunning && !isTerminating && addresses.length > 0,
  );
}
