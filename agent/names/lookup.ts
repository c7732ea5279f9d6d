import { type RecordWithTtl, Resolver } from 'node:dns';
import type { Clock } from '../../lib/process/clock.ts';
import type { FamilyAnswer, Resolution } from './resolution.ts';

/** Asks for a name's addresses. */
export interface Lookup {
  /** Never rejects, and always ends. */
  resolve(name: string): Promise<Resolution>;
  /** What is still asked for fails at once. */
  close(): void;
}

/** Milliseconds that a server has to answer, and how often it is asked. */
const PATIENCE = { timeout: 2_000, maxTimeout: 2_000, tries: 2 };
/**
 * A resolver is used so long (milliseconds). A new one reads /etc/resolv.conf anew, asks from
 * another port, and forgets which server was slow; making it takes microseconds.
 */
const LIFETIME = 30_000;
/** Answers that say there is nothing; all else is no answer. */
const NOTHING: ReadonlySet<string | undefined> = new Set(['ENOTFOUND', 'ENODATA']);

/** By c-ares, with the servers of the configuration, or the system's where it names none. */
export function lookup(servers: readonly string[], clock: Clock): Lookup {
  let resolvers: readonly Resolver[] = [];
  let made = Number.NEGATIVE_INFINITY;

  function current(): Resolver {
    const [newest] = resolvers;
    if (newest !== undefined && clock.now() - made < LIFETIME) return newest;
    const resolver = new Resolver(PATIENCE);
    if (servers.length > 0) resolver.setServers(servers);
    made = clock.now();
    // What was asked of the one before has ended long ago when a third one comes.
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
      // A chain of names that leads nowhere is no error for c-ares.
      if (error === null && records.length > 0) resolve({ kind: 'addresses', records });
      else if (error === null) resolve({ kind: 'none', reason: 'ENODATA' });
      else
        resolve({ kind: NOTHING.has(error.code) ? 'none' : 'failed', reason: error.code ?? error.message });
    });
  }).catch((error: Error) => ({ kind: 'failed', reason: error.message }));
}
