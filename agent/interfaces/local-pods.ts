import type { AddressSet } from '../../apis/compiled.ts';
import { type MemberSet, sameMembers } from '../../lib/net/member-set.ts';
import type { Clock } from '../../lib/process/clock.ts';
import { type RouteTexts, routedOutBy } from './pod-routes.ts';

/** The destinations that are routed to pods on this node. */
export interface LocalPods {
  /** Null: not known. The same object as long as its members do not change. */
  now(): AddressSet | null;
  /** Registers a callback for each change; returns a function that removes it. */
  listen(changed: () => void): () => void;
}

export function localPodsSet(members: MemberSet): AddressSet {
  return { id: 'local-pods', description: 'routed to local pods', dynamic: true, names: [], members };
}

/** For a node without interface groups, or without exemptions that use them. */
export const NO_LOCAL_PODS: LocalPods = { now: () => null, listen: () => () => {} };

interface LocalPodsOptions {
  /** Reads the kernel's routes. */
  readonly read: () => Promise<RouteTexts>;
  /** Names of the interfaces that are in the link group of pods now. */
  readonly interfaces: () => ReadonlySet<string>;
  readonly clock: Clock;
  /** Called once when the routes become unreadable; the last known set stays. */
  readonly unreadable: (error: Error) => void;
}

/**
 * Milliseconds between two reads of the routes after links changed: a CNI adds a pod's routes after
 * its link, and no link event reports them. The last value is the interval while nothing happens.
 * Links that change all the time lead to ten reads per second.
 */
const PAUSES = [100, 400, 1500, 5000] as const;

/** Polls the kernel's routes. */
export class WatchedLocalPods implements LocalPods {
  readonly #options: LocalPodsOptions;
  readonly #listeners = new Set<() => void>();
  #set: AddressSet | null = null;
  /** The input of the last read. */
  #seen = '';
  #isUnreadable = false;
  /** Reads since links changed. */
  #looks = 0;
  #due = Number.POSITIVE_INFINITY;
  #cancel: () => void = () => {};
  #isWatching = false;

  constructor(options: LocalPodsOptions) {
    this.#options = options;
  }

  now(): AddressSet | null {
    return this.#set;
  }

  listen(changed: () => void): () => void {
    this.#listeners.add(changed);
    return () => void this.#listeners.delete(changed);
  }

  /** Reads the routes once. Never rejects. */
  async refresh(): Promise<void> {
    const texts = await this.#read();
    if (texts !== null) this.#apply(texts, this.#options.interfaces());
  }

  /** Polls until `close`. */
  watch(): void {
    this.#isWatching = true;
    this.#wait();
  }

  /** Links were added or removed, or changed their groups. */
  linksChanged(): void {
    this.#looks = 0;
    if (this.#due > this.#options.clock.now() + PAUSES[0]) this.#wait();
  }

  close(): void {
    this.#isWatching = false;
    this.#cancel();
  }

  #wait(): void {
    if (!this.#isWatching) return;
    const { clock } = this.#options;
    const pause = PAUSES[Math.min(this.#looks++, PAUSES.length - 1)] ?? PAUSES[0];
    this.#cancel();
    this.#due = clock.now() + pause;
    this.#cancel = clock.after(pause, () => void this.refresh().then(() => this.#wait()));
  }

  async #read(): Promise<RouteTexts | null> {
    try {
      const texts = await this.#options.read();
      this.#isUnreadable = false;
      return texts;
    } catch (error) {
      if (!this.#isUnreadable) this.#options.unreadable(error as Error);
      this.#isUnreadable = true;
      return null;
    }
  }

  #apply(texts: RouteTexts, interfaces: ReadonlySet<string>): void {
    const seen = JSON.stringify([texts, [...interfaces]]);
    if (seen === this.#seen) return;
    this.#seen = seen;
    const members = routedOutBy(texts, interfaces);
    const before = this.#set?.members;
    if (before !== undefined && sameMembers(before.v4, members.v4) && sameMembers(before.v6, members.v6))
      return;
    this.#set = localPodsSet(members);
    for (const changed of this.#listeners) changed();
  }
}
