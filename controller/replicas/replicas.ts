import { asFields, asList, type FieldMap } from '../../apis/schema/json-schema.ts';
import type { Clock } from '../../lib/process/clock.ts';
import type { Annotations } from '../kubeapi/lease/lease.ts';
import { type Following, followObject } from '../watch/cluster/follow-object.ts';
import { type Reflector, reflector } from '../watch/cluster/reflector.ts';
import type { Resource } from '../watch/cluster/resources.ts';

interface ReplicasOptions {
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

interface ControllerPodsOptions extends Following {
  readonly namespace: string;
  readonly serviceAccount: string;
  /** Called with all pods, at first and after every change. */
  readonly changed: (pods: readonly ControllerPod[]) => void;
}

function followControllerPods(options: ControllerPodsOptions): Reflector {
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

function toControllerPod(raw: FieldMap): ControllerPod {
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
function successors(pods: readonly ControllerPod[], self: string | null): ControllerPod[] {
  return pods.filter(
    ({ name, isRunning, isTerminating, addresses }) =>
      name !== self && isRunning && !isTerminating && addresses.length > 0,
  );
}

/** A Lease as other processes see it. */
interface SeenLease {
  /** '' if it is not held. */
  readonly holder: string;
  /** Changes with each renewal. */
  readonly renewTime: string;
  readonly annotations: Annotations;
}

interface FollowLeaseOptions extends Following {
  readonly namespace: string;
  readonly name: string;
  /** Called at first, and at each renewal; null if the Lease doesn't exist. */
  readonly changed: (lease: SeenLease | null) => void;
}

function followLease(options: FollowLeaseOptions): Reflector {
  return followObject({
    ...options,
    apiVersion: 'coordination.k8s.io/v1',
    kind: 'Lease',
    plural: 'leases',
    read({ metadata, spec }) {
      const { holderIdentity, renewTime } = asFields(spec) ?? {};
      const annotations = (asFields(metadata)?.annotations ?? {}) as Annotations;
      return {
        holder: typeof holderIdentity === 'string' ? holderIdentity : '',
        renewTime: typeof renewTime === 'string' ? renewTime : '',
        annotations,
      };
    },
  });
}

/** The facts when a controller has been asked to stop. */
export interface HandoverFacts {
  /** Name of its own pod; null: it doesn't run in a pod, and has no successor. */
  readonly self: string | null;
  readonly pods: readonly ControllerPod[];
  /** Whether nodewall's own namespace is being deleted: there will be no successor. */
  readonly isNamespaceTerminating: boolean;
  /** The number of agents that it serves. */
  readonly agents: number;
  /** Whether these addresses of a pod have been published to agents. */
  readonly isPublished: (pod: ControllerPod) => boolean;
  /** Bytes that agents have not received yet. */
  readonly unsentBytes: number;
  /** Milliseconds since it was asked to stop. */
  readonly waited: number;
}

type Handover = { readonly next: 'serve' | 'end'; readonly why: string };

/**
 * The time that kube-proxies and API servers may need to send new connections elsewhere
 * (milliseconds).
 */
export const LEAST_SERVING = 3_000;
/** Milliseconds; well below terminationGracePeriodSeconds in deploy/. */
export const LONGEST_SERVING = 20_000;

/**
 * Whether to keep serving. An agent on a node with closed egress reaches the next controller only
 * if it has its address, which only the controller that serves it can send: so that serves until
 * it is sent.
 */
export function handover(facts: HandoverFacts): Handover {
  const { self, pods, isNamespaceTerminating, agents, isPublished, unsentBytes, waited } = facts;
  if (self === null) return end('it does not run in a pod');
  if (isNamespaceTerminating) return end('its namespace is being deleted');
  if (waited >= LONGEST_SERVING) return end(`no successor was published within ${LONGEST_SERVING / 1000} s`);
  if (waited < LEAST_SERVING) return serve('callers may not know yet that it stops');
  if (agents === 0) return end('it serves no agents');
  const published = successors(pods, self).filter((pod) => pod.isOnHostNetwork || isPublished(pod));
  if (published.length === 0) return serve('agents do not know the address of a successor');
  if (unsentBytes > 0) return serve('agents have not received everything yet');
  return end('agents know a successor');
}

function serve(why: string): Handover {
  return { next: 'serve', why };
}

function end(why: string): Handover {
  return { next: 'end', why };
}

/** Interval between checks whether it may end (milliseconds); changes are checked sooner. */
const LOOK = 250;

interface HandOverOptions {
  readonly clock: Pick<Clock, 'now'>;
  readonly facts: () => Omit<HandoverFacts, 'waited'>;
  /** Resolves when the facts may have changed, at the latest after this time (milliseconds). */
  readonly changed: (milliseconds: number) => Promise<void>;
  readonly isOver: () => boolean;
}

/**
 * Waits until other replicas can continue without this one. Resolves with the reason; null:
 * `isOver` came first.
 */
export async function handOver({ clock, facts, changed, isOver }: HandOverOptions): Promise<string | null> {
  const started = clock.now();
  while (!isOver()) {
    const { next, why } = handover({ ...facts(), waited: clock.now() - started });
    if (next === 'end') return why;
    await changed(LOOK);
  }
  return null;
}
