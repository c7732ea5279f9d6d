import type { KubeApi } from '../kube-api.ts';

/** The fields of a coordination.k8s.io/v1 Lease that leader election uses. */
export interface Lease {
  readonly apiVersion: 'coordination.k8s.io/v1';
  readonly kind: 'Lease';
  readonly metadata: LeaseMetadata;
  readonly spec?: LeaseSpec;
}

interface LeaseMetadata {
  readonly name: string;
  readonly namespace: string;
  readonly resourceVersion?: string;
  readonly annotations?: Annotations;
}

export type Annotations = Readonly<Record<string, string>>;

export interface LeaseSpec {
  /** Absent or '' if it is not held. */
  readonly holderIdentity?: string;
  readonly leaseDurationSeconds?: number;
  /**
   * When the holder acquired it, and when it last renewed it (RFC 3339 with microseconds), by its
   * own clock; informational.
   */
  readonly acquireTime?: string;
  readonly renewTime?: string;
  readonly leaseTransitions?: number;
}

/** Reads and writes one Lease; errors are `KubeError`s. Time limits are in milliseconds. */
export interface LeaseStore {
  read(timeout: number): Promise<Lease>;
  create(spec: LeaseSpec, timeout: number): Promise<Lease>;
  /** Replaces `held`, which must be the current version; throws a Conflict otherwise. */
  replace(held: Lease, spec: LeaseSpec, timeout: number): Promise<Lease>;
}

interface LeaseStoreOptions {
  readonly request: KubeApi;
  readonly namespace: string;
  readonly name: string;
  /** Written with each change of the Lease; its other annotations stay. */
  readonly annotations: () => Annotations;
}

export function leaseStore({ request, namespace, name, annotations }: LeaseStoreOptions): LeaseStore {
  const collection = `/apis/coordination.k8s.io/v1/namespaces/${namespace}/leases`;
  const path = `${collection}/${name}`;
  const kind = { apiVersion: 'coordination.k8s.io/v1', kind: 'Lease' } as const;
  return {
    read: (timeout) => request({ method: 'GET', path, timeout }),
    create(spec, timeout) {
      const body: Lease = { ...kind, metadata: { name, namespace, annotations: annotations() }, spec };
      return request({ method: 'POST', path: collection, body, timeout });
    },
    replace(held, spec, timeout) {
      const metadata = { ...held.metadata, annotations: { ...held.metadata.annotations, ...annotations() } };
      const body: Lease = { ...held, ...kind, metadata, spec };
      return request({ method: 'PUT', path, body, timeout });
    },
  };
}
