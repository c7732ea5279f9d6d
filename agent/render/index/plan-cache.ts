import { memo } from '../../../lib/sharing/memo.ts';
import { AddressSpace } from './classes.ts';
import type { Item, Peers } from './item.ts';
import type { ListPlan } from './plan.ts';

/**
 * Caches what repeated planning uses again. Address spaces: those of this round and of the one
 * before.
 */
export class PlanCache {
  /** The item with any address as peer, so that only the rule itself tests the address. */
  readonly forAnybody = memo((item: Item): Item => ({ ...item, peers: null, final: false }));
  /** The list of one rule. */
  readonly alone = memo((item: Item): ListPlan => ({ kind: 'list', items: [item], size: 0, tries: 1 }));
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
