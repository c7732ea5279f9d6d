import type { FailsafeEntry } from '../config.ts';
import type { ApiGroup, ClusterNetworkPolicy, ClusterNetworkPolicySpec, Direction } from '../objects.ts';
import { asFields, asList, type FieldMap } from '../schema/json-schema.ts';
import { CLUSTER_NETWORK_POLICY_SCHEMA } from '../schema/policy.ts';
import { checkAppliedTo, checkAppliedToPlaces, podGroupsOf, toAppliedTo } from './applied-to.ts';
import { checkNodePeers } from './kubelet-labels.ts';
import { checkMetadata, toIdentity } from './metadata.ts';
import { checkOpenPeers } from './open-peers.ts';
import { type Findings, hasError, show } from './problem.ts';
import { checkPolicyRollout, toRollout } from './rollout.ts';
import { checkRule, toRule } from './rule.ts';
import { reportSchema } from './schema-problem.ts';
import { checkSsh } from './ssh.ts';

/** Notice for an Antrea policy that is not for Nodes. */
export const FOR_PODS_ONLY =
  'is applied to pods only; nodewall applies policies to Nodes only, so it is skipped';

/** The configuration on which warnings about the risks of a valid policy depend. */
export interface RiskOptions {
  readonly failsafe: readonly FailsafeEntry[];
  readonly believesAnyServer: boolean;
}

/** Null if the policy has an error, or is an Antrea policy for pods. */
export function validatePolicy(
  raw: FieldMap,
  apiGroup: ApiGroup,
  risks: RiskOptions | null,
  found: Findings,
): ClusterNetworkPolicy | null {
  if (apiGroup === 'crd.antrea.io' && podGroupsOf(raw.spec)?.length === 0) {
    found.notice([], FOR_PODS_ONLY);
    return null;
  }
  checkMetadata(raw, found);
  reportSchema(CLUSTER_NETWORK_POLICY_SCHEMA, raw, found);
  checkSpec(asFields(raw.spec) ?? {}, apiGroup, found);
  if (apiGroup === 'nodewall.io') checkPolicyRollout(raw, found);
  if (hasError(found.problems)) return null;
  // The checks above guarantee the type.
  const spec = toSpec(raw.spec as ClusterNetworkPolicySpec);
  if (risks !== null) {
    checkSsh(spec, risks.failsafe, found);
    checkOpenPeers(spec, risks.believesAnyServer, found);
    checkNodePeers(spec, found);
  }
  return { kind: 'ClusterNetworkPolicy', apiGroup, ...toIdentity(raw), ...retryOf(raw), spec };
}

/** Any value will do; of a long one, the first characters count. */
function retryOf(raw: FieldMap): { readonly retry?: string } {
  const value = asFields(asFields(raw.metadata)?.annotations)?.[RETRY_ANNOTATION];
  return typeof value === 'string' ? { retry: value.slice(0, LONGEST_RETRY) } : {};
}

/** With a new value, a version that was rolled back is tried again. */
export const RETRY_ANNOTATION = 'nodewall.io/retry';
const LONGEST_RETRY = 64;

function checkSpec(spec: FieldMap, apiGroup: ApiGroup, found: Findings): void {
  for (const field of ['mode', 'traffic', 'established', 'rollout']) {
    if (field in spec && apiGroup !== 'nodewall.io') {
      const message = `unknown field in ${apiGroup}; it belongs to nodewall.io/v1alpha1 policies`;
      found.error(['spec', field], message);
    }
  }
  if (spec.traffic === 'NodePort' && asList(spec.egress).length > 0) {
    const message =
      'must be left out: NodePort traffic is ingress, so a policy for it has ingress rules only';
    found.error(['spec', 'egress'], message);
  }
  checkAppliedTo(spec.appliedTo, ['spec', 'appliedTo'], found);
  checkAppliedToPlaces(spec, found);
  const isBaseline = typeof spec.tier === 'string' && spec.tier.toLowerCase() === 'baseline';
  const isAudit = spec.mode === 'Audit';
  const names = new Map<string, string>();
  for (const direction of ['ingress', 'egress'] as const) {
    for (const [index, rule] of asList(spec[direction]).entries()) {
      const path = ['spec', direction, index];
      checkRule(rule, path, { direction, apiGroup, isBaseline, isAudit }, found);
      checkRuleName(asFields(rule)?.name, { direction, index, names }, found);
    }
  }
}

function checkRuleName(
  name: unknown,
  rule: { readonly direction: Direction; readonly index: number; readonly names: Map<string, string> },
  found: Findings,
): void {
  if (typeof name !== 'string' || name === '') return;
  const place = `spec.${rule.direction}[${rule.index}]`;
  const first = rule.names.get(name);
  if (first === undefined) rule.names.set(name, place);
  else {
    const path = ['spec', rule.direction, rule.index, 'name'];
    found.error(path, `${show(name)} is already the name of ${first}; rule names must be unique in a policy`);
  }
}

/** Converts a spec that passed the checks to canonical form: without defaults and empty lists. */
function toSpec({
  tier,
  priority,
  appliedTo = [],
  ingress,
  egress,
  mode = 'Enforce',
  traffic = 'Host',
  established = 'Keep',
  rollout,
}: ClusterNetworkPolicySpec): ClusterNetworkPolicySpec {
  return {
    ...(tier === undefined || tier === '' ? {} : { tier }),
    priority,
    ...(appliedTo.length === 0 ? {} : { appliedTo: toAppliedTo(appliedTo) }),
    ...(ingress === undefined ? {} : { ingress: ingress.map(toRule) }),
    ...(egress === undefined ? {} : { egress: egress.map(toRule) }),
    ...(mode === 'Enforce' ? {} : { mode }),
    ...(traffic === 'Host' ? {} : { traffic }),
    ...(established === 'Keep' ? {} : { established }),
    ...(rollout === undefined ? {} : { rollout: toRollout(rollout) }),
  };
}
