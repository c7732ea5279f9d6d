import {
  EGRESS_DROP_REASONS,
  type EgressDropReason,
  type EgressPolicyName,
  type NodeEgress,
} from '../../../apis/egress/node-egress.ts';

/** Ids of what the counters of chains belong to (Chain.ruleId). */
const POLICY = 'egress-policy ';
const DROP = 'egress-drop ';

export function policyId(policy: EgressPolicyName): string {
  return POLICY + policyText(policy);
}

export function dropId(reason: EgressDropReason): string {
  return DROP + reason;
}

/** `EgressPolicy NAMESPACE/NAME`, with the API group if it is not ours. */
export function policyText({ kind, namespace, name, apiGroup }: EgressPolicyName): string {
  const path = namespace === '' ? name : `${namespace}/${name}`;
  return apiGroup === 'nodewall.io' ? `${kind} ${path}` : `${kind}.${apiGroup} ${path}`;
}

/** All ids of a node. */
export function egressIds({ outcomes }: NodeEgress): string[] {
  const policies = [...outcomes.values()].flatMap(({ policy }) => (policy === null ? [] : policyId(policy)));
  return [...policies, ...EGRESS_DROP_REASONS.map(dropId)];
}

/** The policy (policyText) or the drop reason of an id; null: it is of neither. */
export function egressCount(id: string): { readonly policy: string } | { readonly reason: string } | null {
  if (id.startsWith(POLICY)) return { policy: id.slice(POLICY.length) };
  return id.startsWith(DROP) ? { reason: id.slice(DROP.length) } : null;
}
