import { asFields } from '../../apis/schema/json-schema.ts';
import { followLease, type SeenLease } from '../kubeapi/lease/follow-lease.ts';
import { type Following, followObject } from '../watch/cluster/follow-object.ts';
import type { Reflector } from '../watch/cluster/reflector.ts';
import { type ControllerPod, followControllerPods, successors } from './controller-pods.ts';

export interface ReplicasOptions {
  readonly namespace: string;
  /** The name of the Lease, and of the controllers' ServiceAccount. */
  readonly name: string;
  /** This process's holder identity in the Lease. */
  readonly identity: string;
  /** Name of the pod that this process runs in; null: none. */
  readonly self: string | null;
  /** Returns monotonic milliseconds. */
  readonly now: () => number;
  /** Called after any change. */
  readonly changed: () => void;
  readonly leaseChanged: (lease: SeenLease | null) => void;
}

/**
 * A Lease without renewal for this time (milliseconds) counts as abandoned: a leader renews it
 * every 2 s.
 */
const ALIVE = 4_000;

/** The other replicas, the leader, and the namespace, as far as this controller knows them. */
export class Replicas {
  readonly #options: ReplicasOptions;
  #pods: readonly ControllerPod[] | null = null;
  #isNamespaceTerminating = false;
  #holder = '';
  #renewedAt = Number.NEGATIVE_INFINITY;

  constructor(options: ReplicasOptions) {
    this.#options = options;
  }

  follow(following: Following): Reflector[] {
    const { namespace, name, changed, leaseChanged, now } = this.#options;
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
        changed: (lease) => {
          this.#holder = lease?.holder ?? '';
          this.#renewedAt = now();
          leaseChanged(lease);
        },
      }),
    ];
  }

  get pods(): readonly ControllerPod[] {
    return this.#pods ?? [];
  }

  get self(): string | null {
    return this.#options.self;
  }

  get isNamespaceTerminating(): boolean {
    return this.#isNamespaceTerminating;
  }

  /** Whether another replica holds the Lease and renews it. */
  get isAnotherLeading(): boolean {
    const { identity, now } = this.#options;
    return this.#holder !== '' && this.#holder !== identity && now() - this.#renewedAt < ALIVE;
  }

  /** Whether no other controller continues when this one stops; false if that is not known. */
  get isLast(): boolean {
    return this.#pods !== null && successors(this.#pods, this.#options.self).length === 0;
  }
}
