import type { NodeState } from '../../apis/compiled.ts';
import { type Kernel, readTable } from '../apply/kernel.ts';
import type { StateFile } from '../receive/statefile.ts';
import type { Ruleset } from '../render/ruleset.ts';
import { type Accounting, accounting, type RuleTotals } from './accounting.ts';
import type { RecordLog } from './recordlog.ts';

/** Times in milliseconds. A reading takes 6 ms where the node has 1,000 rules. */
const READ_INTERVAL = 10_000;
const SAVE_INTERVAL = 30_000;
/** After a change of the ruleset: for `nodewall rules` to know the new chains, and so that a kill -9 forgets none that are gone. */
const READ_AFTER_CHANGE = 200;

export interface Counters {
  /** To be awaited before anything is applied: what the kernel counted so far belongs to the chains that were saved. */
  start(): Promise<void>;
  /** What is in force now. */
  enforced(ruleset: Ruleset, state: NodeState): void;
  hit(rule: string, time: string): void;
  /** Reads the kernel; a call that comes while one is being read gets the next. Never rejects. */
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
  let reading: Promise<void> = Promise.resolve();
  const timers: NodeJS.Timeout[] = [];
  let soon: NodeJS.Timeout | null = null;

  async function readOnce(): Promise<void> {
    try {
      const table = await readTable(kernel);
      accounts.read(table, new Date().toISOString());
      readable = true;
    } catch (error) {
      if (readable) log.warn('cannot read the counters; trying again', { error: (error as Error).message });
      readable = false;
    }
  }
  function read(): Promise<void> {
    if (!started) return Promise.resolve();
    reading = reading.then(readOnce);
    return reading;
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
    async start() {
      try {
        saved = (await file.read()) ?? '';
        if (saved !== '') accounts = accounting(JSON.parse(saved));
      } catch (error) {
        log.error('cannot use the saved counters; counting anew', { error: (error as Error).message });
      }
      started = true;
      await read();
      if (!running) return;
      timers.push(setInterval(() => void read(), READ_INTERVAL).unref());
      timers.push(setInterval(() => void save(), SAVE_INTERVAL).unref());
    },
    enforced(ruleset, state) {
      accounts.know(ruleset);
      accounts.keep(new Set(state.rules.map(({ id }) => id)));
      if (!running) return;
      soon ??= setTimeout(() => {
        soon = null;
        void read().then(save);
      }, READ_AFTER_CHANGE).unref();
    },
    hit: (rule, time) => accounts.hit(rule, time),
    read,
    totals: () => accounts.totals(),
    async close() {
      for (const timer of timers) clearInterval(timer);
      if (soon !== null) clearTimeout(soon);
      await read();
      if (started) await save();
    },
  };
}
