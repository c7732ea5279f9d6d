import {
  EGRESS_DROP_REASONS,
  type EgressDropReason,
  type EgressPolicyName,
  type NodeEgress,
} from '../../../apis/egress/node-egress.ts';

/** Ids of what the counters of chains belong to (Chain.ruleId). */
const POLICY = 'egress-policy ';
const AUDIT = 'egress-audit ';
const DROP = 'egress-drop ';

export function policyId(policy: EgressPolicyName): string {
  return POLICY + qualifiedPolicyText(policy);
}

/** The id of a policy in mode Audit. */
export function auditId(policy: EgressPolicyName): string {
  return AUDIT + qualifiedPolicyText(policy);
}

export function dropId(reason: EgressDropReason): string {
  return DROP + reason;
}

/** `EgressPolicy NAMESPACE/NAME`, with the API group if it is not ours. */
export function qualifiedPolicyText({ kind, namespace, name, apiGroup }: EgressPolicyName): string {
  const path = namespace === '' ? name : `${namespace}/${name}`;
  return apiGroup === 'nodewall.io' ? `${kind} ${path}` : `${kind}.${apiGroup} ${path}`;
}

/** All ids of a node. */
export function egressIds({ outcomes }: NodeEgress): string[] {
  const policies = [...outcomes.values()].flatMap(({ policy, audited }) => [
    ...(policy === null ? [] : [policyId(policy)]),
    ...audited.map(auditId),
  ]);
  return [...policies, ...EGRESS_DROP_REASONS.map(dropId)];
}

export type EgressCount =
  | { readonly policy: string }
  | { readonly audited: string }
  | { readonly reason: string };

/** The policy (qualifiedPolicyText) or the drop reason of an id; null: it is of neither. */
export function egressCount(id: string): EgressCount | null {
  if (id.startsWith(POLICY)) return { policy: id.slice(POLICY.length) };
  if (id.startsWith(AUDIT)) return { audited: id.slice(AUDIT.length) };
  return id.startsWith(DROP) ? { reason: id.slice(DROP.length) } : null;
}
