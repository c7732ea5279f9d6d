import type { NodeState } from '../../apis/compiled.ts';
import type { LineLog } from '../../lib/process/log.ts';
import type { StateFile } from '../../lib/process/state-file.ts';
import { type Kernel, MAX_CHAINS_READ } from '../apply/netlink/kernel.ts';
import { RULE_EXTENSION } from '../extension/rules.ts';
import { SPOOFED } from '../render/anti-spoofing.ts';
import { Accounting, type CountedTable, type Owners, type RuleTotals } from './accounting.ts';

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

interface CountersOptions {
  readonly file: StateFile;
  readonly log: LineLog;
  /** False: read and save only at the start and at the end (`agent --once`). */
  readonly running: boolean;
}

/**
 * Maintains the counters of the rules: reads the kernel periodically, saves the counters, and logs
 * once if they cannot be read.
 */
export class RuleCounters {
  readonly #parts: CountersOptions;
  #accounts = new Accounting();
  #saved = '';
  #source: CountSource | null = null;
  #readable = true;
  #closed = false;
  #lastTook = 0;
  #again: NodeJS.Timeout | undefined;
  #saving: NodeJS.Timeout | undefined;
  #soon: NodeJS.Timeout | null = null;
  #writing: Promise<void> | null = null;
  readonly readings: Readings = {
    all: (table) => {
      if (this.#source !== null) this.#accounts.read(table, new Date().toISOString());
    },
    some: (chains) => {
      if (this.#source !== null) this.#accounts.readSome(chains, new Date().toISOString());
    },
  };

  constructor(parts: CountersOptions) {
    this.#parts = parts;
  }

  /**
   * Must resolve before anything is applied: the kernel's counters up to then belong to the chains
   * that were saved.
   */
  async start(source: CountSource): Promise<void> {
    const { file, log, running } = this.#parts;
    try {
      this.#saved = (await file.read()) ?? '';
      if (this.#saved !== '') this.#accounts = new Accounting(JSON.parse(this.#saved));
    } catch (error) {
      log.error('cannot read the saved counters; counting from 0', { error: (error as Error).message });
    }
    this.#source = source;
    if (!running) return await this.read();
    await this.#readAgain();
    this.#saving = setInterval(() => void this.#save(), SAVE_INTERVAL).unref();
  }

  /** Sets the chains and rules in force. */
  enforced(owners: Owners, state: NodeState): void {
    this.#accounts.know(owners);
    const ids = state.rules.map(({ id }) => id);
    this.#accounts.keep(new Set([SPOOFED, ...ids, ...RULE_EXTENSION.countIds(state)]));
    if (!this.#parts.running) return;
    this.#soon ??= setTimeout(() => {
      this.#soon = null;
      void this.#read((from) => this.#readNew(from)).then(() => this.#save());
    }, READ_AFTER_CHANGE).unref();
  }

  hit(rule: string, time: string): void {
    this.#accounts.hit(rule, time);
  }

  /** Reads all counters. Never rejects. */
  read(): Promise<void> {
    return this.#read((from) => from.readAll());
  }

  totals(): Map<string, RuleTotals> {
    return this.#accounts.totals();
  }

  /** Reads and saves a last time. */
  async close(): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#again);
    clearInterval(this.#saving);
    clearTimeout(this.#soon ?? undefined);
    await this.read();
    await this.#writing;
    if (this.#source !== null) await this.#save();
  }

  async #read(work: (from: CountSource) => Promise<void>): Promise<void> {
    if (this.#source === null) return;
    try {
      await work(this.#source);
      this.#readable = true;
    } catch (error) {
      if (this.#readable) {
        this.#parts.log.warn('cannot read the rule counters; retrying', { error: (error as Error).message });
      }
      this.#readable = false;
    }
  }

  /** After a change: in a large table, reads only the new chains. */
  async #readNew(from: CountSource): Promise<void> {
    const names = this.#accounts.unread();
    if (names.length > MAX_CHAINS_READ || this.#lastTook < CHEAP) await from.readAll();
    else await from.readSome(names);
  }

  /** Takes 60 ms for a table of 10,000 rules. */
  async #readAgain(): Promise<void> {
    const began = performance.now();
    await this.read();
    this.#lastTook = performance.now() - began;
    const wait = Math.max(READ_INTERVAL, READ_SHARE * this.#lastTook);
    if (!this.#closed) this.#again = setTimeout(() => void this.#readAgain(), wait).unref();
  }

  /** One write at a time: on a disk that does not answer, writes must not pile up. */
  #save(): Promise<void> {
    this.#writing ??= this.#write().finally(() => {
      this.#writing = null;
    });
    return this.#writing;
  }

  async #write(): Promise<void> {
    const { file, log } = this.#parts;
    const text = JSON.stringify(this.#accounts.save());
    if (text === this.#saved) return;
    try {
      await file.write(text);
      this.#saved = text;
    } catch (error) {
      log.error('cannot save the rule counters; retrying', { error: (error as Error).message });
    }
  }
}

/**
 * Wraps the kernel so that all counters in its answers go to `readings`. Answers come in the order
 * of the requests, since there is one socket.
 */
export function countedKernel(kernel: Kernel, readings: Readings): Kernel {
  return {
    ...kernel,
    async transact(commands) {
      const committed = await kernel.transact(commands);
      readings.some(committed.lastCounts);
      return committed;
    },
    async snapshot() {
      const table = await kernel.snapshot();
      readings.all(table);
      return table;
    },
    async chains(names) {
      const reading = await kernel.chains(names);
      readings.some(reading.chains);
      return reading;
    },
  };
}

/** @param counted a countedKernel */
export function kernelCounts(counted: Kernel): CountSource {
  return {
    async readAll() {
      await counted.snapshot();
    },
    async readSome(names) {
      await counted.chains(names);
    },
  };
}
