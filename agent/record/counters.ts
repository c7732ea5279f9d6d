import type { NodeState } from '../../apis/compiled.ts';
import type { StateFile } from '../../lib/process/state-file.ts';
import { MAX_CHAINS_READ } from '../apply/netlink/kernel.ts';
import {
  type Accounting,
  accounting,
  type CountedTable,
  type Owners,
  type RuleTotals,
} from './accounting.ts';
import type { RecordLog } from './record-log.ts';

/** Milliseconds between two readings of all counters, at least. */
const READ_INTERVAL = 10_000;
/**
 * Lower bound of that interval as a multiple of the duration of the last reading, so that an idle
 * agent needs at most 1/500 of a processor; it exceeds READ_INTERVAL from about 3,000 rules on.
 */
const READ_SHARE = 500;
/**
 * Milliseconds. While a reading takes less (up to about 3,000 rules), all counters are read after
 * every change.
 */
const CHEAP = 20;
const SAVE_INTERVAL = 30_000;
/**
 * Milliseconds after a change of the ruleset: `nodewall rules` soon knows the new chains, and a
 * kill -9 does not lose the counters of deleted ones.
 */
const READ_AFTER_CHANGE = 200;

/**
 * Receives every reading of the kernel, whoever requested it, so that nothing is read twice. An
 * older reading must never follow a newer one.
 */
export interface Readings {
  /** The whole table; null: there is none. */
  all(table: CountedTable | null): void;
  /** Some of its chains. */
  some(chains: CountedTable['chains']): void;
}

/** Reads the kernel and passes the result to Readings. */
export interface CountSource {
  readAll(): Promise<void>;
  /** Reads the chains with these names; more if that costs no more. */
  readSome(names: readonly string[]): Promise<void>;
}

export interface Counters {
  readonly readings: Readings;
  /**
   * Must resolve before anything is applied: the kernel's counters up to then belong to the chains
   * that were saved.
   */
  start(source: CountSource): Promise<void>;
  /** Sets the chains and rules in force. */
  enforced(owners: Owners, state: NodeState): void;
  hit(rule: string, time: string): void;
  /** Reads all counters. Never rejects. */
  read(): Promise<void>;
  totals(): Map<string, RuleTotals>;
  /** Reads and saves a last time. */
  close(): Promise<void>;
}

export interface CountersOptions {
  readonly file: StateFile;
  readonly log: RecordLog;
  /** False: read and save only at the start and at the end (`agent --once`). */
  readonly running: boolean;
}

/**
 * Maintains the counters of the rules: reads the kernel periodically, saves the counters, and logs
 * once if they cannot be read.
 */
export function ruleCounters({ file, log, running }: CountersOptions): Counters {
  let accounts: Accounting = accounting();
  let saved = '';
  let source: CountSource | null = null;
  let readable = true;
  let closed = false;
  let lastTook = 0;
  let again: NodeJS.Timeout | null = null;
  let saving: NodeJS.Timeout | null = null;
  let soon: NodeJS.Timeout | null = null;

  const readings: Readings = {
    all(table) {
      if (source !== null) accounts.read(table, new Date().toISOString());
    },
    some(chains) {
      if (source !== null) accounts.readSome(chains, new Date().toISOString());
    },
  };
  async function read(work = (from: CountSource) => from.readAll()): Promise<void> {
    if (source === null) return;
    try {
      await work(source);
      readable = true;
    } catch (error) {
      if (readable) log.warn('cannot read the rule counters; retrying', { error: (error as Error).message });
      readable = false;
    }
  }
  /** After a change: in a large table, reads only the new chains. */
  async function readNew(from: CountSource): Promise<void> {
    const names = accounts.unread();
    if (names.length > MAX_CHAINS_READ || lastTook < CHEAP) await from.readAll();
    else await from.readSome(names);
  }
  /** Takes 60 ms for a table of 10,000 rules. */
  async function readAgain(): Promise<void> {
    const began = performance.now();
    await read();
    lastTook = performance.now() - began;
    const wait = Math.max(READ_INTERVAL, READ_SHARE * lastTook);
    if (!closed) again = setTimeout(() => void readAgain(), wait).unref();
  }
  async function save(): Promise<void> {
    const text = JSON.stringify(accounts.save());
    if (text === saved) return;
    try {
      await file.write(text);
      saved = text;
    } catch (error) {
      log.error('cannot save the rule counters; retrying', { error: (error as Error).message });
    }
  }

  return {
    readings,
    async start(from) {
      try {
        saved = (await file.read()) ?? '';
        if (saved !== '') accounts = accounting(JSON.parse(saved));
      } catch (error) {
        log.error('cannot read the saved counters; counting from 0', { error: (error as Error).message });
      }
      source = from;
      if (!running) return await read();
      await readAgain();
      saving = setInterval(() => void save(), SAVE_INTERVAL).unref();
    },
    enforced(owners, state) {
      accounts.know(owners);
      accounts.keep(new Set(state.rules.map(({ id }) => id)));
      if (!running) return;
      soon ??= setTimeout(() => {
        soon = null;
        void read(readNew).then(save);
      }, READ_AFTER_CHANGE).unref();
    },
    hit: (rule, time) => accounts.hit(rule, time),
    read: () => read(),
    totals: () => accounts.totals(),
    async close() {
      closed = true;
      for (const timer of [again, saving]) if (timer !== null) clearTimeout(timer);
      if (soon !== null) clearTimeout(soon);
      await read();
      if (source !== null) await save();
    },
  };
}
