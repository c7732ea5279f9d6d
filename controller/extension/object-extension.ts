import type { Config } from '../../apis/config.ts';
import type { ClusterObject, ClusterObjects, Pod } from '../../apis/objects.ts';
import type { CrossProblem } from '../../apis/validate/problem.ts';
import type { ListChange } from '../../lib/sharing/lists.ts';
import type { Admission, AdmissionRequest } from '../webhook/review.ts';

type Gateway = ClusterObjects['egressGateways'][number];
type Policy = ClusterObjects['egressPolicies'][number];

/** The objects of an extension among the others, in stage 1 and before it. */
export interface ObjectExtension {
  /**
   * The problems of its objects that others cause; none of them takes an object out of force.
   * @param invalid identities of gateways that exist and were rejected
   */
  problems(
    objects: ClusterObjects,
    config: Config['egress'],
    invalid: ReadonlySet<string>,
  ): readonly CrossProblem<Gateway | Policy>[];
  /** Whether two states differ at most in what `problems` does not read. */
  isSameForProblems(before: Checked, now: Checked): boolean;
  /** Policies that are too many for their namespace; those of the first list come first. */
  beyondLimits(
    lists: readonly (readonly Policy[])[],
    limits: Config['egress']['namespaceLimits'],
  ): readonly CrossProblem<Policy>[];
  /** For one process that answers the API server. */
  admission(): AdmissionExtension;
  /** For one process that sends the objects to such a one. */
  outsidePods(): PodFilter;
}

type Checked = Pick<ClusterObjects, 'egressGateways' | 'egressPolicies'>;

/** Admits the objects of an extension; keeps indexes of the others. */
export interface AdmissionExtension {
  /** A valid object that is created or changed. Null: it is none of the extension's. */
  change(valid: ClusterObject, world: ExtensionWorld): Admission | null;
  deletion(identity: string, world: ExtensionWorld): Admission;
  /** Asks for the right that an object needs besides. */
  right(valid: ClusterObject, request: AdmissionRequest, world: ExtensionWorld): Admission;
}

/** The part of the world that answers depend on; `egress` absent: the feature gate is off. */
export interface ExtensionWorld {
  readonly objects: (ExtensionObjects & Pick<ClusterObjects, 'nodes' | 'pods' | 'services'>) | null;
  readonly egress?: Config['egress'];
}

/** Objects that the checks of an extension read besides. */
export type ExtensionObjects = Pick<
  ClusterObjects,
  'egressGateways' | 'egressPolicies' | 'insideNetworks' | 'namespaces'
> & {
  /**
   * In the process that checks bodies: those outside of the networks of pods; absent: all are in
   * `pods`.
   */
  readonly outsidePods?: readonly AddressedPod[];
};

/** The part of a pod that checks read. */
export type AddressedPod = Pick<Pod, 'kind' | 'namespace' | 'name' | 'addresses'>;

/** The few pods that checks read, of the states of all objects one after another. */
export interface PodFilter {
  advance(objects: Pick<ClusterObjects, 'nodes' | 'pods' | 'insideNetworks'>): ListChange<AddressedPod>;
}
