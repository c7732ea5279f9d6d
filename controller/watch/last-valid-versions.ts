import type { ClusterObjects } from '../../apis/objects.ts';
import { checkSchema } from '../../apis/schema/json-schema.ts';
import { identityOf } from '../../apis/validate/metadata.ts';
import { CLUSTER_NETWORK_POLICY_SCHEMA } from '../../apis/validate/policy.ts';
import { OBJECT_EXTENSION } from '../extension/objects.ts';

/**
 * The last valid versions of policies, groups, tiers and egress gateways that were in force, by
 * identity, with the file that each came from.
 */
export type LastValidVersions = ReadonlyMap<string, LastValidVersion>;

export interface LastValidVersion {
  readonly file: string;
  readonly object: ClusterObjects[Kept][number];
}

type Kept = 'tiers' | 'groups' | 'policies' | 'guardrails' | 'egressGateways' | 'egressPolicies';

export const NO_LAST_VALID: LastValidVersions = new Map();

/** Whether a file is one of these paths, or below one. */
export function isUnder(file: string, paths: readonly string[]): boolean {
  return paths.some((path) => file === path || file.startsWith(path.endsWith('/') ? path : `${path}/`));
}

/**
 * Saved by an agent, so that after a restart the last valid versions of an invalid file stay in
 * force.
 */
export interface LastValidJson {
  readonly version: 1;
  readonly remembered: readonly LastValidVersion[];
}

export function toLastValidJson(lastValidVersions: LastValidVersions): LastValidJson {
  return { version: 1, remembered: [...lastValidVersions.values()] };
}

/**
 * Empty if the value was not made by toLastValidJson. Without policies that a later version wrote:
 * without the fields that this one does not know, their rules might match more. Without egress
 * gateways where they are not read any more.
 */
export function fromLastValidJson(value: unknown, readsEgress: boolean): LastValidVersions {
  const { version, remembered } = (value ?? {}) as Partial<LastValidJson>;
  if (version !== 1 || !Array.isArray(remembered)) return NO_LAST_VALID;
  const known = (remembered as LastValidVersion[]).filter(
    ({ object }) => isKnown(object) && (readsEgress || !OBJECT_EXTENSION.kinds.includes(object.kind)),
  );
  return new Map(known.map((item) => [identityOf(item.object), item]));
}

function isKnown(object: LastValidVersion['object']): boolean {
  if (object.kind === 'EgressPolicy' || object.kind === 'ClusterEgressPolicy')
    return OBJECT_EXTENSION.isKnown(object);
  if (object.kind !== 'ClusterNetworkPolicy' || object.apiGroup !== 'nodewall.io') return true;
  const { kind, name, spec } = object;
  const raw = { apiVersion: 'nodewall.io/v1alpha1', kind, metadata: { name }, spec };
  return checkSchema(CLUSTER_NETWORK_POLICY_SCHEMA, raw).length === 0;
}
