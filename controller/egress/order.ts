import { EGRESS_STAGES, type EgressPolicy } from '../../apis/egress/objects.ts';
import type { Pod } from '../../apis/objects.ts';
import { compareText } from '../../lib/sharing/lists.ts';

/**
 * The total order of policies (docs/egress.md): stage, priority, name. Policies that are equal so
 * far are of different namespaces and never select one pod; the namespace makes the order total.
 */
export function compareEgressPolicies(a: EgressPolicy, b: EgressPolicy): number {
  return (
    EGRESS_STAGES.indexOf(a.spec.stage) - EGRESS_STAGES.indexOf(b.spec.stage) ||
    a.spec.priority - b.spec.priority ||
    compareText(a.name, b.name) ||
    compareText(a.namespace, b.namespace)
  );
}

/** `namespace/name` of an EgressPolicy, the name of a ClusterEgressPolicy. */
export function egressPolicyText({ namespace, name }: Pick<EgressPolicy, 'namespace' | 'name'>): string {
  return namespace === '' ? name : `${namespace}/${name}`;
}

export function comparePods(a: Pod, b: Pod): number {
  return compareText(a.namespace, b.namespace) || compareText(a.name, b.name);
}
