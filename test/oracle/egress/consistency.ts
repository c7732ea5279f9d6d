import { formatAddress, parseAddress } from '../address.ts';
import type { EgressAnswer, Permission } from './permission.ts';
import { isPermitted } from './permission.ts';

/**
 * What must hold between the answers about one cluster, where each alone may be one of several: an
 * address has one holder and one owner, a holder no more addresses than it may have, and packets
 * leave by one node unless the gateway spreads them.
 */
export class Consistency {
  readonly #holderOf = new Map<string, string>();
  readonly #ownerOf = new Map<string, string>();
  readonly #addressesOf = new Map<string, Set<string>>();
  readonly #nodeOf = new Map<string, string>();

  /** What the answer contradicts of those before it; null: nothing. */
  contradiction(permissions: readonly Permission[], answer: EgressAnswer): string | null {
    const exit = permissions.find((one) => isPermitted([one], answer))?.exit;
    const { node, policy, address: text } = answer;
    if (exit === undefined || node === null) return null;
    if (exit.holder === null) {
      const family = text?.includes(':') ? 6 : 4;
      return exit.isSpread || text === null ? null : this.#same(this.#nodeOf, `${policy} IPv${family}`, node);
    }
    const address = parseAddress(text ?? '');
    if (address === undefined) return `${text} is not an address`;
    const key = formatAddress(address);
    const family = `${exit.holder} IPv${address.family}`;
    const held = this.#addressesOf.get(family) ?? new Set();
    this.#addressesOf.set(family, held.add(key));
    if (held.size > exit.count) return `${family} has ${[...held].join(', ')}, not ${exit.count}`;
    const holder = exit.mayBeShared ? null : this.#same(this.#holderOf, key, exit.holder);
    return holder ?? this.#same(this.#ownerOf, key, node);
  }

  #same(known: Map<string, string>, key: string, value: string): string | null {
    const before = known.get(key) ?? value;
    known.set(key, before);
    return before === value ? null : `${key}: ${before}, and ${value} too`;
  }
}
