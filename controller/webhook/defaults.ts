import type { ClusterNetworkPolicy } from '../../apis/objects.ts';
import { asFields, type FieldMap } from '../../apis/schema/json-schema.ts';
import { ruleNames } from '../compile/rule-name.ts';
import type { PatchOperation } from './review.ts';

/**
 * What a valid policy leaves unsaid, written out: the tier, and the names that compile would give
 * its rules. They are the same names, so a policy says the same with them as without.
 */
export function defaultsOf(raw: FieldMap, policy: ClusterNetworkPolicy): PatchOperation[] {
  const patch: PatchOperation[] = [];
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
