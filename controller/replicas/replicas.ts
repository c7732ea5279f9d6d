import { asFields } from '../../apis/schema/json-schema.ts';
import { followLease, type SeenLease } from '../kubeapi/lease/follow-lease.ts';
import { type Following, followObject } from '../watch/cluster/follow-object.ts';
import type { Reflector } from '../watch/cluster/reflector.ts';
import { type ControllerPod, followControllerPods, successors } from './controller-pods.ts';

export interface ReplicasOptions {
  readonly namespace: string;
  /** The name of the Lease, and of the controllers' ServiceAccount. */
  readonly name: string;
  /** Name of the pod that this process runs in; null: none. */
  readonly self: string | null;
  /** Called after any change. */
  readonly changed: () => void;
  readonly leaseChanged: (lease: SeenLease | null) => void;
}

/** The other replicas and the namespace, as far as this controller knows them. */
export class Replicas {
  readonly #options: ReplicasOptions;
  #pods: readonly ControllerPod[] | null = null;
  #isNamespaceTerminating = false;

  constructor(options: ReplicasOptions) {
    this.#options = options;
  }

  follow(following: Following): Reflector[] {
    const { namespace, name, changed, leaseChanged } = this.#options;
    return [
      followControllerPods({
        ...following,
        namespace,
        serviceAccount: name,
        changed: (pods) => {
          this.#pods = pods;
          changed();
        },
      }),
      followObject({
        ...following,
        apiVersion: 'v1',
        kind: 'Namespace',
        plural: 'namespaces',
        name: namespace,
        read: ({ metadata }) => asFields(metadata)?.deletionTimestamp !== undefined,
        changed: (isTerminating) => {
          this.#isNamespaceTerminating = isTerminating ?? true;
          changed();
        },
      }),
      followLease({
        ...following,
        namespace,
        name,
        changed: leaseChanged,
      }),
    ];
  }

  get pods(): readonly ControllerPod[] {
    return this.#pods ?? [];
  }

  /**
   * The addresses of the other controllers that run, one each; null: not known yet. None if this
   * process doesn't run in a pod.
   */
  get otherAddresses(): readonly string[] | null {
    const { self } = this.#options;
    if (self === null) return [];
    if (this.#pods === null) return null;
    const others = this.#pods.filter(({ name, isRunning }) => name !== self && isRunning);
    return others.flatMap(({ addresses }) => addresses.slice(0, 1));
  }

  get self(): string | null {
    return this.#options.self;
  }

  get isNamespaceTerminating(): boolean {
    return this.#isNamespaceTerminating;
  }

  /** Whether no other controller continues when this one stops; false if that is not known. */
  get isLast(): boolean {
    return this.#pods !== null && successors(this.#pods, this.#options.self).length === 0;
  }
}
