import { asFields } from '../../../apis/schema/json-schema.ts';
import { readBody } from '../../../lib/process/body.ts';
import { watchdog } from '../../../lib/process/timers.ts';
import { type RawObject, throwRefusal, toRawObject, toVersion } from './object-store.ts';
import { groupVersionPath, type Resource, resourcePath } from './resources.ts';
import { type ApiAnswer, type ApiGet, toWatchFailure, WatchFailure } from './transport.ts';
import type { WatchTimes } from './watch-failures.ts';

interface ResourceListerOptions {
  readonly resource: Resource;
  readonly get: ApiGet;
  readonly times: Pick<WatchTimes, 'answer' | 'absence'>;
  /** Aborted when the reflector closes. */
  readonly signal: AbortSignal;
}

/** The content of the store: objects, none, or none because the CRD doesn't exist. */
type Stored = 'objects' | 'none' | 'absent';

/**
 * Objects on a page; multiplied by four each time the pages of a list expire before the last one is
 * read.
 */
const PAGE = 500;
const MOST_A_PAGE = 32_000;

/** Lists one resource, and decides when its CRD is truly missing. */
export class ResourceLister {
  readonly #options: ResourceListerOptions;
  #limit = PAGE;
  /**
   * Time since which a CRD that had objects is missing (monotonic milliseconds); null while it
   * exists.
   */
  #missingSince: number | null = null;

  constructor(options: ResourceListerOptions) {
    this.#options = options;
  }

  /**
   * Passes every object on, and returns the version of the list; null: the CRD doesn't exist.
   * Throws a WatchFailure, also if the absence can't be confirmed, or not yet; then the objects
   * passed on must be discarded.
   */
  async list(take: (object: RawObject) => void, stored: Stored): Promise<number | null> {
    try {
      const version = await listAll(this.#listing(), take);
      this.#limit = PAGE;
      this.#missingSince = null;
      return version;
    } catch (error) {
      const failure = toWatchFailure(error);
      if (failure.reason === 'expired') this.#limit = Math.min(this.#limit * 4, MOST_A_PAGE);
      if (failure.reason !== 'missing' || !this.#options.resource.isCustom) throw failure;
      if (stored === 'absent' || (await this.#isAbsent(stored))) return null;
      throw failure;
    }
  }

  /** The same for a list that nothing depends on; a missing CRD is a failure. */
  listBeside(take: (object: RawObject) => void): Promise<number> {
    return listAll(this.#listing(), take);
  }

  /** The version that the API server's data have now. */
  newestVersion(): Promise<number> {
    return newestVersion(this.#listing());
  }

  async #isAbsent(stored: Stored): Promise<boolean> {
    if (!(await isAbsent(this.#listing()))) return false;
    if (stored === 'none') return true;
    this.#missingSince ??= performance.now();
    if (performance.now() - this.#missingSince < this.#options.times.absence) return false;
    this.#missingSince = null;
    return true;
  }

  #listing(): Listing {
    const { resource, get, signal, times } = this.#options;
    return { resource, get, signal, patience: times.answer, limit: this.#limit };
  }
}

interface Listing {
  readonly resource: Resource;
  readonly get: ApiGet;
  readonly signal: AbortSignal;
  /** Time limit for each next piece of data (milliseconds). */
  readonly patience: number;
  /** Objects on a page. */
  readonly limit: number;
}

/**
 * Lists every object of a resource, page by page; each is passed on and not stored. Returns the
 * resource version of the list. Throws a WatchFailure; then the objects passed on must be
 * discarded.
 */
async function listAll(listing: Listing, take: (object: RawObject) => void): Promise<number> {
  const { resource, limit } = listing;
  let version: number | null = null;
  let next = '';
  do {
    const query = { limit: String(limit), ...(next === '' ? {} : { continue: next }) };
    const page = toPage(await getJson(listing, resourcePath(resource, query)));
    for (const item of page.items) take(toRawObject(item, resource));
    // If pages have different versions, a watch from the first one delivers the later changes.
    version ??= page.version;
    next = page.next;
  } while (next !== '');
  return version;
}

/** The version that the API server's data have now. */
async function newestVersion(listing: Listing): Promise<number> {
  const { resource } = listing;
  return toPage(await getJson(listing, resourcePath(resource, { limit: '1' }))).version;
}

interface Page {
  readonly items: readonly unknown[];
  readonly version: number;
  readonly next: string;
}

function toPage(value: unknown): Page {
  const { kind, metadata, items } = asFields(value) ?? {};
  const { resourceVersion, continue: next } = asFields(metadata) ?? {};
  // Go encodes an empty list of items as null.
  const isList =
    typeof kind === 'string' && kind.endsWith('List') && (items === null || Array.isArray(items));
  if (!isList) throw new WatchFailure('malformed', 'the answer is not a list of objects');
  return {
    items: Array.isArray(items) ? items : [],
    version: toVersion(resourceVersion),
    next: typeof next === 'string' ? next : '',
  };
}

/**
 * Whether a 404 is true: discovery, which lists every resource, doesn't have this one. A 404 page
 * of another server, or of an API server that is still starting, must not be taken for the absence
 * of policies. Throws if discovery can't be read.
 */
async function isAbsent(listing: Listing): Promise<boolean> {
  const { resource } = listing;
  const path = groupVersionPath(resource);
  const { resources } = asFields(await getJson(listing, path, null)) ?? {};
  if (Array.isArray(resources)) return !resources.some((one) => asFields(one)?.name === resource.plural);
  const { kind, groups } = asFields(await getJson(listing, '/apis')) ?? {};
  if (kind !== 'APIGroupList' || !Array.isArray(groups)) {
    throw new WatchFailure('malformed', 'the answer is not a list of API groups');
  }
  const versions = groups.flatMap((group) => asFields(group)?.versions ?? []);
  return !versions.some((version) => asFields(version)?.groupVersion === resource.apiVersion);
}

/** @param missing the result for a 404; without it, a 404 throws */
async function getJson(listing: Listing, path: string, missing?: null): Promise<unknown> {
  const limit = watchdog(listing.patience, listing.signal);
  try {
    const answer = await listing.get(path, limit.signal);
    if (answer.status === 404 && missing === null) {
      await drain(answer);
      return null;
    }
    if (answer.status !== 200) return await throwRefusal(answer);
    return await jsonOf(answer, () => limit.restart());
  } catch (error) {
    if (!limit.isOver()) throw toWatchFailure(error);
    throw new WatchFailure('silent', `no data was received for ${listing.patience} ms`, { cause: error });
  } finally {
    limit.clear();
  }
}

async function jsonOf({ chunks }: ApiAnswer, came: () => void): Promise<unknown> {
  const accept = (): boolean => {
    came();
    return true;
  };
  const body = await readBody(chunks, Number.POSITIVE_INFINITY, accept);
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(body ?? undefined));
  } catch (cause) {
    throw new WatchFailure('malformed', `the answer is not valid JSON: ${(cause as Error).message}`, {
      cause,
    });
  }
}

/** Reads the rest of the body, so that the connection can be reused. */
async function drain({ chunks }: ApiAnswer): Promise<void> {
  for await (const _ of chunks);
}
