import { isDeepStrictEqual } from 'node:util';
import type { ClusterNetworkPolicy, PolicyRollout, PolicyVersionSpec } from '../../../apis/objects.ts';
import type { RolloutStatus } from '../../../apis/rollout.ts';
import { asFields, type FieldMap } from '../../../apis/schema/json-schema.ts';
import { type ValidateOptions, validateObject } from '../../../apis/validate/object.ts';
import { fitsStatus } from '../../../apis/validate/rollout.ts';

/**
 * Adds to a policy that has a rollout what its status says of it. What changes with each report of
 * a node is left out: the policy would be compiled again.
 * @param version the resource version of the object
 */
export function rolloutReader(
  raw: FieldMap,
  version: number,
  options: ValidateOptions,
  before: PolicyRollout | undefined,
): (policy: ClusterNetworkPolicy) => ClusterNetworkPolicy {
  return (policy) => {
    const isOwn = policy.spec.rollout !== undefined;
    // By the configuration, a policy has one only if its versions can be stored.
    if (!isOwn && (options.rollout !== true || !fitsStatus(raw.spec))) return policy;
    const status = asFields(raw.status) ?? {};
    // The schema of the CustomResourceDefinition has checked it, and only controllers write it.
    const { decision = null, versions = [] } = (asFields(status.rollout) ?? {}) as RolloutStatus;
    const isSame = before !== undefined && isDeepStrictEqual(before.decision, decision);
    const rollout: PolicyRollout = {
      decision: isSame ? before.decision : decision,
      since: isSame ? before.since : version,
      versions: versions.flatMap(({ generation, spec }) => toVersion(raw, generation, spec, options) ?? []),
      isSeen: wasInForce(status),
    };
    return { ...policy, rollout };
  };
}

/** A policy that was never valid, or has waited from the beginning, was never in force. */
function wasInForce({ phase, problems, enforcedGeneration }: FieldMap): boolean {
  return phase !== undefined && (problems === undefined || enforcedGeneration !== undefined);
}

/** Null if the version is not valid any more. */
function toVersion(
  raw: FieldMap,
  generation: number,
  spec: string,
  options: ValidateOptions,
): PolicyVersionSpec | null {
  try {
    const { object } = validateObject({ ...raw, spec: JSON.parse(spec) }, options);
    return object?.kind === 'ClusterNetworkPolicy' ? { generation, spec: object.spec } : null;
  } catch {
    return null;
  }
}
