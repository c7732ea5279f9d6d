import type { ClusterNetworkPolicy } from '../../apis/objects.ts';
import { asFields, type FieldMap } from '../../apis/schema/json-schema.ts';
import { ruleNames } from '../compile/rule-name.ts';
import type { AdmissionPatch } from './review.ts';

/**
 * Adds the defaults that a valid policy leaves out: the tier, and the rule names that compile would
 * make. The names are the same, so the policy has the same meaning with them as without.
 */
export function defaultsOf(raw: FieldMap, policy: ClusterNetworkPolicy): AdmissionPatch[] {
  const patch: AdmissionPatch[] = [];
  const spec = asFields(raw.spec);
  if (spec?.tier === undefined || spec.tier === '') {
    patch.push({ op: 'add', path: '/spec/tier', value: 'application' });
  }
  const names = ruleNames(policy.spec);
  for (const direction of ['ingress', 'egress'] as const) {
    for (const [index, { name }] of (policy.spec[direction] ?? []).entries()) {
      const value = names[direction][index] ?? '';
      if (name === undefined) patch.push({ op: 'add', path: `/spec/${direction}/${index}/name`, value });
    }
  }
  return patch;
}
