import type { ClusterGroup, ClusterNetworkPolicy, Tier } from '../../apis/objects.ts';
import { identityOf } from '../../apis/validate/identity.ts';

/**
 * The last valid versions of policies, groups and tiers that were in force, by identity, with the
 * file that each came from.
 */
export type LastValidVersions = ReadonlyMap<string, LastValidVersion>;

export interface LastValidVersion {
  readonly file: string;
  readonly object: Tier | ClusterGroup | ClusterNetworkPolicy;
}

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

/** Empty if the value was not made by toMemoryJson. */
export function fromLastValidJson(value: unknown): LastValidVersions {
  const { version, remembered } = (value ?? {}) as Partial<LastValidJson>;
  if (version !== 1 || !Array.isArray(remembered)) return NO_LAST_VALID;
  return new Map((remembered as LastValidVersion[]).map((item) => [identityOf(item.object), item]));
}
