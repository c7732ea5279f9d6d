import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { ConntrackBatch, ConntrackEvent } from 'nftables-napi';
import type { NodeState } from '../../../apis/compiled.ts';
import type { Config } from '../../../apis/config.ts';
import type { NodeEgress } from '../../../apis/egress/node-egress.ts';
import { type Closable, keepOpen } from '../../../lib/process/back-off.ts';
import type { Clock } from '../../../lib/process/clock.ts';
import type { LineLog, Log } from '../../../lib/process/log.ts';
import { pace } from '../../../lib/process/timers.ts';
import { microsecondsText } from '../../record/record.ts';
import { recordWriter, type Writer } from '../../record/writer.ts';
import type { AgentMetrics } from '../../run/agent-metrics.ts';
import { loadAddon } from '../../run/with-kernel.ts';
import type { EgressMetrics } from '../egress-metrics.ts';
import { GATEWAY } from '../render/marks.ts';
import {
  EGRESS_RECORDS,
  type EgressRecord,
  type GapRecord,
  type RecordOutcome,
  toBinding,
} from './egress-record.ts';

/** Milliseconds between two lines about events that the kernel discarded, at least. */
const OVERRUN_INTERVAL = 1_000;

interface BindingRecorderOptions {
  readonly node: string;
  readonly clock: Clock;
  readonly log: LineLog;
  /** Opens a ConntrackMonitor; may throw. */
  readonly openMonitor: (
    filter: { readonly mark: number; readonly mask: number },
    listener: (batch: ConntrackBatch) => void,
  ) => Closable;
  readonly openWriter: () => Writer<EgressRecord>;
  readonly counted: (outcome: RecordOutcome, lines: number) => void;
  readonly troubled: (trouble: 'overrun' | 'failed') => void;
}

/**
 * Not so are those that `nodewall egress reset` marked, of a pod of this node by another gateway.
 */
function isTranslated({ entry: { original, reply } }: ConntrackEvent): boolean {
  return Buffer.compare(original.source, reply.destination) !== 0;
}

interface Open {
  readonly writer: Writer<EgressRecord>;
  readonly monitor: { close(): Promise<void> };
}

/**
 * Records each connection that leaves by this node as a gateway, when it begins and when it ends.
 * Nothing waits for it: what comes too fast for the agent is discarded by the kernel, what comes
 * too fast for the disk by the writer, and a line of event `gap` says so. While this node has never
 * been a gateway, nothing is open.
 */
export class BindingRecorder {
  readonly #options: BindingRecorderOptions;
  readonly #overruns: ReturnType<typeof pace>;
  #egress: NodeEgress | null = null;
  #open: Open | null = null;

  constructor(options: BindingRecorderOptions) {
    this.#options = options;
    this.#overruns = pace(options.clock, OVERRUN_INTERVAL, () => this.#gap('overrun'));
  }

  /**
   * Rules are in force. Connections of a gateway that is none any more go on, and so do records.
   */
  enforced(egress: NodeEgress | null): void {
    if (egress === null) return;
    this.#egress = egress;
    if (this.#open === null && egress.takes.size > 0) this.#start();
  }

  async close(): Promise<void> {
    this.#overruns.flush();
    this.#overruns.close();
    await this.#open?.monitor.close();
    await this.#open?.writer.close();
    this.#open = null;
  }

  #start(): void {
    const { clock, log, node, openMonitor, openWriter, troubled } = this.#options;
    const writer = openWriter();
    const monitor = keepOpen({
      clock,
      open: (failed) => {
        const opened = openMonitor({ mark: GATEWAY, mask: GATEWAY }, (batch) => {
          this.#receive(batch);
          if (batch.error !== null) failed(batch.error);
        });
        writer.write(this.#gapRecord('start'));
        return opened;
      },
      failed(error, retryIn) {
        troubled('failed');
        log.error('cannot record the connections that leave by this gateway; opening the monitor again', {
          node,
          error: error.message,
          retryIn,
        });
      },
    });
    this.#open = { writer, monitor };
  }

  #receive({ events, overrun }: ConntrackBatch): void {
    const { node, counted, troubled } = this.#options;
    const egress = this.#egress;
    const writer = this.#open?.writer;
    if (writer === undefined || egress === null) return;
    const wall = Date.now() * 1000;
    const written = { begun: 0, ended: 0 };
    for (const event of events) {
      if (!isTranslated(event)) continue;
      if (writer.write(toBinding(event, node, egress, wall))) written[event.event]++;
    }
    counted('begun', written.begun);
    counted('ended', written.ended);
    const lost = writer.consumeLost();
    if (lost > 0) {
      counted('lost', lost);
      writer.write({ ...this.#gapRecord('lost'), lost });
    }
    if (!overrun) return;
    troubled('overrun');
    this.#overruns.request();
  }

  #gap(reason: GapRecord['reason']): void {
    this.#open?.writer.write(this.#gapRecord(reason));
  }

  #gapRecord(reason: GapRecord['reason']): GapRecord {
    return { time: microsecondsText(Date.now() * 1000), node: this.#options.node, event: 'gap', reason };
  }
}

interface EgressRecordingOptions {
  readonly options: { readonly node: string; readonly stateDir: string };
  readonly config: Config;
  readonly log: Log;
  readonly clock: Clock;
  readonly metrics: Pick<AgentMetrics, 'monitor' | 'otherRecordsLost'>;
}

export interface EgressRecording {
  enforced(state: NodeState): void;
  close(): Promise<void>;
}

/**
 * Records of connections that leave by this node as an egress gateway; null if the configuration
 * does not ask for them.
 */
export async function egressRecording(
  parts: EgressRecordingOptions,
  series: Pick<EgressMetrics, 'records'> | null,
): Promise<EgressRecording | null> {
  const { options, config, log, clock, metrics } = parts;
  if (!config.log.egressConnections) return null;
  const { ConntrackMonitor } = await loadAddon();
  await checkSettings(options.node, log);
  const file = join(options.stateDir, EGRESS_RECORDS);
  const recorder = new BindingRecorder({
    node: options.node,
    clock,
    log,
    openMonitor: (filter, listener) => new ConntrackMonitor(filter, listener),
    openWriter: () => recordWriter({ config: config.log, file, log, what: 'egress' }),
    counted(outcome, lines) {
      if (outcome === 'lost') metrics.otherRecordsLost(lines);
      series?.records(outcome, lines);
    },
    troubled: (trouble) => metrics.monitor('conntrack', trouble),
  });
  return {
    enforced: ({ egress }) => recorder.enforced(egress ?? null),
    close: () => recorder.close(),
  };
}

const SETTINGS = [
  {
    name: 'nf_conntrack_events',
    why: 'the kernel reports no connections: nothing is recorded. Set net.netfilter.nf_conntrack_events to 2',
  },
  {
    name: 'nf_conntrack_acct',
    why: 'the kernel counts no bytes: the records have none. Set net.netfilter.nf_conntrack_acct to 1',
  },
] as const;

/** Settings of the host are read, never written. */
async function checkSettings(node: string, log: Log): Promise<void> {
  for (const { name, why } of SETTINGS) {
    const value = await readFile(`/proc/sys/net/netfilter/${name}`, 'latin1').catch(() => null);
    if (value?.trim() === '0') log.warn(`records of egress gateways: ${why}`, { node });
  }
}
