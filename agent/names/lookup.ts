import { type RecordWithTtl, Resolver } from 'node:dns';
import type { Family } from '../../lib/net/address.ts';
import type { Clock } from '../../lib/process/clock.ts';
import type { AddressRecord } from './name-entry.ts';

/** Resolves names. */
export interface Lookup {
  /** Never rejects, and always settles. */
  resolve(name: string): Promise<Resolution>;
  /** Lets all pending queries fail at once. */
  close(): void;
}

/** Milliseconds that a server has to answer, and the number of attempts. */
const PATIENCE = { timeout: 2_000, maxTimeout: 2_000, tries: 2 };
/**
 * Lifetime of a resolver in milliseconds. A new one reads /etc/resolv.conf again, uses another
 * port, and forgets which server was slow; creating one takes microseconds.
 */
const LIFETIME = 30_000;
/** Error codes for "no such records"; all others mean that there was no usable answer. */
const NOTHING: ReadonlySet<string | undefined> = new Set(['ENOTFOUND', 'ENODATA']);

/** Resolves with c-ares, by the configured servers, or by the system's if there are none. */
export function lookup(servers: readonly string[], clock: Clock): Lookup {
  let resolvers: readonly Resolver[] = [];
  let made = Number.NEGATIVE_INFINITY;

  function current(): Resolver {
    const [newest] = resolvers;
    if (newest !== undefined && clock.now() - made < LIFETIME) return newest;
    const resolver = new Resolver(PATIENCE);
    if (servers.length > 0) resolver.setServers(servers);
    made = clock.now();
    // The queries of a resolver have long ended when the second one after it is created.
    resolvers = [resolver, ...resolvers.slice(0, 1)];
    return resolver;
  }
  return {
    async resolve(name) {
      const [v4, v6] = await Promise.all([
        answerOf((done) => current().resolve4(name, { ttl: true }, done)),
        answerOf((done) => current().resolve6(name, { ttl: true }, done)),
      ]);
      return { 4: v4, 6: v6 };
    },
    close() {
      for (const resolver of resolvers) resolver.cancel();
    },
  };
}

type Done = (error: NodeJS.ErrnoException | null, records: RecordWithTtl[]) => void;

function answerOf(ask: (done: Done) => void): Promise<FamilyAnswer> {
  return new Promise<FamilyAnswer>((resolve) => {
    ask((error, records = []) => {
      // For c-ares, a CNAME chain that leads nowhere is not an error.
      if (error === null && records.length > 0) resolve({ kind: 'addresses', records });
      else if (error === null) resolve({ kind: 'none', reason: 'ENODATA' });
      else
        resolve({ kind: NOTHING.has(error.code) ? 'none' : 'failed', reason: error.code ?? error.message });
    });
  }).catch((error: Error) => ({ kind: 'failed', reason: error.message }));
}

/** The result of a query for the addresses of one family. */
export type FamilyAnswer =
  | { readonly kind: 'addresses'; readonly records: readonly AddressRecord[] }
  /** The server states that there are none. */
  | { readonly kind: 'none'; readonly reason: string }
  /** Not known: no answer, or no usable one. */
  | { readonly kind: 'failed'; readonly reason: string };

/** The result of the queries for a name. */
export type Resolution = Readonly<Record<Family, FamilyAnswer>>;

/** The shortest TTL in seconds; null if there is no address. */
export function shortestTTL(resolution: Resolution): number | null {
  const ttls = [resolution[4], resolution[6]].flatMap((answer) =>
    answer.kind === 'addresses' ? answer.records.map(({ ttl }) => ttl) : [],
  );
  return ttls.length === 0 ? null : ttls.reduce((a, b) => Math.min(a, b));
}
