import type { ClusterGroup, ClusterNetworkPolicy, Tier } from '../../apis/objects.ts';
import { identityOf } from '../../apis/validate/identity.ts';

/**
 * The last valid versions of policies, groups and tiers that were in force, by identity, with the
 * file that each came from.
 */
export type Memory = ReadonlyMap<string, Remembered>;

export interface Remembered {
  readonly file: string;
  readonly object: Tier | ClusterGroup | ClusterNetworkPolicy;
}

export const NO_MEMORY: Memory = new Map();

/** Whether a file is one of these paths, or below one. */
export function isUnder(file: string, paths: readonly string[]): boolean {
  return paths.some((path) => file === path || file.startsWith(path.endsWith('/') ? path : `${path}/`));
}

/**
 * Saved by an agent, so that after a restart the last valid versions of an invalid file stay in
 * force.
 */
export interface MemoryJson {
  readonly version: 1;
  readonly remembered: readonly Remembered[];
}

export function toMemoryJson(memory: Memory): MemoryJson {
  return { version: 1, remembered: [...memory.values()] };
}

/** Empty if the value was not made by toMemoryJson. */
export function fromMemoryJson(value: unknown): Memory {
  const { version, remembered } = (value ?? {}) as Partial<MemoryJson>;
  if (version !== 1 || !Array.isArray(remembered)) return NO_MEMORY;
  return new Map((remembered as Remembered[]).map((item) => [identityOf(item.object), item]));
}
