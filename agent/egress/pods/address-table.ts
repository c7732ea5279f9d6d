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
