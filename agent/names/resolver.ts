import { Resolver as DnsResolver, type RecordWithTtl } from 'node:dns';
import { BackOff } from '../../lib/process/back-off.ts';
import type { Clock } from '../../lib/process/clock.ts';
import type { FamilyAnswer, Resolution } from './name-entry.ts';
import { clampTTL, type NameTimes } from './name-table.ts';

interface ResolverOptions {
  readonly lookup: Lookup;
  readonly clock: Clock;
  readonly times: NameTimes;
  /** Returns a number 0 ≤ x < 1. */
  readonly random: () => number;
  resolved(name: string, resolution: Resolution): void;
}

/** The most names resolved at the same time. */
const CONCURRENCY = 100;
/** Names that are due within this time share one wake-up (milliseconds). */
const TICK = 100;
/** Wait after a failure (milliseconds), doubled with each further failure. */
const FIRST_RETRY = 5_000;
const LAST_RETRY = 60_000;
/** The share by which waits vary, so that names resolved together don't stay together. */
const JITTER = 0.1;

interface Task {
  due: number;
  isRunning: boolean;
  wasAsked: boolean;
  readonly retries: BackOff;
}

/**
 * Resolves each name again when its shortest TTL has ended, within the configured bounds; after a
 * failure with back-off.
 */
export class Resolver {
  readonly #options: ResolverOptions;
  readonly #tasks = new Map<string, Task>();
  #waiting: (() => void)[] = [];
  #running = 0;
  #cancel: (() => void) | null = null;
  #closed = false;

  constructor(options: ResolverOptions) {
    this.#options = options;
  }

  /** Sets the names to resolve from now on; a new one is resolved at once. */
  want(names: readonly string[]): void {
    const wanted = new Set(names);
    for (const name of this.#tasks.keys()) if (!wanted.has(name)) this.#tasks.delete(name);
    for (const name of wanted) {
      if (this.#tasks.has(name)) continue;
      const retries = new BackOff({ first: FIRST_RETRY, longest: LAST_RETRY });
      this.#tasks.set(name, { due: this.#options.clock.now(), isRunning: false, wasAsked: false, retries });
    }
    this.#tellSettled();
    this.#cancel?.();
    this.#cancel = null;
    this.#schedule();
  }

  /** Resolves once every name has been asked for, successfully or not. */
  settled(): Promise<void> {
    return new Promise((resolve) => {
      this.#waiting.push(resolve);
      this.#tellSettled();
    });
  }

  close(): void {
    this.#closed = true;
    this.#cancel?.();
    this.#options.lookup.close();
    for (const tell of this.#waiting) tell();
    this.#waiting = [];
  }

  #wait(resolution: Resolution, task: Task): number {
    const { times, random } = this.#options;
    const ttl = shortestTTL(resolution);
    const early = JITTER * random();
    if (ttl === null) return task.retries.next() * (1 - early);
    task.retries.reset();
    const milliseconds = 1000 * clampTTL(ttl, times);
    const late = milliseconds * (1 + early);
    return late <= 1000 * times.maximumTTL ? late : milliseconds * (1 - early);
  }

  async #ask(name: string, task: Task): Promise<void> {
    const { lookup, clock, resolved } = this.#options;
    this.#running++;
    task.isRunning = true;
    const resolution = await lookup.resolve(name);
    this.#running--;
    task.isRunning = false;
    task.wasAsked = true;
    task.due = clock.now() + this.#wait(resolution, task);
    if (!this.#closed && this.#tasks.get(name) === task) resolved(name, resolution);
    this.#tellSettled();
    this.#schedule();
  }

  #tellSettled(): void {
    if (this.#waiting.length === 0 || [...this.#tasks.values()].some(({ wasAsked }) => !wasAsked)) return;
    for (const tell of this.#waiting) tell();
    this.#waiting = [];
  }

  #work(): void {
    this.#cancel = null;
    const now = this.#options.clock.now();
    const due = [...this.#tasks].filter(([, task]) => !task.isRunning && task.due <= now);
    // The name that has waited longest is first: names that fail slowly must not delay the others.
    due.sort(([, a], [, b]) => a.due - b.due);
    for (const [name, task] of due.slice(0, CONCURRENCY - this.#running)) void this.#ask(name, task);
    this.#schedule();
  }

  #schedule(): void {
    // Each lookup that ends calls this function again.
    if (this.#closed || this.#cancel !== null || this.#running >= CONCURRENCY) return;
    let first = Number.POSITIVE_INFINITY;
    for (const { due, isRunning } of this.#tasks.values()) if (!isRunning) first = Math.min(first, due);
    if (first === Number.POSITIVE_INFINITY) return;
    const { clock } = this.#options;
    const inTime = first - clock.now();
    this.#cancel = clock.after(inTime <= 0 ? 0 : Math.max(inTime, TICK), () => this.#work());
  }
}

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
  let resolvers: readonly DnsResolver[] = [];
  let made = Number.NEGATIVE_INFINITY;

  function current(): DnsResolver {
    const [newest] = resolvers;
    if (newest !== undefined && clock.now() - made < LIFETIME) return newest;
    const resolver = new DnsResolver(PATIENCE);
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

/** The shortest TTL in seconds; null if there is no address. */
function shortestTTL(resolution: Resolution): number | null {
  const ttls = [resolution[4], resolution[6]].flatMap((answer) =>
    answer.kind === 'addresses' ? answer.records.map(({ ttl }) => ttl) : [],
  );
  return ttls.length === 0 ? null : ttls.reduce((a, b) => Math.min(a, b));
}
