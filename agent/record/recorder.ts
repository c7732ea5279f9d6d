import type { Nflog, NflogBatch, NflogOptions } from 'nftables-napi';
import type { NodeState } from '../../apis/compiled.ts';
import type { Config } from '../../apis/config.ts';
import type { Clock } from '../../lib/process/clock.ts';
import type { LineLog } from '../../lib/process/log.ts';
import type { RuleTotals } from './accounting.ts';
import type { RuleCounters } from './counters.ts';
import { type Interfaces, RecordReader, type RuleRecord } from './reader.ts';
import { type LogRecord, microsecondsText } from './record.ts';
import { recordWriter, type Writer } from './writer.ts';

/** Milliseconds until a failed NFLOG socket is opened again. */
const RETRY = 10_000;
/**
 * Milliseconds between two readings of the kernel's counters for connections that were not
 * recorded, at least.
 */
const TICK = 1_000;
/**
 * Milliseconds after which losses get a line of their own, if no record of the rule has reported
 * them.
 */
const SAY_WITHIN = 10_000;
/**
 * Milliseconds between two warnings about foreign packets: another program may log to the same
 * group all the time.
 */
const SAY_UNKNOWN = 60_000;
/**
 * Options of the addon: batches of at most 1,024 packets of 128 bytes; the kernel buffers up to 8
 * MiB.
 */
const NFLOG = { copyRange: 128, queueThreshold: 64, flushInterval: 10, receiveBuffer: 8 * 1024 * 1024 };

type OpenNflog = (options: NflogOptions, listener: (batch: NflogBatch) => void) => Pick<Nflog, 'close'>;

export interface RecorderOptions {
  readonly node: string;
  readonly config: Pick<Config, 'log' | 'interfaceGroups'>;
  /** Destination of the records: a path, or `stdout`. */
  readonly file: string;
  readonly interfaces: Interfaces;
  readonly counters: Pick<RuleCounters, 'read' | 'totals' | 'hit'>;
  /** Called for each packet that is recorded. */
  readonly recorded?: ((record: RuleRecord['record']) => void) | undefined;
  readonly log: LineLog;
  readonly openNflog: OpenNflog;
  /** Called with the number of records that are lost, each time that some are. */
  readonly lost: (records: number) => void;
  readonly clock: Clock;
}

/** Where records other than those of packets go. */
export interface RecordOutlet {
  write(record: LogRecord): void;
  /** To be called once. */
  close(): void;
}

/** Resources that exist only while rules have logging, or an outlet is open. */
interface Open {
  readonly writer: Writer<LogRecord>;
  /** Cancels the next reading. */
  cancel: () => void;
  nflog: Pick<Nflog, 'close'> | null;
  retryAt: number;
}

/**
 * Writes packets of the kernel's NFLOG group as lines of the flow log. Enforcement does not depend
 * on it: failures are logged and retried.
 */
export class Recorder {
  readonly #parts: RecorderOptions;
  readonly #reader: RecordReader;
  readonly #unrecorded = suppression();
  #open: Open | null = null;
  #wanted = false;
  /** The number of open outlets. */
  #outlets = 0;
  #stopping: Promise<void> | null = null;
  #failure = '';
  #lost = 0;
  #lostSince = 0;
  #sayUnknownAt = 0;
  /** Whether records arrived since the counters were last read. */
  #active = false;

  constructor(parts: RecorderOptions) {
    const { node, config, interfaces, counters } = parts;
    const groupNames = new Map(
      Object.entries(config.interfaceGroups).map(([name, number]) => [number, name]),
    );
    this.#parts = parts;
    this.#reader = new RecordReader({ node, interfaces, groupNames });
    this.#unrecorded.begin(counters.totals());
  }

  /** Rules that are about to be applied: starts to listen to the group before the first packet. */
  learn(state: NodeState): void {
    this.#reader.learn(state, this.#parts.clock.now());
    this.#wanted ||= hasRecords(state);
    if (this.#wanted) this.#settle();
  }

  /** Rules in force: stops listening if no rule has logging. */
  enforced(state: NodeState): void {
    this.#reader.learn(state, this.#parts.clock.now());
    this.#wanted = hasRecords(state);
    this.#settle();
  }

  /** Opens the file for records other than those of packets, until the outlet is closed. */
  async outlet(): Promise<RecordOutlet> {
    this.#outlets++;
    await this.#stopping;
    this.#settle();
    return {
      write: (record) => this.#write(record),
      close: () => {
        this.#outlets--;
        this.#settle();
      },
    };
  }

  async close(): Promise<void> {
    this.#wanted = false;
    this.#settle();
    await this.#stopping;
  }

  #listen(): void {
    const open = this.#open;
    if (open === null || open.nflog !== null || !this.#wanted || this.#parts.clock.now() < open.retryAt)
      return;
    const { node, log, openNflog } = this.#parts;
    const { group } = this.#parts.config.log;
    try {
      open.nflog = openNflog({ ...NFLOG, group }, (batch) => this.#receive(batch));
      if (this.#failure !== '') log.info('receiving packets for the flow log again', { node, group });
      this.#failure = '';
    } catch (error) {
      this.#failed(error as Error);
    }
  }

  #failed(error: Error & { code?: string }): void {
    if (this.#open === null) return;
    this.#open.retryAt = this.#parts.clock.now() + RETRY;
    // Logged once; retried every 10 s.
    if (this.#failure === error.message) return;
    this.#failure = error.message;
    const { node, config, log } = this.#parts;
    const { group } = config.log;
    log.error(
      `cannot receive packets for the flow log; nothing is recorded, enforcement continues. ${advice(error, group)}`,
      { node, group, error: error.message },
    );
  }

  #receive({ packets, lost: missing, error }: NflogBatch): void {
    if (this.#open === null) return;
    this.#lose(missing);
    if (packets.length > 0) this.#active = true;
    for (const { id, record } of this.#reader.read(packets, wall())) {
      const suppressed = this.#unrecorded.consume(id);
      this.#write(suppressed === 0 ? record : { ...record, suppressed });
      this.#parts.counters.hit(id, record.time);
      this.#parts.recorded?.(record);
    }
    if (error === null) return;
    void this.#open.nflog?.close();
    this.#open.nflog = null;
    this.#failed(error);
  }

  #lose(count: number): void {
    if (count === 0) return;
    if (this.#lost === 0) this.#lostSince = this.#parts.clock.now();
    this.#lost += count;
    this.#parts.lost(count);
  }

  /** The first line that is written reports the losses before it. */
  #write(record: LogRecord): void {
    if (this.#open === null) return;
    this.#lose(this.#open.writer.consumeLost());
    if (this.#open.writer.write(this.#lost === 0 ? record : { ...record, lost: this.#lost })) this.#lost = 0;
  }

  async #tick(): Promise<void> {
    this.#listen();
    if (this.#active || !this.#unrecorded.isSettled()) await this.#readCounters();
    if (this.#open === null) return;
    this.#sayOverdue(this.#parts.clock.now() - SAY_WITHIN);
    this.#sayUnknown();
  }

  #sayUnknown(): void {
    if (this.#parts.clock.now() < this.#sayUnknownAt) return;
    const count = this.#reader.consumeUnknown();
    if (count === 0) return;
    this.#sayUnknownAt = this.#parts.clock.now() + SAY_UNKNOWN;
    const { node, config, log } = this.#parts;
    const { group } = config.log;
    log.warn(
      'another program sends packets to the NFLOG group of the flow log; set log.group to a free number',
      { node, group, count },
    );
  }

  async #readCounters(): Promise<void> {
    this.#active = false;
    const { counters } = this.#parts;
    await counters.read();
    this.#unrecorded.read(counters.totals(), this.#parts.clock.now());
  }

  #sayOverdue(time: number): void {
    if (this.#open === null) return;
    for (const [id, count] of this.#unrecorded.consumeSince(time)) {
      const notice = this.#reader.suppressed(id, count, wall());
      if (notice !== null) this.#write(notice);
    }
    this.#lose(this.#open.writer.consumeLost());
    if (this.#lost > 0 && this.#lostSince <= time)
      this.#write({ time: microsecondsText(wall()), node: this.#parts.node });
  }

  #start(): void {
    if (this.#open !== null) {
      this.#listen();
      return;
    }
    // While stopping: stop() is followed by a new start.
    if (this.#stopping !== null) return;
    const { config, file, log } = this.#parts;
    const writer = recordWriter<LogRecord>({ config: config.log, file, log });
    this.#open = { writer, cancel: this.#later(), nflog: null, retryAt: 0 };
    this.#listen();
  }

  #later(): () => void {
    return this.#parts.clock.after(TICK, () => {
      if (this.#open === null) return;
      this.#open.cancel = this.#later();
      void this.#tick();
    });
  }

  async #stop(): Promise<void> {
    const ending = this.#open;
    if (ending === null) return;
    ending.cancel();
    await ending.nflog?.close();
    // Two readings, see Suppression.
    await this.#readCounters();
    await this.#readCounters();
    this.#sayOverdue(Number.POSITIVE_INFINITY);
    this.#open = null;
    await ending.writer.close();
  }

  get #isNeeded(): boolean {
    return this.#wanted || this.#outlets > 0;
  }

  #settle(): void {
    if (this.#isNeeded) this.#start();
    else if (this.#open !== null)
      this.#stopping ??= this.#stop().finally(() => {
        this.#stopping = null;
        if (this.#isNeeded) this.#start();
      });
  }
}

function hasRecords({ rules }: NodeState): boolean {
  return rules.some((rule) => rule.log !== null);
}

/** The wall clock, in microseconds since 1970. */
function wall(): number {
  return Date.now() * 1000;
}

function advice({ code }: { code?: string }, group: number): string {
  switch (code) {
    case 'EBUSY':
      return `Another program listens to NFLOG group ${group} (ulogd, or a second agent): stop it, or set log.group in the configuration to a free number. Retrying every ${RETRY / 1000} s`;
    case 'EPERM':
      return `Give the agent CAP_NET_ADMIN in this network namespace. Retrying every ${RETRY / 1000} s`;
    default:
      return `Retrying every ${RETRY / 1000} s`;
  }
}

/**
 * The number of connections of each rule that were not recorded, from the kernel's counters: those
 * that matched, minus those that reached the record chain. A reading is not atomic, so the matched
 * ones are taken from the reading before: the number is never too high, and complete once a second
 * reading finds no change.
 */
interface Suppression {
  /** Counters of an earlier run; their losses are not reported again. */
  begin(totals: ReadonlyMap<string, RuleTotals>): void;
  /** Evaluates a reading; rules that it does not contain are forgotten. `now`: milliseconds. */
  read(totals: ReadonlyMap<string, RuleTotals>, now: number): void;
  /** The losses to report with the next record of the rule; they then count as reported. */
  consume(rule: string): number;
  /**
   * The losses that have waited for a record since `time` (milliseconds) or longer; they then count
   * as reported.
   */
  consumeSince(time: number): [rule: string, count: number][];
  /** Whether the last two readings were equal and no losses wait. */
  isSettled(): boolean;
}

interface RuleLosses {
  readonly logged: number;
  readonly recorded: number;
  /** Losses that were reported or wait for it. */
  readonly known: number;
  readonly waiting: number;
  readonly since: number;
}

export function suppression(): Suppression {
  const rules = new Map<string, RuleLosses>();
  let changed = false;

  function consume(rule: string): number {
    const losses = rules.get(rule);
    if (losses === undefined || losses.waiting === 0) return 0;
    rules.set(rule, { ...losses, waiting: 0 });
    return losses.waiting;
  }

  return {
    begin(totals) {
      for (const [rule, { logged, recorded }] of totals) {
        rules.set(rule, { logged, recorded, known: Math.max(0, logged - recorded), waiting: 0, since: 0 });
      }
    },
    read(totals, now) {
      changed = false;
      for (const rule of rules.keys()) if (!totals.has(rule)) rules.delete(rule);
      for (const [rule, { logged, recorded }] of totals) {
        const before = rules.get(rule) ?? { logged: 0, recorded: 0, known: 0, waiting: 0, since: 0 };
        if (before.logged !== logged || before.recorded !== recorded) changed = true;
        const more = Math.max(0, before.logged - recorded - before.known);
        rules.set(rule, {
          logged,
          recorded,
          known: before.known + more,
          waiting: before.waiting + more,
          since: before.waiting === 0 ? now : before.since,
        });
      }
    },
    consume,
    consumeSince(time) {
      return [...rules].flatMap(([rule, { waiting, since }]) =>
        waiting > 0 && since <= time ? [[rule, consume(rule)] as [string, number]] : [],
      );
    },
    isSettled: () => !changed && [...rules.values()].every(({ waiting }) => waiting === 0),
  };
}
