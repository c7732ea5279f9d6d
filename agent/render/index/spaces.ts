import { AddressSpace } from './classes.ts';
import type { Peers } from './item.ts';

/**
 * The addresses that planning cut, for whoever plans again and again: those of this time and of the
 * last.
 */
export class Spaces {
  #now: AddressSpace[] = [];
  #before: AddressSpace[] = [];

  of(peers: readonly Peers[]): AddressSpace {
    const known = this.#now.find((space) => space.covers(peers));
    if (known !== undefined) return known;
    const space = this.#before.find((one) => one.covers(peers)) ?? new AddressSpace(peers);
    this.#now.push(space);
    return space;
  }

  /** What is not asked for until the next time is forgotten then. */
  next(): void {
    this.#before = this.#now;
    this.#now = [];
  }
}
