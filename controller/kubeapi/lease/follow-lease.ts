import { asFields } from '../../../apis/schema/json-schema.ts';
import { type Following, followObject } from '../../watch/cluster/follow-object.ts';
import type { Reflector } from '../../watch/cluster/reflector.ts';
import type { Annotations } from './lease.ts';

/** A Lease as other processes see it. */
export interface SeenLease {
  /** '' if it is not held. */
  readonly holder: string;
  /** Changes with each renewal. */
  readonly renewTime: string;
  readonly annotations: Annotations;
}

export interface FollowLeaseOptions extends Following {
  readonly namespace: string;
  readonly name: string;
  /** Called at first, and at each renewal; null if the Lease doesn't exist. */
  readonly changed: (lease: SeenLease | null) => void;
}

export function followLease(options: FollowLeaseOptions): Reflector {
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
