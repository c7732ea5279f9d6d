import type { Nflog, NflogBatch, NflogOptions } from 'nftables-napi';
import type { NodeState } from '../../apis/compiled.ts';
import type { Config } from '../../apis/config.ts';
import type { Counters } from './counters.ts';
import { type Interfaces, recordReader } from './reader.ts';
import { type LogRecord, timeText } from './record.ts';
import type { RecordLog } from './record-log.ts';
import { suppression } from './suppression.ts';
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

export interface Recorder {
  /** Rules that are about to be applied: starts to listen to the group before the first packet. */
  learn(state: NodeState): void;
  /** Rules in force: stops listening if no rule has logging. */
  enforced(state: NodeState): void;
  close(): Promise<void>;
}

export type OpenNflog = (
  options: NflogOptions,
  listener: (batch: NflogBatch) => void,
) => Pick<Nflog, 'close'>;

export interface RecorderOptions {
  readonly node: string;
  readonly config: Pick<Config, 'log' | 'interfaceGroups'>;
  /** Destination of the records: a path, or `stdout`. */
  readonly file: string;
  readonly interfaces: Interfaces;
  readonly counters: Pick<Counters, 'read' | 'totals' | 'hit'>;
  readonly log: RecordLog;
  readonly openNflog: OpenNflog;
}

/** Resources that exist only while rules have logging. */
interface Open {
  readonly writer: Writer;
  readonly timer: NodeJS.Timeout;
  nflog: Pick<Nflog, 'close'> | null;
  retryAt: number;
}

/**
 * Writes packets of the kernel's NFLOG group as lines of the flow log. Enforcement does not depend
 * on it: failures are logged and retried.
 */
export function recorder(options: RecorderOptions): Recorder {
  const { node, config, file, counters, log, openNflog } = options;
  const groupNames = new Map(Object.entries(config.interfaceGroups).map(([name, number]) => [number, name]));
  const reader = recordReader({ node, interfaces: options.interfaces, groupNames });
  const unrecorded = suppression();
  unrecorded.begin(counters.totals());
  let open: Open | null = null;
  let wanted = false;
  let stopping: Promise<void> | null = null;
  let failure = '';
  let lost = 0;
  let lostSince = 0;
  let sayUnknownAt = 0;
  /** Whether records arrived since the counters were last read. */
  let active = false;

  function listen(): void {
    if (open === null || open.nflog !== null || performance.now() < open.retryAt) return;
    try {
      open.nflog = openNflog({ ...NFLOG, group: config.log.group }, receive);
      if (failure !== '')
        log.info('receiving packets for the flow log again', { node, group: config.log.group });
      failure = '';
    } catch (error) {
      failed(error as Error);
    }
  }

  function failed(error: Error & { code?: string }): void {
    if (open === null) return;
    open.retryAt = performance.now() + RETRY;
    // Logged once; retried every 10 s.
    if (failure === error.message) return;
    failure = error.message;
    log.error(
      `cannot receive packets for the flow log; nothing is recorded, enforcement continues. ${advice(error, config.log.group)}`,
      { node, group: config.log.group, error: error.message },
    );
  }

  function receive({ packets, lost: missing, error }: NflogBatch): void {
    if (open === null) return;
    if (missing > 0) lose(missing);
    if (packets.length > 0) active = true;
    for (const { id, record } of reader.read(packets, wall())) {
      const suppressed = unrecorded.take(id);
      write(suppressed === 0 ? record : { ...record, suppressed });
      counters.hit(id, record.time);
    }
    if (error === null) return;
    void open.nflog?.close();
    open.nflog = null;
    failed(error);
  }

  function lose(count: number): void {
    if (lost === 0) lostSince = performance.now();
    lost += count;
  }

  /** The first line that is written reports the losses before it. */
  function write(record: LogRecord): void {
    if (open === null) return;
    const missing = open.writer.takeLost();
    if (missing > 0) lose(missing);
    if (open.writer.write(lost === 0 ? record : { ...record, lost })) lost = 0;
  }

  async function tick(): Promise<void> {
    listen();
    if (active || !unrecorded.isSettled()) await look();
    if (open === null) return;
    sayOverdue(performance.now() - SAY_WITHIN);
    sayUnknown();
  }

  function sayUnknown(): void {
    if (performance.now() < sayUnknownAt) return;
    const count = reader.takeUnknown();
    if (count === 0) return;
    sayUnknownAt = performance.now() + SAY_UNKNOWN;
    const group = config.log.group;
    log.warn(
      'another program sends packets to the NFLOG group of the flow log; set log.group to a free number',
      { node, group, count },
    );
  }

  async function look(): Promise<void> {
    active = false;
    await counters.read();
    unrecorded.read(counters.totals(), performance.now());
  }

  function sayOverdue(time: number): void {
    if (open === null) return;
    for (const [id, count] of unrecorded.takeSince(time)) {
      const notice = reader.suppressed(id, count, wall());
      if (notice !== null) write(notice);
    }
    const missing = open.writer.takeLost();
    if (missing > 0) lose(missing);
    if (lost > 0 && lostSince <= time) write({ time: timeText(wall()), node });
  }

  function start(): void {
    // While stopping: stop() is followed by a new start.
    if (open !== null || stopping !== null) return;
    const writer = recordWriter({ config: config.log, file, log });
    open = { writer, timer: setInterval(() => void tick(), TICK).unref(), nflog: null, retryAt: 0 };
    listen();
  }

  async function stop(): Promise<void> {
    const ending = open;
    if (ending === null) return;
    clearInterval(ending.timer);
    await ending.nflog?.close();
    // Two readings, see suppression.ts.
    await look();
    await look();
    sayOverdue(Number.POSITIVE_INFINITY);
    open = null;
    await ending.writer.close();
  }

  function settle(): void {
    if (wanted) start();
    else if (open !== null)
      stopping ??= stop().finally(() => {
        stopping = null;
        if (wanted) start();
      });
  }

  return {
    learn(state) {
      reader.learn(state, performance.now());
      wanted ||= hasRecords(state);
      if (wanted) settle();
    },
    enforced(state) {
      reader.learn(state, performance.now());
      wanted = hasRecords(state);
      settle();
    },
    async close() {
      wanted = false;
      settle();
      await stopping;
    },
  };
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
