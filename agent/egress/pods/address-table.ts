import { BY_ADDRESS, type NodeEgress } from '../../../apis/egress/node-egress.ts';
import { changedIds } from '../../../lib/sharing/changed-map.ts';
import type { PodAttachment } from './attachment.ts';

interface Place {
  readonly attachment: PodAttachment;
  /** Later ones count where two have one address. */
  readonly at: number;
}

/** Which pod has which address by CNI. */
export class AddressTable {
  readonly #places = new Map<string, Place>();
  readonly #byAddress = new Map<string, Map<string, Place>>();

  /** @param id of the attachment; one that it had before is replaced */
  set(id: string, attachment: PodAttachment, at: number): void {
    this.delete(id);
    const place = { attachment, at };
    this.#places.set(id, place);
    for (const address of attachment.addresses) {
      const places = this.#byAddress.get(address) ?? new Map<string, Place>();
      this.#byAddress.set(address, places.set(id, place));
    }
  }

  delete(id: string): void {
    const { attachment } = this.#places.get(id) ?? {};
    this.#places.delete(id);
    for (const address of attachment?.addresses ?? []) {
      const places = this.#byAddress.get(address);
      places?.delete(id);
      if (places?.size === 0) this.#byAddress.delete(address);
    }
  }

  has(id: string): boolean {
    return this.#places.has(id);
  }

  /**
   * Pods by address. A sandbox that ended in a crash leaves its address behind: the last one
   * counts.
   */
  pods(): Map<string, string> {
    const pods = new Map<string, string>();
    for (const [address, places] of this.#byAddress) {
      let last: Place | null = null;
      for (const place of places.values()) if (last === null || isLater(place, last)) last = place;
      if (last !== null) pods.set(address, last.attachment.pod);
    }
    return pods;
  }
}

/** Compares by the pod's first network, then by time: the later one counts. */
function isLater(a: Place, b: Place): boolean {
  const [first, other] = [a, b].map(({ attachment }) => attachment.interface === 'eth0');
  return first === other ? a.at > b.at : first === true;
}

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
