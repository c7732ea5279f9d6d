import type { Link, LinkGroupChange, NftError, RouteEvent } from 'nftables-napi';
import type { Clock } from '../../lib/process/clock.ts';
import { AttachmentReading, type Attachments } from './attachment.ts';
import {
  type Classify,
  type GroupDecision,
  type GroupReason,
  type OwnedGroup,
  PAIR_KINDS,
} from './classify.ts';

/** The kernel's operations on links: RouteSocket and LinkSocket of nftables-napi, or a fake. */
export interface Links {
  links(): Promise<Link[]>;
  linksAt(indices: readonly number[]): Promise<(Link | null)[]>;
  setGroups(changes: readonly LinkGroupChange[]): Promise<(NftError | null)[]>;
}

export interface InterfaceGroupChange {
  readonly index: number;
  readonly name: string;
  readonly before: number;
  readonly group: number;
  readonly reason: GroupReason;
}

export interface GroupReconcilerEvents {
  /** The changes that one burst of events led to. */
  changed(changes: readonly InterfaceGroupChange[]): void;
  /** The links as far as they are known; called after each reading, and each burst of events. */
  known(links: readonly Link[]): void;
  /** The groups that nodewall holds, to be saved; called before they are set in the kernel. */
  owned(owned: readonly OwnedGroup[]): void;
  /** The kernel refused a change; it is retried at the next lookAtAll(). */
  refused(change: InterfaceGroupChange, error: NftError): void;
  /** The links cannot be read; retried after `retryIn` milliseconds. */
  failed(error: Error, retryIn: number): void;
}

interface GroupReconcilerOptions {
  readonly links: Links;
  readonly classify: Classify;
  /** The groups that an earlier run set. */
  readonly remembered: readonly OwnedGroup[];
  /** Reads how links attach the node itself. */
  readonly attachments: () => Promise<Attachments>;
  readonly events: GroupReconcilerEvents;
  readonly clock: Clock;
}

/**
 * Number of links that are read and then set in one step, so that in a burst none waits for all. A
 * list would not do: while links appear it starts over repeatedly (85 ms for 200 links made in 100
 * ms; reading one takes 0.2 ms).
 */
const LOOKED_AT_ONCE = 32;
const RETRY = 1000;
/**
 * Milliseconds until all links are read again after a change: events of the addresses and routes
 * that follow may be lost.
 */
const SECOND_LOOK = 2000;
/** Number of deleted links whose names are remembered. */
const REMEMBERED_NAMES = 1024;

/**
 * Keeps every link in its group. Events update a table; before a change that follows from the table
 * is made, the link is read from the kernel again. An event can be older than a change that
 * nodewall or a third party made since, and the kernel does not report everything: nothing of a
 * veth whose other end moved away, and no change of the group of a link that is down.
 */
export class GroupReconciler {
  readonly #options: GroupReconcilerOptions;
  readonly #attachments: AttachmentReading;
  readonly #table = new Map<number, Link>();
  readonly #held = new Map<number, OwnedGroup>();
  readonly #gone = new Map<number, string>();
  /** Links to read. */
  readonly #suspects = new Set<number>();
  /** Links that were read in this round, without an event since. */
  readonly #seen = new Set<number>();
  /** Links with an event since the current read began. */
  readonly #touched = new Set<number>();
  /** By index: the group that the kernel refused to set. */
  readonly #refused = new Map<number, number>();
  #heldIsSaid = true;
  #mustList = true;
  #isFirst = true;
  #again = false;
  #running: Promise<void> | null = null;
  #cancelRetry: () => void = () => {};
  #cancelSecondLook: (() => void) | null = null;
  #isClosed = false;

  constructor(options: GroupReconcilerOptions) {
    this.#options = options;
    const { attachments: read, clock } = options;
    this.#attachments = new AttachmentReading({ read, clock, again: () => void this.#wake() });
  }

  /**
   * Lists all links and sets their groups; call it again for changes that no event reports. Never
   * rejects.
   */
  reconcileAll(): Promise<void> {
    this.#mustList = true;
    this.#refused.clear();
    return this.#wake();
  }

  tell(events: readonly RouteEvent[]): void {
    let isNews = false;
    for (const one of events) {
      if (one.event === 'overrun') {
        this.#mustList = true;
        isNews = true;
      } else if (one.event !== 'error' && one.object.kind === 'link') {
        const { link } = one.object;
        // #hear is false for an event that only reports a carrier, except on pairs and bridges.
        if (one.event === 'present') isNews = this.#hear(link) || isNews;
        else {
          this.#remove(link.index);
          isNews = true;
        }
      }
    }
    if (isNews) void this.#wake();
  }

  /** Addresses or routes were added or removed. */
  networkChanged(): void {
    void this.#wake();
  }

  /** Resolves when nothing is left to do. */
  async idle(): Promise<void> {
    while (this.#running !== null) await this.#running;
  }

  /** The name of a link, or of one that was deleted recently; null if not known. */
  nameOf(index: number): string | null {
    return this.#table.get(index)?.name ?? this.#gone.get(index) ?? null;
  }

  groupOf(index: number): number | null {
    return this.#table.get(index)?.group ?? null;
  }

  /** Names of the existing links in a group. */
  namesIn(group: number): Set<string> {
    const names = new Set<string>();
    for (const link of this.#table.values()) if (link.group === group) names.add(link.name);
    return names;
  }

  /** Waits for the operation in progress. Groups stay as they are. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await this.idle();
    this.#cancelRetry();
    this.#cancelSecondLook?.();
    this.#attachments.close();
  }

  /** Updates the table; true if the event may change the group of a link. */
  #hear(link: Link): boolean {
    const before = this.#table.get(link.index);
    this.#put(link);
    this.#touched.add(link.index);
    this.#seen.delete(link.index);
    const owned = this.#held.get(link.index);
    const isSuspect =
      (owned !== undefined && owned.group !== link.group) ||
      // If a pair is created from within the other namespace, the event of the host's end comes
      // before the two ends are joined.
      (isPair(link) && (link.peer === null || (before !== undefined && !sameEnds(before, link))));
    if (isSuspect) this.#suspects.add(link.index);
    // A first event is as good as a read: if a third party has set a group since, ours is not set
    // (LinkGroupChange.from).
    else if (before === undefined) this.#seen.add(link.index);
    // The other end has moved into this namespace: no event reports that change of this end's peer.
    const peer = link.peerNamespace === null && link.peer !== null ? this.#table.get(link.peer) : undefined;
    if (isPair(link) && peer !== undefined && (peer.peer !== link.index || peer.peerNamespace !== null)) {
      this.#suspects.add(peer.index);
      return true;
    }
    // A pair or a bridge that gets its carrier may have an address by which the node itself is
    // attached.
    return (
      isSuspect || before === undefined || isPair(link) || link.kind === 'bridge' || !isSame(before, link)
    );
  }

  #remove(index: number): void {
    this.#touched.add(index);
    this.#forget(index);
    for (const link of this.#table.values()) {
      if (isPair(link) && link.peer === index && link.peerNamespace === null) this.#suspects.add(link.index);
    }
  }

  #put(link: Link): void {
    this.#table.set(link.index, link);
    this.#gone.delete(link.index);
    const owned = this.#held.get(link.index);
    if (owned !== undefined && owned.name !== link.name) this.#hold({ ...owned, name: link.name });
  }

  #forget(index: number): void {
    const link = this.#table.get(index);
    if (link !== undefined) this.#gone.set(index, link.name);
    const oldest = this.#gone.keys().next().value;
    if (this.#gone.size > REMEMBERED_NAMES && oldest !== undefined) this.#gone.delete(oldest);
    this.#table.delete(index);
    this.#seen.delete(index);
    this.#suspects.delete(index);
    this.#refused.delete(index);
    this.#release(index);
  }

  #hold(owned: OwnedGroup): void {
    this.#held.set(owned.index, owned);
    this.#heldIsSaid = false;
  }

  #release(index: number): void {
    if (this.#held.delete(index)) this.#heldIsSaid = false;
  }

  #sayHeld(): void {
    if (this.#heldIsSaid) return;
    this.#heldIsSaid = true;
    this.#options.events.owned([...this.#held.values()].sort((a, b) => a.index - b.index));
  }

  #wake(): Promise<void> {
    this.#again = true;
    this.#running ??= this.#run().finally(() => {
      this.#running = null;
    });
    return this.#running;
  }

  async #run(): Promise<void> {
    while (this.#again && !this.#isClosed) {
      this.#again = false;
      try {
        await this.#settle();
      } catch (error) {
        this.#mustList = true;
        this.#again = false;
        this.#options.events.failed(error as Error, RETRY);
        this.#cancelRetry();
        this.#cancelRetry = this.#options.clock.after(RETRY, () => void this.#wake());
        return;
      }
    }
    this.#seen.clear();
  }

  async #settle(): Promise<void> {
    await this.#readSuspects();
    this.#options.events.known([...this.#table.values()]);
    if (this.#isFirst) this.#recall();
    this.#letGo();
    const changes = this.#changes(await this.#attachments.now());
    for (const { index } of changes) if (!this.#seen.has(index)) this.#suspects.add(index);
    const certain = changes.filter(({ index }) => this.#seen.has(index));
    if (certain.length > 0) await this.#set(certain);
    this.#sayHeld();
    if (this.#suspects.size > 0) this.#again = true;
  }

  /**
   * Reads the links to check. A link with an event during the read keeps the event's state and is
   * read again.
   */
  async #readSuspects(): Promise<void> {
    const indices = [...this.#suspects].slice(0, LOOKED_AT_ONCE);
    this.#touched.clear();
    if (this.#mustList) {
      this.#mustList = false;
      this.#suspects.clear();
      this.#attachments.forget();
      const found = new Map((await this.#options.links.links()).map((link) => [link.index, link]));
      for (const index of this.#table.keys()) if (!found.has(index)) this.#store(index, null);
      for (const [index, link] of found) this.#store(index, link);
    } else {
      for (const index of indices) this.#suspects.delete(index);
      const found = await this.#options.links.linksAt(indices);
      indices.forEach((index, i) => {
        this.#store(index, found[i] ?? null);
      });
    }
  }

  #store(index: number, link: Link | null): void {
    if (this.#touched.has(index)) {
      if (this.#table.has(index)) this.#suspects.add(index);
    } else if (link === null) this.#forget(index);
    else {
      this.#put(link);
      this.#seen.add(index);
    }
  }

  /** Adopts the groups that an earlier run set, if they are unchanged. */
  #recall(): void {
    this.#isFirst = false;
    for (const owned of this.#options.remembered) {
      const link = this.#table.get(owned.index);
      if (link?.name === owned.name && link.group === owned.group) this.#held.set(owned.index, owned);
    }
    this.#heldIsSaid = false;
  }

  #changes(attachments: Attachments): InterfaceGroupChange[] {
    const links = [...this.#table.values()];
    const decisions = this.#options.classify(links, { held: this.#held, attachments });
    return decisions
      .filter(({ link: { index, group: now }, group }) => now !== group && this.#refused.get(index) !== group)
      .map(toChange);
  }

  /**
   * A group that differs from ours in the latest read was set by a third party: releases the link.
   */
  #letGo(): void {
    for (const { index, group } of [...this.#held.values()]) {
      if (this.#seen.has(index) && this.#table.get(index)?.group !== group) this.#release(index);
    }
  }

  async #set(changes: readonly InterfaceGroupChange[]): Promise<void> {
    const before = changes.map(({ index }) => this.#held.get(index));
    // Before the kernel sets the group: our own event must find the entry, and after a crash the
    // group must not look like a third party's.
    for (const { index, name, group } of changes) this.#hold({ index, name, group });
    this.#sayHeld();
    const answers = await this.#options.links.setGroups(
      // `from`: a third party that sets a group right after it created a link keeps its group.
      changes.map(({ index, group, before: from }) => ({ index, group, from })),
    );
    const done = changes.filter((_, i) => (answers[i] ?? null) === null);
    changes.forEach((change, i) => {
      const error = answers[i] ?? null;
      if (error === null) this.#done(change);
      else this.#undo(change, error, before[i]);
    });
    if (done.length === 0) return;
    this.#options.events.changed(done);
    this.#cancelSecondLook ??= this.#options.clock.after(SECOND_LOOK, () => {
      this.#cancelSecondLook = null;
      void this.reconcileAll();
    });
  }

  #done({ index, group }: InterfaceGroupChange): void {
    if (group === 0) this.#release(index);
    const link = this.#table.get(index);
    if (link !== undefined) this.#table.set(index, { ...link, group });
  }

  #undo(change: InterfaceGroupChange, error: NftError, before: OwnedGroup | undefined): void {
    const { index, group } = change;
    if (before === undefined || !this.#table.has(index)) this.#release(index);
    else this.#hold(before);
    // The link was deleted meanwhile; its event reports that too.
    if (error.code === 'ENODEV') return;
    if (error.code === 'ESTALE') {
      this.#suspects.add(index);
      this.#again = true;
      return;
    }
    this.#refused.set(index, group);
    this.#options.events.refused(change, error);
  }
}

function toChange({
  link: { index, name, group: before },
  group,
  reason,
}: GroupDecision): InterfaceGroupChange {
  return { index, name, before, group, reason };
}

function isPair({ kind }: Link): boolean {
  return kind !== null && PAIR_KINDS.includes(kind);
}

/** The fields that a group or a rule may depend on, and whether it is up. */
const FIELDS = [
  'name',
  'kind',
  'group',
  'master',
  'peer',
  'peerNamespace',
  'isLoopback',
  'isUp',
  'hasQueue',
  'tunnelPort',
] as const satisfies readonly (keyof Link)[];

function isSame(a: Link, b: Link): boolean {
  return FIELDS.every((field) => a[field] === b[field]);
}

function sameEnds(a: Link, b: Link): boolean {
  return a.peer === b.peer && a.peerNamespace === b.peerNamespace;
}

/**
 * Resets links to group 0 if they still have the index, name and group that nodewall set. Returns
 * those that were reset; throws the first error, except for links that were deleted meanwhile.
 */
export async function releaseGroups(
  links: Pick<Links, 'links' | 'setGroups'>,
  remembered: readonly OwnedGroup[],
): Promise<OwnedGroup[]> {
  if (remembered.length === 0) return [];
  const found = new Map((await links.links()).map((link) => [link.index, link]));
  const ours = remembered.filter(({ index, name, group }) => {
    const link = found.get(index);
    return group !== 0 && link?.name === name && link.group === group;
  });
  const answers = await links.setGroups(ours.map(({ index }) => ({ index, group: 0 })));
  const refused = answers.find((error): error is NftError => error !== null && error.code !== 'ENODEV');
  if (refused !== undefined) throw refused;
  return ours.filter((_, i) => answers[i] === null);
}

/** The entries of a saved value that have the right form. */
export function toOwnedGroups(value: unknown): readonly OwnedGroup[] {
  if (!Array.isArray(value)) return [];
  return value.filter(
    (entry): entry is OwnedGroup =>
      Number.isInteger(entry?.index) && typeof entry.name === 'string' && Number.isInteger(entry.group),
  );
}
