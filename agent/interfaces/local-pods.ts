import type { AddressSet } from '../../apis/compiled.ts';
import { type MemberSet, sameMembers } from '../../lib/net/member-set.ts';
import type { Clock } from '../../lib/process/clock.ts';
import { type RouteTexts, routedOutBy } from './pod-routes.ts';

/** The destinations that are routed to pods on this node. */
export interface LocalPods {
  /** Null: not known. The same object while its members are. */
  now(): AddressSet | null;
  /** Calls back at each change; returns what ends that. */
  listen(changed: () => void): () => void;
}

export function toLocalPods(members: MemberSet): AddressSet {
  return { id: 'local-pods', description: 'routed to local pods', dynamic: true, names: [], members };
}

/** Where no interface groups are kept, or nothing is exempt by them. */
export const NO_LOCAL_PODS: LocalPods = { now: () => null, listen: () => () => {} };

interface LocalPodsParts {
  /** The kernel's routes. */
  readonly read: () => Promise<RouteTexts>;
  /** Names of the interfaces in the link group of pods, now. */
  readonly interfaces: () => ReadonlySet<string>;
  readonly clock: Clock;
  /** The first time that the routes can't be read; what was known stays. */
  readonly unreadable: (error: Error) => void;
}

/**
 * From one look at the routes to the next (milliseconds), after links changed: a CNI adds a pod's
 * routes after its link, and no event of links tells of them. The last one is the pace while
 * nothing happens. Links that change all the time lead to ten looks a second.
 */
const PAUSES = [100, 400, 1500, 5000] as const;

/** Looks at the kernel's routes. */
export class WatchedLocalPods implements LocalPods {
  readonly #parts: LocalPodsParts;
  readonly #listeners = new Set<() => void>();
  #set: AddressSet | null = null;
  /** What the last look saw. */
  #seen = '';
  #isUnreadable = false;
  /** Looks since links changed. */
  #looks = 0;
  #due = Number.POSITIVE_INFINITY;
  #cancel: () => void = () => {};
  #isWatching = false;

  constructor(parts: LocalPodsParts) {
    this.#parts = parts;
  }

  now(): AddressSet | null {
    return this.#set;
  }

  listen(changed: () => void): () => void {
    this.#listeners.add(changed);
    return () => void this.#listeners.delete(changed);
  }

  /** One look. Never rejects. */
  async look(): Promise<void> {
    const texts = await this.#read();
    if (texts !== null) this.#take(texts, this.#parts.interfaces());
  }

  /** Looks again and again, until `close`. */
  watch(): void {
    this.#isWatching = true;
    this.#wait();
  }

  /** Links came, went or changed their groups. */
  linksChanged(): void {
    this.#looks = 0;
    if (this.#due > this.#parts.clock.now() + PAUSES[0]) this.#wait();
  }

  close(): void {
    this.#isWatching = false;
    this.#cancel();
  }

  #wait(): void {
    if (!this.#isWatching) return;
    const { clock } = this.#parts;
    const pause = PAUSES[Math.min(this.#looks++, PAUSES.length - 1)] ?? PAUSES[0];
    this.#cancel();
    this.#due = clock.now() + pause;
    this.#cancel = clock.after(pause, () => void this.look().then(() => this.#wait()));
  }

  async #read(): Promise<RouteTexts | null> {
    try {
      const texts = await this.#parts.read();
      this.#isUnreadable = false;
      return texts;
    } catch (error) {
      if (!this.#isUnreadable) this.#parts.unreadable(error as Error);
      this.#isUnreadable = true;
      return null;
    }
  }

  #take(texts: RouteTexts, interfaces: ReadonlySet<string>): void {
    const seen = JSON.stringify([texts, [...interfaces]]);
    if (seen === this.#seen) return;
    this.#seen = seen;
    const members = routedOutBy(texts, interfaces);
    const before = this.#set?.members;
    if (before !== undefined && sameMembers(before.v4, members.v4) && sameMembers(before.v6, members.v6))
      return;
    this.#set = toLocalPods(members);
    for (const changed of this.#listeners) changed();
  }
}
