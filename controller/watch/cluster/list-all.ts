import { asFields } from '../../../apis/schema/json-schema.ts';
import { readBody } from '../../../lib/process/body.ts';
import { watchdog } from '../../../lib/process/timers.ts';
import { toWatchFailure, WatchFailure } from './failure.ts';
import { type RawObject, throwRefusal, toRawObject, toVersion } from './raw-object.ts';
import { groupVersionPath, type Resource, resourcePath } from './resources.ts';
import type { ApiAnswer, ApiGet } from './transport.ts';

export interface Listing {
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
export async function listAll(listing: Listing, take: (object: RawObject) => void): Promise<number> {
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
export async function newestVersion(listing: Listing): Promise<number> {
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
export async function isAbsent(listing: Listing): Promise<boolean> {
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
