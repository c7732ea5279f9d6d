import type { NodeEgress } from '../../../apis/egress/node-egress.ts';
import type { Claim } from './claim.ts';
import { isInForce } from './claimed-arrivals.ts';

/** Milliseconds: longer than a node waits before it repeats a claim. */
const LIFE = 2_500;
/** Claims of one node. */
const MOST = 1_000;

interface Asked {
  readonly claim: Claim;
  readonly until: number;
}

/** Claims of other nodes that this gateway has not confirmed yet. */
export class AskedClaims {
  /** By node and address. */
  readonly #asked = new Map<string, Map<string, Asked>>();

  ask(node: string, claims: readonly Claim[], now: number): void {
    const asked = this.#asked.get(node) ?? new Map<string, Asked>();
    for (const claim of claims)
      if (asked.size < MOST || asked.has(claim.address))
        asked.set(claim.address, { claim, until: now + LIFE });
    this.#asked.set(node, asked);
  }

  /** Those that are in force, by node: they are no longer asked. */
  answers(egress: NodeEgress, now: number): ReadonlyMap<string, readonly Claim[]> {
    const answers = new Map<string, readonly Claim[]>();
    for (const [node, asked] of this.#asked) {
      const done: Claim[] = [];
      for (const [address, { claim, until }] of asked) {
        const isDone = isInForce(node, claim, egress);
        if (isDone) done.push(claim);
        if (isDone || now > until) asked.delete(address);
      }
      if (asked.size === 0) this.#asked.delete(node);
      if (done.length > 0) answers.set(node, done);
    }
    return answers;
  }
}
