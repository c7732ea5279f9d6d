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

/** Times in milliseconds. */
const READ_INTERVAL = 10_000;
/**
 * Or so many times what a reading took, which is longer where there are 3,000 rules: the idle agent
 * costs nothing to speak of.
 */
const READ_SHARE = 500;
/** A reading that took less than this is made after every change: 3,000 rules and less. */
const CHEAP = 20;
const SAVE_INTERVAL = 30_000;
/**
 * After a change of the ruleset: for `nodewall rules` to know the new chains, and so that a kill -9
 * forgets none that are gone.
 */
const READ_AFTER_CHANGE = 200;

/**
 * What was read of the kernel, whoever asked: none is read twice. An older reading must never
 * follow a newer one.
 */
export interface Readings {
  /** All that is ours; null: nothing is. */
  all(table: CountedTable | null): void;
  /** Some of it. */
  some(chains: CountedTable['chains']): void;
}

/** Reads the kernel, and says to Readings what it found. */
export interface CountSource {
  readAll(): Promise<void>;
  /** Chains of these names, more where that is no dearer. */
  readSome(names: readonly string[]): Promise<void>;
}

export interface Counters {
  readonly readings: Readings;
  /**
   * To be awaited before anything is applied: what the kernel counted so far belongs to the chains
   * that were saved.
   */
  start(source: CountSource): Promise<void>;
  /** What is in force now. */
  enforced(owners: Owners, state: NodeState): void;
  hit(rule: string, time: string): void;
  /** Reads the kernel. Never rejects. */
  read(): Promise<void>;
  totals(): Map<string, RuleTotals>;
  /** Reads and saves for the last time. */
  close(): Promise<void>;
}

export interface CountersParts {
  readonly file: StateFile;
  readonly log: RecordLog;
  /** Without it nothing is read or saved but at the start and the end (`agent --once`). */
  readonly running: boolean;
}

/**
 * Keeps the accounts of the rules: reads the kernel now and then, saves, and says once when that
 * can't be done.
 */
export function ruleCounters({ file, log, running }: CountersParts): Counters {
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
      if (readable) log.warn('cannot read the counters; trying again', { error: (error as Error).message });
      readable = false;
    }
  }
  /** After a change: in a large table only the chains that are new. */
  async function readNew(from: CountSource): Promise<void> {
    const names = accounts.unread();
    if (names.length > MAX_CHAINS_READ || lastTook < CHEAP) await from.readAll();
    else await from.readSome(names);
  }
  /** Of a table of 10,000 rules it takes 60 ms. */
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
      log.error('cannot save the counters of the rules; trying again', { error: (error as Error).message });
    }
  }

  return {
    readings,
    async start(from) {
      try {
        saved = (await file.read()) ?? '';
        if (saved !== '') accounts = accounting(JSON.parse(saved));
      } catch (error) {
        log.error('cannot use the saved counters; counting anew', { error: (error as Error).message });
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
