import { sameValue } from '../same-value.ts';
import type { RawObject } from './raw-object.ts';

/** What is kept of a resource's objects, each with the version it is of. */
export interface Entries<T> {
  size(): number;
  /**
   * Everything up to this version has been told; null before the first list, and after `forget`.
   */
  position(): number | null;
  /** A bookmark: nothing up to this version is missing. */
  advance(version: number): void;
  /** The next list is to replace what is kept. */
  forget(): void;
  take(object: RawObject, isDeletion: boolean): Taken<T>;
  /**
   * Begins a list. `isTrusted` false: everything is narrowed again, also what is kept in that
   * version.
   */
  gather(isTrusted?: boolean): Gathering<T>;
  /** What is kept becomes what the list says, which is of this version. */
  replace(listed: Gathering<T>, version: number): readonly Change<T>[];
  /**
   * What the events should have told and did not, in comparison with a list of this version that
   * was begun and read while they went on. What they have told since is newer and stays. Corrects
   * it.
   */
  correct(listed: Gathering<T>, version: number): readonly Change<T>[];
}

/**
 * What is made of an object; null: nothing is kept of it. `before` is what was made of its last
 * version: the same again where it says the same.
 */
export type Narrow<T> = (object: RawObject, before: T | null) => T | null;

export interface Change<T> {
  readonly key: string;
  readonly before: T | null;
  readonly now: T | null;
}

export interface Taken<T> {
  /** Null where nothing changed: twice the same, older than what is kept, or of no interest. */
  readonly change: Change<T> | null;
  /**
   * It came after something newer than it and was news, which no API server does: a list has to say
   * what is true.
   */
  readonly isDisordered: boolean;
}

/** A list while it is read. */
export interface Gathering<T> {
  add(object: RawObject): void;
  readonly listed: ReadonlyMap<string, Entry<T | null>>;
  /** Versions of deletions that were told while it was read. */
  readonly deleted: Map<string, number>;
  /** No longer told of deletions. */
  end(): void;
}

interface Entry<T> {
  readonly version: number;
  readonly value: T;
}

const NO_NEWS = { change: null, isDisordered: false } as const;

export function entries<T>(narrow: Narrow<T>): Entries<T> {
  return new KeptEntries<T>(narrow);
}

class KeptEntries<T> implements Entries<T> {
  readonly #narrow: Narrow<T>;
  #held = new Map<string, Entry<T>>();
  #position: number | null = null;
  readonly #gatherings = new Set<Gathering<T>>();

  constructor(narrow: Narrow<T>) {
    this.#narrow = narrow;
  }

  gather(isTrusted = true): Gathering<T> {
    const listed = new Map<string, Entry<T | null>>();
    const gathering: Gathering<T> = {
      listed,
      deleted: new Map(),
      add: (object) => {
        const { key, version } = object;
        const known = this.#held.get(key);
        const isKnown = isTrusted && known !== undefined && known.version === version;
        listed.set(key, isKnown ? known : { version, value: this.#narrow(object, known?.value ?? null) });
      },
      end: () => this.#gatherings.delete(gathering),
    };
    this.#gatherings.add(gathering);
    return gathering;
  }

  size(): number {
    return this.#held.size;
  }

  position(): number | null {
    return this.#position;
  }

  advance(version: number): void {
    this.#position = Math.max(this.#position ?? 0, version);
  }

  forget(): void {
    this.#position = null;
  }

  take(object: RawObject, isDeletion: boolean): Taken<T> {
    const { key, version } = object;
    const known = this.#held.get(key);
    const isLate = this.#position !== null && version <= this.#position;
    if (known !== undefined && version <= known.version) return NO_NEWS;
    if (isDeletion) {
      for (const { deleted } of this.#gatherings) deleted.set(key, version);
      const change = known === undefined ? null : this.#put(key, version, null);
      this.#position = Math.max(this.#position ?? 0, version);
      return { change, isDisordered: isLate && change !== null };
    }
    const value = this.#narrow(object, known?.value ?? null);
    // Deleted since, or never told: that can't be known.
    if (isLate && known === undefined) return { change: null, isDisordered: value !== null };
    this.#position = Math.max(this.#position ?? 0, version);
    return { change: this.#put(key, version, value), isDisordered: isLate };
  }

  replace({ listed }: Gathering<T>, version: number): readonly Change<T>[] {
    const changes: Change<T>[] = [];
    const next = new Map<string, Entry<T>>();
    for (const [key, entry] of listed) {
      if (!isKept(entry)) continue;
      next.set(key, entry);
      const before = this.#held.get(key)?.value ?? null;
      if (before !== entry.value) changes.push({ key, before, now: entry.value });
    }
    for (const [key, { value }] of this.#held) {
      if (!next.has(key)) changes.push({ key, before: value, now: null });
    }
    this.#held = next;
    this.#position = version;
    return changes;
  }

  correct({ listed, deleted }: Gathering<T>, version: number): readonly Change<T>[] {
    const changes: Change<T>[] = [];
    const set = (key: string, of: number, now: T | null): void => {
      const change = this.#put(key, of, now);
      if (change !== null) changes.push(change);
    };
    for (const [key, entry] of listed) {
      const known = this.#held.get(key);
      const newest = known?.version ?? deleted.get(key) ?? 0;
      const isOther = newest === entry.version && !sameValue(known?.value ?? null, entry.value);
      if (newest < entry.version || isOther) set(key, entry.version, entry.value);
    }
    for (const [key, entry] of this.#held) {
      if (!listed.has(key) && entry.version <= version) set(key, version, null);
    }
    return changes;
  }

  #put(key: string, version: number, now: T | null): Change<T> | null {
    const before = this.#held.get(key)?.value ?? null;
    if (now === null) this.#held.delete(key);
    else this.#held.set(key, { version, value: now });
    return now === before ? null : { key, before, now };
  }
}

function isKept<T>(entry: Entry<T | null>): entry is Entry<T> {
  return entry.value !== null;
}
