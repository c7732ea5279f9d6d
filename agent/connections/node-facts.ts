import { type Address, parseAddress } from '../../lib/net/address.ts';
import type { MemberSet } from '../../lib/net/member-set.ts';

/** Facts of this node that the kernel knows and conntrack does not say. */
export interface NodeFacts {
  /** Addresses of this machine's interfaces, without loopback ones. */
  readonly own: OwnAddresses;
  /** The link groups of the interfaces except loopback ones. */
  readonly groups: readonly number[];
  /** The destinations that are routed to pods on this node; null: not known. */
  readonly localPods: MemberSet | null;
}

/** A set of addresses, to which loopback addresses always belong. */
export class OwnAddresses {
  readonly #values = { 4: new Set<bigint>(), 6: new Set<bigint>() };

  /** Texts that are not addresses, such as those with a zone, are left out. */
  constructor(texts: Iterable<string>) {
    for (const text of texts) {
      const address = parseAddress(text);
      if (address !== null) this.#values[address.family].add(address.value);
    }
  }

  has({ family, value }: Address): boolean {
    const isLoopback = family === 4 ? value >> 24n === 127n : value === 1n;
    return isLoopback || this.#values[family].has(value);
  }
}
