import {
  EGRESS_DROP_REASONS,
  type EgressDropReason,
  type EgressPolicyName,
  type NodeEgress,
} from '../../../apis/egress/node-egress.ts';
import { type Chain, type Match, type NftRule, plainChain, plainRule } from '../../render/ruleset.ts';

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

function dropId(reason: EgressDropReason): string {
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

type EgressCount = { readonly policy: string } | { readonly audited: string } | { readonly reason: string };

/** The policy (qualifiedPolicyText) or the drop reason of an id; null: it is of neither. */
export function egressCount(id: string): EgressCount | null {
  if (id.startsWith(POLICY)) return { policy: id.slice(POLICY.length) };
  if (id.startsWith(AUDIT)) return { audited: id.slice(AUDIT.length) };
  return id.startsWith(DROP) ? { reason: id.slice(DROP.length) } : null;
}

const PREFIX = 'egress-drop-';

/** The chain that drops packets for a reason, and counts them. */
export function dropChain(reason: EgressDropReason): string {
  return `${PREFIX}${reason}`;
}

/** Leads to the chain of a reason. `why`: more than the reason says. */
export function dropRule(
  reason: EgressDropReason,
  why: string | null,
  ...matches: readonly Match[]
): NftRule {
  return { ...plainRule({ kind: 'goto', chain: dropChain(reason) }, ...matches), comment: why };
}

export const NOT_SERVED = 'not a pod that this gateway serves';
export const INSIDE = 'the tunnel does not lead into the cluster';

/**
 * One for each reason. `no-family` stays until somebody changes the objects, so TCP gets a reset:
 * its clients need not wait. It is only used before routing, where the kernel can send one.
 */
export function dropChains(): Chain[] {
  return EGRESS_DROP_REASONS.map((reason) => {
    const drop: NftRule = { ...plainRule({ kind: 'drop' }), counter: true, comment: reason };
    const isTcp = { match: 'l4proto', protocols: ['tcp'] } as const;
    const reset: NftRule = {
      ...plainRule({ kind: 'reject', with: 'tcp reset' }, isTcp),
      counter: true,
      comment: reason,
    };
    const rules = reason === 'no-family' ? [reset, drop] : [drop];
    return { ...plainChain(dropChain(reason), rules), ruleId: dropId(reason) };
  });
}
