import { asFields, type FieldMap } from '../../../apis/schema/json-schema.ts';
import { sameValue } from '../keep-objects.ts';
import type { Resource } from './resources.ts';
import { type ApiAnswer, reasonOfCode, WatchFailure } from './transport.ts';

/**
 * Converts an object to its stored form; null: it is not stored. `before` is the stored form of its
 * previous version, and is returned if it is equal.
 */
export type Narrow<T> = (object: RawObject, before: T | null) => T | null;

export interface StoreChange<T> {
  readonly key: string;
  readonly before: T | null;
  readonly now: T | null;
}

interface Taken<T> {
  /**
   * Null if nothing changed: a repeated event, one older than the stored object, or an object that
   * isn't stored.
   */
  readonly change: StoreChange<T> | null;
  /**
   * The event was news, but came after an event of a newer version, which an API server never does:
   * a list must restore the true state.
   */
  readonly isDisordered: boolean;
}

/** A list while it is read. */
export interface PartialList<T> {
  add(object: RawObject): void;
  readonly listed: ReadonlyMap<string, Entry<T | null>>;
  /** Versions of deletions received while the list was read. */
  readonly deleted: Map<string, number>;
  /** Stops recording deletions. */
  end(): void;
}

interface Entry<T> {
  readonly version: number;
  readonly value: T;
}

const NO_NEWS = { change: null, isDisordered: false } as const;

/** How far a watch has come: resource versions, which are comparable within one cluster. */
export interface WatchPosition {
  /** The version of the newest object or deletion that was received; 0: none. */
  readonly newest: number;
  /** Up to this version no event is missing; 0: not listed yet, or the CRD doesn't exist. */
  readonly reached: number;
}

/** The stored objects of a resource, each with its version. */
export class ObjectStore<T> {
  readonly #narrow: Narrow<T>;
  #stored = new Map<string, Entry<T>>();
  #position: number | null = null;
  readonly #lists = new Set<PartialList<T>>();
  #newest = 0;

  constructor(narrow: Narrow<T>) {
    this.#narrow = narrow;
  }

  /**
   * Starts a list. If `isTrusted` is false, every object is narrowed again, also one that is stored
   * in the same version.
   */
  startList(isTrusted = true): PartialList<T> {
    const listed = new Map<string, Entry<T | null>>();
    const list: PartialList<T> = {
      listed,
      deleted: new Map(),
      add: (object) => {
        const { key, version } = object;
        const known = this.#stored.get(key);
        const isKnown = isTrusted && known !== undefined && known.version === version;
        listed.set(key, isKnown ? known : { version, value: this.#narrow(object, known?.value ?? null) });
      },
      end: () => this.#lists.delete(list),
    };
    this.#lists.add(list);
    return list;
  }

  size(): number {
    return this.#stored.size;
  }

  /**
   * The version up to which all events have been received; null before the first list, and after
   * `forget`.
   */
  position(): number | null {
    return this.#position;
  }

  /** The version of the newest object or deletion that was received; 0: none. */
  newest(): number {
    return this.#newest;
  }

  /** Handles a bookmark: no event up to this version is missing. */
  advance(version: number): void {
    this.#position = Math.max(this.#position ?? 0, version);
  }

  /** Resets the position, so that the next list replaces the stored objects. */
  forget(): void {
    this.#position = null;
  }

  receive(object: RawObject, isDeletion: boolean): Taken<T> {
    const { key, version } = object;
    const known = this.#stored.get(key);
    const isLate = this.#position !== null && version <= this.#position;
    if (known !== undefined && version <= known.version) return NO_NEWS;
    this.#newest = Math.max(this.#newest, version);
    if (isDeletion) {
      for (const { deleted } of this.#lists) deleted.set(key, version);
      const change = known === undefined ? null : this.#put(key, version, null);
      this.#position = Math.max(this.#position ?? 0, version);
      return { change, isDisordered: isLate && change !== null };
    }
    const value = this.#narrow(object, known?.value ?? null);
    // The object was deleted since, or its event is out of order: these can't be distinguished.
    if (isLate && known === undefined) return { change: null, isDisordered: value !== null };
    this.#position = Math.max(this.#position ?? 0, version);
    return { change: this.#put(key, version, value), isDisordered: isLate };
  }

  /** Replaces the stored objects by those of the list, which is of this version. */
  replace({ listed }: PartialList<T>, version: number): readonly StoreChange<T>[] {
    const changes: StoreChange<T>[] = [];
    const next = new Map<string, Entry<T>>();
    for (const [key, entry] of listed) {
      if (!isStored(entry)) continue;
      next.set(key, entry);
      const before = this.#stored.get(key)?.value ?? null;
      if (before !== entry.value) changes.push({ key, before, now: entry.value });
    }
    for (const [key, { value }] of this.#stored) {
      if (!next.has(key)) changes.push({ key, before: value, now: null });
    }
    this.#stored = next;
    this.#position = version;
    // Counted anew: after a restore of etcd, versions are lower.
    this.#newest = 0;
    for (const { version } of listed.values()) this.#newest = Math.max(this.#newest, version);
    return changes;
  }

  /**
   * Corrects and returns the differences that watch events missed, compared to a list of this
   * version that was requested and read during the watch. Objects that events changed since then
   * are newer and stay.
   */
  correct({ listed, deleted }: PartialList<T>, version: number): readonly StoreChange<T>[] {
    const changes: StoreChange<T>[] = [];
    const set = (key: string, of: number, now: T | null): void => {
      const change = this.#put(key, of, now);
      if (change !== null) changes.push(change);
    };
    for (const [key, entry] of listed) {
      const known = this.#stored.get(key);
      const newest = known?.version ?? deleted.get(key) ?? 0;
      const isOther = newest === entry.version && !sameValue(known?.value ?? null, entry.value);
      if (newest < entry.version || isOther) set(key, entry.version, entry.value);
    }
    for (const [key, entry] of this.#stored) {
      if (!listed.has(key) && entry.version <= version) set(key, version, null);
    }
    return changes;
  }

  #put(key: string, version: number, now: T | null): StoreChange<T> | null {
    const before = this.#stored.get(key)?.value ?? null;
    if (now === null) this.#stored.delete(key);
    else this.#stored.set(key, { version, value: now });
    return now === before ? null : { key, before, now };
  }
}

function isStored<T>(entry: Entry<T | null>): entry is Entry<T> {
  return entry.value !== null;
}

/** An object as the API sends it, with its key and version. */
export interface RawObject {
  /** `NAMESPACE/NAME`, or `NAME`. */
  readonly key: string;
  readonly version: number;
  readonly raw: FieldMap;
}

/**
 * Sets kind and apiVersion from the resource, because the API omits them in the list items of
 * built-in resources.
 */
export function toRawObject(value: unknown, { kind, apiVersion }: Resource): RawObject {
  const raw = asFields(value);
  const metadata = asFields(raw?.metadata);
  if (raw === null || metadata === null) throw new WatchFailure('malformed', 'an object has no metadata');
  const { name, namespace, resourceVersion } = metadata;
  if (typeof name !== 'string' || name === '') {
    throw new WatchFailure('malformed', 'an object has no metadata.name');
  }
  const key = typeof namespace === 'string' && namespace !== '' ? `${namespace}/${name}` : name;
  return { key, version: toVersion(resourceVersion), raw: { ...raw, apiVersion, kind } };
}

/**
 * Versions of one resource are compared as numbers: they are etcd's revisions, and since Kubernetes
 * 1.35 the API guarantees it (KEP-5504, Comparable Resource Version). Throws a WatchFailure if the
 * value is not a number.
 */
export function toVersion(value: unknown): number {
  if (typeof value === 'string' && /^[1-9]\d{0,15}$/.test(value)) {
    const version = Number(value);
    if (Number.isSafeInteger(version)) return version;
  }
  throw new WatchFailure('malformed', `resourceVersion ${JSON.stringify(value)} is not a number`);
}

/** One line of a watch (metav1.WatchEvent). */
type WatchEvent =
  | { readonly kind: 'put' | 'delete'; readonly object: RawObject }
  | { readonly kind: 'bookmark'; readonly version: number };

/** Throws a WatchFailure for an ERROR event, and for anything that is not an event. */
export function parseWatchEvent(line: string, resource: Resource): WatchEvent {
  let value: unknown;
  try {
    value = JSON.parse(line);
  } catch (cause) {
    throw new WatchFailure('malformed', `an event is not valid JSON: ${(cause as Error).message}`, { cause });
  }
  const { type, object } = asFields(value) ?? {};
  switch (type) {
    case 'ADDED':
    case 'MODIFIED':
      return { kind: 'put', object: toRawObject(object, resource) };
    case 'DELETED':
      return { kind: 'delete', object: toRawObject(object, resource) };
    case 'BOOKMARK':
      return { kind: 'bookmark', version: toVersion(asFields(asFields(object)?.metadata)?.resourceVersion) };
    case 'ERROR':
      throw statusFailure(object);
    default:
      throw new WatchFailure('malformed', `unknown type of event: ${JSON.stringify(type)}`);
  }
}

/**
 * Throws a WatchFailure for an unsuccessful response, with the message of its metav1.Status or the
 * first 200 characters of its body.
 */
export async function throwRefusal({ status, retryAfter, chunks }: ApiAnswer): Promise<never> {
  const text = await textOf(chunks, MOST_OF_REFUSAL);
  let said: unknown;
  try {
    said = JSON.parse(text);
  } catch {
    // A proxy's error page, or no body: the status alone is reported.
  }
  const { kind, message } = asFields(said) ?? {};
  if (kind === 'Status') throw statusFailure(said, status, retryAfter);
  const words = typeof message === 'string' ? message : text.slice(0, 200).trim();
  throw new WatchFailure(reasonOfCode(status), `${status}${words === '' ? '' : `: ${words}`}`, {
    retryAfter,
  });
}

const MOST_OF_REFUSAL = 64 * 1024;

/** Converts a metav1.Status: the body of a response, or the object of an ERROR event. */
function statusFailure(
  value: unknown,
  status: number | null = null,
  retryAfter: number | null = null,
): WatchFailure {
  const { code, reason, message, details } = asFields(value) ?? {};
  const { retryAfterSeconds } = asFields(details) ?? {};
  const number = status ?? (typeof code === 'number' ? code : 0);
  const isExpired = reason === 'Expired' || reason === 'Gone';
  const words = [number, reason, message].filter((part) => part !== undefined && part !== '').join(' ');
  const wait = retryAfter ?? (typeof retryAfterSeconds === 'number' ? retryAfterSeconds * 1000 : null);
  return new WatchFailure(isExpired ? 'expired' : reasonOfCode(number), words, { retryAfter: wait });
}

/**
 * A body as text, truncated to `most` bytes. Unlike readBody it reads on to the end, so that the
 * connection can be used again.
 */
async function textOf(chunks: AsyncIterable<Buffer>, most: number): Promise<string> {
  const kept: Buffer[] = [];
  let size = 0;
  for await (const chunk of chunks) {
    if (size < most) kept.push(chunk);
    size += chunk.length;
  }
  return Buffer.concat(kept).subarray(0, most).toString();
}
