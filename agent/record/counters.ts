import type { NodeState } from '../../apis/compiled.ts';
import { type Kernel, MAX_CHAINS_READ } from '../apply/kernel.ts';
import type { StateFile } from '../receive/statefile.ts';
import type { Ruleset } from '../render/ruleset.ts';
import { type Accounting, accounting, type RuleTotals } from './accounting.ts';
import type { RecordLog } from './recordlog.ts';

/** Times in milliseconds. */
const READ_INTERVAL = 10_000;
/** Or so many times what a reading took, which is longer where there are 3,000 rules: the idle agent costs nothing to speak of. */
const READ_SHARE = 500;
/** A reading that took less than this is made after every change: 3,000 rules and less. */
const CHEAP = 20;
const SAVE_INTERVAL = 30_000;
/** After a change of the ruleset: for `nodewall rules` to know the new chains, and so that a kill -9 forgets none that are gone. */
const READ_AFTER_CHANGE = 200;

export interface Counters {
  /** The kernel it was given: every reading of the table through it is counted, whoever asked, so that none is made twice. */
  readonly kernel: Kernel;
  /** To be awaited before anything is applied: what the kernel counted so far belongs to the chains that were saved. */
  start(): Promise<void>;
  /** What is in force now. */
  enforced(ruleset: Ruleset, state: NodeState): void;
  hit(rule: string, time: string): void;
  /** Reads the kernel. Never rejects. */
  read(): Promise<void>;
  totals(): Map<string, RuleTotals>;
  /** Reads and saves for the last time. */
  close(): Promise<void>;
}

export interface CountersParts {
  readonly kernel: Kernel;
  readonly file: StateFile;
  readonly log: RecordLog;
  /** Without it nothing is read or saved but at the start and the end (`agent --once`). */
  readonly running: boolean;
}

/** Keeps the accounts of the rules: reads the kernel now and then, saves, and says once when that can't be done. */
export function ruleCounters({ kernel, file, log, running }: CountersParts): Counters {
  let accounts: Accounting = accounting();
  let saved = '';
  let started = false;
  let readable = true;
  let closed = false;
  let lastTook = 0;
  let again: NodeJS.Timeout | null = null;
  let saving: NodeJS.Timeout | null = null;
  let soon: NodeJS.Timeout | null = null;

  // Answers come in the order of the questions (one socket), so an older reading never follows a newer one.
  const counted: Kernel = {
    ...kernel,
    async transact(commands) {
      const committed = await kernel.transact(commands);
      if (started) accounts.readSome(committed.lastCounts, new Date().toISOString());
      return committed;
    },
    async snapshot() {
      const table = await kernel.snapshot();
      if (started) accounts.read(table, new Date().toISOString());
      return table;
    },
    async chains(names) {
      const reading = await kernel.chains(names);
      if (started) accounts.readSome(reading.chains, new Date().toISOString());
      return reading;
    },
  };
  async function read(work: () => Promise<unknown> = counted.snapshot): Promise<void> {
    if (!started) return;
    try {
      await work();
      readable = true;
    } catch (error) {
      if (readable) log.warn('cannot read the counters; trying again', { error: (error as Error).message });
      readable = false;
    }
  }
  /** After a change: in a large table only the chains that are new. */
  async function readNew(): Promise<void> {
    const names = accounts.unread();
    if (names.length > MAX_CHAINS_READ || lastTook < CHEAP) await counted.snapshot();
    else await counted.chains(names);
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
    kernel: counted,
    async start() {
      try {
        saved = (await file.read()) ?? '';
        if (saved !== '') accounts = accounting(JSON.parse(saved));
      } catch (error) {
        log.error('cannot use the saved counters; counting anew', { error: (error as Error).message });
      }
      started = true;
      if (!running) return await read();
      await readAgain();
      saving = setInterval(() => void save(), SAVE_INTERVAL).unref();
    },
    enforced(ruleset, state) {
      accounts.know(ruleset);
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
      if (started) await save();
    },
  };
}
