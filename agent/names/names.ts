import type { NamesConfig } from '../../apis/config.ts';
import type { NameTable } from '../../apis/names.ts';
import type { Clock } from '../../lib/process/clock.ts';
import type { LineLog, Log } from '../../lib/process/log.ts';
import { type StateFile, stateFile } from '../../lib/process/state-file.ts';
import { pace } from '../../lib/process/timers.ts';
import {
  type AnswerListener,
  type AnswerSource,
  learner,
  nflogAnswers,
  type OpenAnswers,
} from './learner.ts';
import { isWildcard } from './name-entry.ts';
import { nameReports } from './name-reports.ts';
import { NameServers, type ReadText, reservedAddresses } from './name-servers.ts';
import { KnownNames } from './name-table.ts';
import { type Lookup, lookup, Resolver } from './resolver.ts';
import {
  NAMES_FILE,
  NameSaver,
  parseNamesText,
  type SavedName,
  shifted,
  toNamesText,
} from './saved-names.ts';

interface WatchNamesOptions {
  readonly config: NamesConfig;
  readonly clock: Clock;
  /** Milliseconds since 1970; saved times must be valid in the next run. */
  readonly wallClock: () => number;
  /** Returns a number x with 0 ≤ x < 1. */
  readonly random: () => number;
  readonly log: LineLog;
  readonly file: StateFile;
  readonly lookup: Lookup;
  /** Null: do not read answers to other processes. */
  readonly answers: OpenAnswers | null;
  /** Default: node:fs; replaced in tests. */
  readonly readText?: ReadText;
  /** The addresses of the node itself and of the API server: wildcards do not learn them. */
  reserved(): readonly string[];
  /** Called when the addresses of a peer, or `servers`, changed. */
  changed(): void;
}

/** The names of the policies' fqdn peers, kept up to date. */
export interface WatchedNames {
  readonly table: NameTable;
  /** The DNS servers (CIDRs) whose answers are learnt. */
  readonly servers: readonly string[];
  /** Sets the fqdn peers. */
  want(peers: readonly string[]): void;
  /**
   * Resolves when every name has been queried, with whatever result; `changed` has been called for
   * all results by then.
   */
  settled(): Promise<void>;
  close(): Promise<void>;
}

/** Milliseconds between two calls of `changed`, at least. */
const CHANGE_INTERVAL = 100;
/** Milliseconds between two searches for expired addresses, at least. */
const SWEEP_INTERVAL = 1_000;
/** Milliseconds between two log lines about answers that were not read, at least. */
const MISSED_INTERVAL = 60_000;

/** Reads the saved names of an earlier run. No name is queried before the first `want`. */
export async function watchNames(options: WatchNamesOptions): Promise<WatchedNames> {
  const { config, clock, log } = options;
  const reports = nameReports(log, clock);
  const table = new KnownNames({
    times: config,
    reports,
    reserved: reservedAddresses(options.reserved, clock),
  });
  const servers = new NameServers(options);
  await servers.refresh();
  let saved = await readSaved(options);
  let wanted: string | null = null;

  const saver = saverOf(options, table);
  const changes = pace(clock, CHANGE_INTERVAL, () => {
    if (!table.consumeChange()) return;
    saver.request('changed');
    options.changed();
  });
  const resolving = new Resolver({
    lookup: options.lookup,
    clock,
    times: config,
    random: options.random,
    resolved(name, resolution) {
      table.resolved(name, resolution, clock.now());
      happened();
    },
  });
  const listening = listener(options, { table, servers, learnt: happened });
  const sweeps = sweeper(clock, () => {
    const next = table.sweep(clock.now());
    changes.request();
    return next;
  });

  /** Called after each answer. */
  function happened(): void {
    saver.request('seen');
    changes.request();
    sweeps.plan(clock.now() + 1000 * Math.max(config.minimumTTL, config.keep));
  }

  return {
    table,
    get servers() {
      return servers.cidrs;
    },
    want(peers) {
      const text = peers.join();
      if (text === wanted) return;
      wanted = text;
      table.want(peers);
      table.fromSaved(saved, clock.now());
      // Keeps the other names, which later peers may match: at a start, the last good state is
      // followed by the manifests.
      saved = saved.filter(({ name }) => !table.wants(name));
      // A caller that sets other peers reads the table afterwards anyway.
      table.consumeChange();
      saver.request('changed');
      if (peers.length > 0) sweeps.plan(clock.now());
      resolving.want(table.literals);
      listening.want(peers);
    },
    async settled() {
      await resolving.settled();
      changes.flush();
    },
    async close() {
      resolving.close();
      changes.close();
      sweeps.close();
      reports.flush();
      await listening.close();
      await saver.close();
    },
  };
}

function saverOf(options: WatchNamesOptions, table: KnownNames): NameSaver {
  const { file, clock, log } = options;
  const text = (): string => toNamesText(table.toSaved(clock.now()), clock.now(), toWall(options));
  return new NameSaver({ file, clock, log, text });
}

/**
 * Milliseconds to add to the clock's times to get those since 1970. Asked anew each time: the wall
 * clock may have been set, and saved times must not look a day old after a restart.
 */
function toWall({ clock, wallClock }: WatchNamesOptions): number {
  return wallClock() - clock.now();
}

/** Reads other processes' answers while there are peers; `learnt` is called after new addresses. */
function listener(
  { config, clock, log, answers }: WatchNamesOptions,
  { table, servers, learnt }: { table: KnownNames; servers: NameServers; learnt: () => void },
) {
  let source: AnswerSource | null = null;
  let lost = 0;
  const learning = learner({
    clock,
    wants: (name) => table.wants(name),
    learnt: (name, records) => table.learnt(name, records, clock.now()),
  });
  const missed = pace(clock, MISSED_INTERVAL, () => {
    const { skipped, garbage } = learning.counts;
    log.warn('DNS answers were lost, they arrived too fast', { stage: 'names', lost, skipped, garbage });
  });
  const take: AnswerListener = (batch) => {
    const before = { ...learning.counts };
    learning.read(batch.packets);
    lost += batch.lost;
    if (batch.lost > 0 || learning.counts.skipped > before.skipped) missed.request();
    if (learning.counts.learnt > before.learnt) learnt();
  };
  return {
    want(peers: readonly string[]): void {
      if (peers.length > 0 && answers !== null) source ??= answers(take);
      if (peers.length === 0) void source?.close();
      if (peers.length === 0) source = null;
      servers.watch(source !== null);
      const names = peers.filter(isWildcard);
      if (config.learn || names.length === 0) return;
      const message = 'fqdn peers with a wildcard match nothing: names.learn is off in the configuration';
      log.warn(message, { stage: 'names', names });
    },
    async close(): Promise<void> {
      missed.close();
      servers.watch(false);
      await source?.close();
    },
  };
}

/** Plans the next sweep; `sweep` returns when one is needed again. */
function sweeper(clock: Clock, sweep: () => number | null) {
  let planned: { readonly at: number; readonly cancel: () => void } | null = null;
  function plan(at: number): void {
    const time = Math.max(at, clock.now() + SWEEP_INTERVAL);
    if (planned !== null && planned.at <= time) return;
    planned?.cancel();
    planned = { at: time, cancel: clock.after(time - clock.now(), run) };
  }
  function run(): void {
    planned = null;
    const next = sweep();
    if (next !== null) plan(next);
  }
  return { plan, close: () => planned?.cancel() };
}

/** The saved names, with times of the clock; an unusable file is logged. */
async function readSaved(options: WatchNamesOptions): Promise<SavedName[]> {
  const { file, log } = options;
  const offset = toWall(options);
  try {
    const text = await file.read();
    return text === null ? [] : parseNamesText(text).names.map((name) => shifted(name, -offset));
  } catch (error) {
    log.error('cannot read the saved FQDN cache; starting with an empty one', {
      stage: 'names',
      error: (error as Error).message,
    });
    return [];
  }
}

export interface FqdnResolverOptions {
  readonly config: NamesConfig;
  readonly clock: Clock;
  readonly log: Log;
  readonly stateDir: string;
  readonly once: boolean;
  readonly reserved: () => readonly string[];
}

/**
 * The FQDN cache with its real dependencies: DNS, nflog, the state directory. Loaded only when a
 * rule needs it.
 */
export function namesOnNode(
  { config, clock, log, stateDir, once, reserved }: FqdnResolverOptions,
  changed: () => void,
): Promise<WatchedNames> {
  return watchNames({
    config,
    clock,
    log,
    changed,
    reserved,
    wallClock: Date.now,
    random: Math.random,
    file: stateFile(stateDir, NAMES_FILE),
    lookup: lookup(config.servers, clock),
    answers: config.learn && !once ? nflogAnswers({ group: config.group, clock, log }) : null,
  });
}
