import { isDeepStrictEqual } from 'node:util';
import type {
  ClusterNetworkPolicy,
  ClusterObject,
  PolicyRollout,
  PolicyVersionSpec,
} from '../../../apis/objects.ts';
import type { RolloutStatus } from '../../../apis/rollout.ts';
import { asFields, type FieldMap } from '../../../apis/schema/json-schema.ts';
import { claimedIdentity } from '../../../apis/validate/metadata.ts';
import { type ValidateOptions, validateObject } from '../../../apis/validate/object.ts';
import { formatPath, hasError } from '../../../apis/validate/problem.ts';
import { fitsStatus } from '../../../apis/validate/rollout.ts';
import { type Interned, internObject } from '../content.ts';
import { sameValue } from '../keep-objects.ts';
import type { LoadProblem } from '../source.ts';
import type { Narrow } from './object-store.ts';

/**
 * The stored form of a Node, Namespace, Pod, Service or EndpointSlice: the object itself if it has
 * no problems.
 */
export type StoredObject = ClusterObject | FlawedObject;

interface FlawedObject {
  readonly kind: 'Flawed';
  /**
   * The last valid version if the current one is invalid; null if there is none, or if nodewall
   * doesn't use the object.
   */
  readonly object: ClusterObject | null;
  readonly problems: readonly LoadProblem[];
}

/**
 * The most interned labels and strings. Beyond it the map is cleared, so that those of deleted
 * objects are released too.
 */
const MOST_INTERNED = 200_000;

export function narrowing(options: ValidateOptions): Narrow<StoredObject> {
  const interned: Interned = new Map();
  return ({ raw }, before) => {
    if (interned.size > MOST_INTERNED) interned.clear();
    const validated = validateObject(raw, options);
    const earlier = objectOf(before);
    const isRejected = validated.object === null && hasError(validated.problems);
    const found = validated.object === null ? null : internObject(validated.object, interned);
    const isSame = isRejected || (found !== null && sameValue(found, earlier));
    const object = isSame ? earlier : found;
    if (validated.problems.length === 0) return object;
    const { kind, name } = claimedIdentity(raw);
    const problems = validated.problems.map(({ severity, path, message }): LoadProblem => {
      return { severity, file: '', line: 0, kind, name, path: formatPath(path), message };
    });
    const same =
      before?.kind === 'Flawed' && before.object === object && sameValue(before.problems, problems);
    return same ? before : { kind: 'Flawed', object, problems };
  };
}

export function objectOf(stored: StoredObject | null): ClusterObject | null {
  return stored?.kind === 'Flawed' ? stored.object : stored;
}

export function problemsOf(stored: StoredObject | null): readonly LoadProblem[] {
  return stored?.kind === 'Flawed' ? stored.problems : NO_PROBLEMS;
}

const NO_PROBLEMS: readonly LoadProblem[] = [];

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
