import type { ClusterObjects, Pod } from '../../../apis/objects.ts';
import { type Family, parseAddress } from '../../../lib/net/address.ts';
import type { Interval } from '../../../lib/net/interval.ts';
import { type ListChange, listChange, sameItems } from '../../../lib/sharing/lists.ts';
import type { AddressedPod, PodFilter } from '../../extension/object-extension.ts';
import { cidrIntervals, hasInterval } from '../segments.ts';

type Parts = Pick<ClusterObjects, 'nodes' | 'pods' | 'insideNetworks'>;

/**
 * The pods with an address that no network of pods has: of 100,000 pods none, unless the network
 * has no such networks. Follows the states of the objects, at the cost of what changed.
 */
export class OutsidePods implements PodFilter {
  #networks: readonly string[] = [];
  #within: Readonly<Record<Family, readonly Interval[]>> = { 4: [], 6: [] };
  #parts: readonly (readonly object[])[] = [];
  #pods: readonly Pod[] = [];
  readonly #found = new Map<Pod, AddressedPod>();

  /** The changes since the call before. */
  advance({ nodes, pods, insideNetworks }: Parts): ListChange<AddressedPod> {
    const gone: AddressedPod[] = [];
    const come: AddressedPod[] = [];
    const parts = [nodes, insideNetworks];
    if (!sameItems(parts, this.#parts)) {
      this.#parts = parts;
      const networks = [
        ...nodes.flatMap(({ podCIDRs = [] }) => podCIDRs),
        ...insideNetworks.flatMap(({ cidrs }) => cidrs),
      ];
      if (!sameItems(networks, this.#networks)) gone.push(...this.#restart(networks));
    }
    const { removed, added } = listChange(this.#pods, pods);
    this.#pods = pods;
    for (const pod of removed) {
      const known = this.#found.get(pod);
      if (known !== undefined) gone.push(known);
      this.#found.delete(pod);
    }
    for (const pod of added) {
      if (!this.#isOutside(pod)) continue;
      const { kind, namespace, name, addresses } = pod;
      const short = { kind, namespace, name, addresses };
      this.#found.set(pod, short);
      come.push(short);
    }
    return { removed: gone, added: come };
  }

  /** All pods are looked at again. Returns those that there were. */
  #restart(networks: readonly string[]): AddressedPod[] {
    const before = [...this.#found.values()];
    this.#networks = networks;
    this.#within = { 4: cidrIntervals(networks, 4), 6: cidrIntervals(networks, 6) };
    this.#pods = [];
    this.#found.clear();
    return before;
  }

  #isOutside({ addresses }: Pod): boolean {
    return addresses.some((text) => {
      const address = parseAddress(text);
      return address !== null && !hasInterval(this.#within[address.family], address.value);
    });
  }
}
