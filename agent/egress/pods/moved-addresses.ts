import { BY_ADDRESS, type NodeEgress } from '../../../apis/egress/node-egress.ts';
import { changedIds } from '../../../lib/sharing/changed-map.ts';

/**
 * Addresses of this node that are no longer the pod's that they were, by two states of the
 * controller, which say the class of an address, and of a pod, but not whose an address is: those
 * that no pod has any more, and those that got another class while no pod of the node did. Edits of
 * policies, by which connections keep their way, change the classes of pods alike.
 */
export function movedSources(before: NodeEgress, now: NodeEgress): string[] {
  const edits = new Set(
    [...changedIds(before.pods, now.pods)].flatMap((pod) =>
      before.pods.has(pod) && now.pods.has(pod) ? editOf(before.pods.get(pod), now.pods.get(pod)) : [],
    ),
  );
  const isByAddress = [...now.pods].some(
    ([pod, id]) => id === BY_ADDRESS && before.pods.get(pod) === BY_ADDRESS,
  );
  return [...changedIds(before.sources, now.sources)].filter((address) => {
    if (!before.sources.has(address)) return false;
    if (!now.sources.has(address)) return true;
    const edit = editOf(before.sources.get(address), now.sources.get(address));
    return !isByAddress && !edits.has(edit);
  });
}

/** Addresses that this gateway serves from another node than before. */
export function movedArrivals(before: NodeEgress, now: NodeEgress): string[] {
  return [...changedIds(before.arrivals, now.arrivals)].filter((address) => {
    const [was, is] = [before.arrivals.get(address)?.node, now.arrivals.get(address)?.node];
    return was !== undefined && is !== undefined && was !== is;
  });
}

function editOf(before: string | null | undefined, now: string | null | undefined): string {
  return JSON.stringify([before, now]);
}
