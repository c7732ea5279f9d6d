import type { ClusterObject } from '../../apis/objects.ts';
import { identityOf } from '../../apis/validate/metadata.ts';
import type { FileContent, Listed } from './content.ts';

/**
 * Replaces the objects of a file by their equal previous versions: later stages take the same
 * JavaScript object for unchanged. If one address changes in a file of 100,000 pods, one object is
 * new.
 */
export function keepObjects(now: FileContent, before: FileContent | null): FileContent {
  if (before === null) return now;
  return {
    ...now,
    nodes: keepList(now.nodes, before.nodes),
    namespaces: keepList(now.namespaces, before.namespaces),
    pods: keepList(now.pods, before.pods),
    services: keepList(now.services, before.services),
    endpointSlices: keepList(now.endpointSlices, before.endpointSlices),
    groups: keepList(now.groups, before.groups),
    tiers: keepList(now.tiers, before.tiers),
    policies: keepList(now.policies, before.policies),
    guardrails: keepList(now.guardrails, before.guardrails),
    egressGateways: keepList(now.egressGateways, before.egressGateways),
    egressPolicies: keepList(now.egressPolicies, before.egressPolicies),
    insideNetworks: keepList(now.insideNetworks, before.insideNetworks),
  };
}

/** Returns the same array if all objects are the same, in the same order. */
function keepList<T extends ClusterObject>(now: Listed<T>, before: Listed<T>): Listed<T> {
  let byIdentity: Map<string, T> | null = null;
  const earlier = (object: T, index: number): T | undefined => {
    const there = before.objects[index];
    if (there !== undefined && sameValue(there, object)) return there;
    byIdentity ??= new Map(before.objects.map((one) => [identityOf(one), one]));
    const other = byIdentity.get(identityOf(object));
    return other !== undefined && sameValue(other, object) ? other : undefined;
  };
  const objects = now.objects.map((object, index) => earlier(object, index) ?? object);
  const same =
    objects.length === before.objects.length && objects.every((one, i) => one === before.objects[i]);
  return { ...now, objects: same ? before.objects : objects };
}

/** Whether two JSON values are equal, with fields in the same order. */
export function sameValue(a: unknown, b: unknown): boolean {
  if (a === b) return true;
  if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) return false;
  if (Array.isArray(a) || Array.isArray(b)) {
    if (!Array.isArray(a) || !Array.isArray(b) || a.length !== b.length) return false;
    for (let i = 0; i < a.length; i++) if (!sameValue(a[i], b[i])) return false;
    return true;
  }
  const [keys, others] = [Object.keys(a), Object.keys(b)];
  if (keys.length !== others.length) return false;
  for (let i = 0; i < keys.length; i++) {
    const key = keys[i];
    if (key === undefined || key !== others[i]) return false;
    if (!sameValue(a[key as keyof typeof a], b[key as keyof typeof b])) return false;
  }
  return true;
}
