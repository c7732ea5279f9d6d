import { toWatchFailure } from './failure.ts';
import { isAbsent, type Listing, listAll, newestVersion } from './list-all.ts';
import type { RawObject } from './raw-object.ts';
import type { Resource } from './resources.ts';
import type { ApiGet } from './transport.ts';
import type { WatchTimes } from './watch-times.ts';

export interface ResourceListerOptions {
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
