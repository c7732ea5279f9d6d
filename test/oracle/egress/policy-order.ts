import type { Address } from '../address.ts';
import { compareCodePoints } from '../order.ts';
import { selects } from '../selector.ts';
import type { EgressPod, Source } from './egress-cluster.ts';
import type { Policy, Selection } from './egress-objects.ts';
import { isInAny } from './pool.ts';

const STAGES = ['Override', 'Namespace', 'Default'];

/** The total order of docs/egress.md, as a comparator. */
export function comparePolicies(a: Policy, b: Policy): number {
  return (
    STAGES.indexOf(a.stage) - STAGES.indexOf(b.stage) ||
    a.priority - b.priority ||
    compareCodePoints(a.name, b.name) ||
    compareCodePoints(a.apiGroup, b.apiGroup) ||
    // No pod is in two namespaces: nothing depends on it.
    compareCodePoints(a.namespace ?? '', b.namespace ?? '')
  );
}

/** True where the policy is applied to the source and speaks of the destination. */
export function matches(policy: Policy, source: Source, destination: Address): boolean {
  const isTo = policy.to === undefined || isInAny(policy.to, destination);
  return isTo && !isInAny(policy.except, destination) && isAppliedTo(policy, source, destination.family);
}

/** Whether the policy is applied to the source, wherever it sends to. */
export function isAppliedTo(policy: Policy, source: Source, family: 4 | 6): boolean {
  return policy.appliedTo.some((selection) => isSelected(policy, selection, source, family));
}

function isSelected(policy: Policy, selection: Selection, source: Source, family: 4 | 6): boolean {
  if (source.kind === 'host') return false;
  const pod = source.kind === 'pod' ? source.pod : undefined;
  const { podSubnets } = selection;
  if (podSubnets !== undefined) {
    const addresses = source.kind === 'pod' ? source.pod.addresses : [source.address];
    if (!addresses.some((one) => one.family === family && isInAny(podSubnets, one))) return false;
  } else if (pod === undefined) return false;
  if (policy.namespace !== undefined && pod?.namespace !== policy.namespace) return false;
  return isSelectedPod(selection, pod);
}

function isSelectedPod({ podSelector, namespaceSelector }: Selection, pod: EgressPod | undefined): boolean {
  if (podSelector === undefined && namespaceSelector === undefined) return true;
  return (
    pod !== undefined &&
    selects(podSelector ?? {}, pod.labels) &&
    selects(namespaceSelector ?? {}, pod.namespaceLabels)
  );
}
