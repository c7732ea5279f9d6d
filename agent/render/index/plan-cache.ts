import { memo } from '../../../lib/sharing/memo.ts';
import { AddressSpace } from './classes.ts';
import type { MatchEntry, Peers } from './match-entry.ts';
import type { ListPlan } from './plan.ts';

/**
 * Caches what repeated planning uses again. Address spaces: those of this round and of the one
 * before.
 */
export class PlanCache {
  /** The item with any address as peer, so that only the rule itself tests the address. */
  readonly forAnyPeer = memo((item: MatchEntry): MatchEntry => ({ ...item, peers: null, final: false }));
  /** The list of one rule. */
  readonly singleRuleList = memo(
    (item: MatchEntry): ListPlan => ({ kind: 'list', items: [item], size: 0, tries: 1 }),
  );
  #now: AddressSpace[] = [];
  #before: AddressSpace[] = [];

  space(peers: readonly Peers[]): AddressSpace {
    const known = this.#now.find((space) => space.covers(peers));
    if (known !== undefined) return known;
    const space = this.#before.find((one) => one.covers(peers)) ?? new AddressSpace(peers);
    this.#now.push(space);
    return space;
  }

  /** Begins a new round: spaces not used since the previous call are dropped. */
  next(): void {
    this.#before = this.#now;
    this.#now = [];
  }
}
