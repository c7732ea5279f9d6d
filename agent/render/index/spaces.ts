import { AddressSpace } from './classes.ts';
import type { Peers } from './match-entry.ts';

/** Caches the address spaces of repeated planning: those of this round and of the one before. */
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

  /** Begins a new round: spaces not used since the previous call are dropped. */
  next(): void {
    this.#before = this.#now;
    this.#now = [];
  }
}
