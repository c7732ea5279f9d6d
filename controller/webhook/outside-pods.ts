import type { ClusterObjects, Pod } from '../../apis/objects.ts';
import { type Family, parseAddress } from '../../lib/net/address.ts';
import type { Interval } from '../../lib/net/interval.ts';
import { listChange } from '../../lib/sharing/list-change.ts';
import { sameItems } from '../../lib/sharing/same-items.ts';
import type { AddressedPod } from '../egress/check/object-ranges.ts';
import { cidrIntervals, hasInterval } from '../egress/segments.ts';

type Parts = Pick<ClusterObjects, 'nodes' | 'pods' | 'insideNetworks'>;

/**
 * The pods with an address that no network of pods has: of 100,000 pods none, unless the network
 * has no such networks. Follows the states of the objects, at the cost of what changed.
 */
export class OutsidePods {
  #networks: readonly string[] = [];
  #within: Readonly<Record<Family, readonly Interval[]>> = { 4: [], 6: [] };
  #parts: readonly (readonly object[])[] = [];
  #pods: readonly Pod[] = [];
  readonly #found = new Map<Pod, AddressedPod>();
  #list: readonly AddressedPod[] = [];

  /** Returns the same list if it is the same. */
  of({ nodes, pods, insideNetworks }: Parts): readonly AddressedPod[] {
    const parts = [nodes, insideNetworks];
    if (!sameItems(parts, this.#parts)) {
      this.#parts = parts;
      this.#follow([
        ...nodes.flatMap(({ podCIDRs = [] }) => podCIDRs),
        ...insideNetworks.flatMap(({ cidrs }) => cidrs),
      ]);
    }
    const { removed, added } = listChange(this.#pods, pods);
    this.#pods = pods;
    const before = this.#found.size;
    let hasChanged = false;
    for (const pod of removed) hasChanged = this.#found.delete(pod) || hasChanged;
    for (const pod of added) {
      if (!this.#isOutside(pod)) continue;
      const { kind, namespace, name, addresses } = pod;
      this.#found.set(pod, { kind, namespace, name, addresses });
    }
    if (hasChanged || this.#found.size !== before || this.#list.length !== before)
      this.#list = [...this.#found.values()];
    return this.#list;
  }

  #follow(networks: readonly string[]): void {
    if (sameItems(networks, this.#networks)) return;
    this.#networks = networks;
    this.#within = { 4: cidrIntervals(networks, 4), 6: cidrIntervals(networks, 6) };
    // All are looked at again.
    this.#pods = [];
    this.#found.clear();
  }

  #isOutside({ addresses }: Pod): boolean {
    return addresses.some((text) => {
      const address = parseAddress(text);
      return address !== null && !hasInterval(this.#within[address.family], address.value);
    });
  }
}
