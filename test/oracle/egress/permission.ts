import { formatAddress, parseAddress } from '../address.ts';

/** What `explain` says of an egress flow (docs/egress.md). */
export interface EgressAnswer {
  readonly verdict: 'Gateway' | 'Direct' | 'Drop';
  readonly policy: string | null;
  readonly gateway: string | null;
  readonly node: string | null;
  readonly address: string | null;
  readonly reason: string;
}

/** One answer that is right, or a family of answers that differ in node and address. */
export interface Permission extends Pick<EgressAnswer, 'verdict' | 'policy' | 'gateway'> {
  /** Where several hold, any. */
  readonly reasons: readonly string[];
  /** Of verdict Gateway. */
  readonly exit?: Exit;
}

/** Where a packet leaves. */
export interface Exit {
  /** Who has the address: the gateway (Shared), the policy; null: each node its own. */
  readonly holder: string | null;
  /** Others may have the address too. */
  readonly mayBeShared: boolean;
  /** How many addresses of a family the holder may have. */
  readonly count: number;
  /** Spread: flows of one policy may leave by several nodes. */
  readonly isSpread: boolean;
  /** Null: the answer does not say which (the node's own). */
  readonly admits: (node: string, address: string | null) => boolean;
  readonly text: string;
}

/** True where the answer is one of those that the manifests permit. */
export function isPermitted(permissions: readonly Permission[], answer: EgressAnswer): boolean {
  return permissions.some(
    (one) =>
      one.verdict === answer.verdict &&
      one.policy === answer.policy &&
      one.gateway === answer.gateway &&
      one.reasons.includes(answer.reason) &&
      isRightExit(one.exit, answer),
  );
}

function isRightExit(exit: Exit | undefined, { node, address }: EgressAnswer): boolean {
  if (exit === undefined) return node === null && address === null;
  return node !== null && exit.admits(node, address);
}

/** For messages. */
export function describePermission({ verdict, policy, gateway, reasons, exit }: Permission): string {
  const by = exit === undefined ? '' : `, ${exit.text}`;
  return `${verdict} (${reasons.join('|')}) policy ${policy} gateway ${gateway}${by}`;
}

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
