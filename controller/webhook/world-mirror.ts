import { type ClusterObject, type ClusterObjects, NO_OBJECTS } from '../../apis/objects.ts';
import type { NamedChange } from '../../lib/process/mirrored-process.ts';
import { listChange, sameItems } from '../../lib/sharing/lists.ts';
import type { AddressedPod } from '../extension/extension.ts';
import { OBJECT_EXTENSION } from '../extension/objects.ts';
import { LIST_NAMES } from '../watch/content.ts';
import type { AdmissionObjects, AdmissionWorld } from './admission.ts';
import { podAccessObjects } from './pod-access.ts';

/** The lists that the process that checks bodies has. */
export type WorldLists = ClusterObjects & { readonly outsidePods: readonly AddressedPod[] };

export const NO_LISTS: WorldLists = { ...NO_OBJECTS, outsidePods: [] };

/**
 * Returns the changes of those lists from one state of the world to the next; none while nothing
 * has been listed. Refusals and warnings name objects in the order of the lists.
 */
export function worldChanges(): (world: AdmissionWorld) => Iterable<NamedChange> {
  const outsidePods = OBJECT_EXTENSION.outsidePods();
  let source: AdmissionObjects | null = null;
  let sent = NO_OBJECTS;
  return function* ({ objects, egress }) {
    if (objects === null || objects === source) return;
    const now = reduced(objects, egress !== undefined);
    for (const list of LIST_NAMES) {
      const before: readonly ClusterObject[] = sent[list];
      const inOrder: readonly ClusterObject[] = now[list];
      if (!sameItems(before, inOrder)) yield { list, ...listChange(before, inOrder), inOrder };
    }
    // There may be many, which always change.
    if (egress !== undefined) yield { list: 'outsidePods', ...outsidePods.advance(objects) };
    source = objects;
    sent = now;
  };
}

/** Keeps the few of 100,000 pods that an admission needs. */
function reduced(objects: AdmissionObjects, hasEgress: boolean): ClusterObjects {
  const { policies, guardrails, groups, tiers, services, nodes } = objects;
  const all = { policies, guardrails, groups, tiers, services, nodes, ...podAccessObjects(objects) };
  if (!hasEgress) return { ...NO_OBJECTS, ...all };
  const { namespaces, egressGateways, egressPolicies, insideNetworks } = objects;
  return { ...all, namespaces, egressGateways, egressPolicies, insideNetworks };
}
