import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { NodeState } from '../../../apis/compiled.ts';
import type { Config } from '../../../apis/config.ts';
import type { Clock } from '../../../lib/process/clock.ts';
import type { Log } from '../../../lib/process/log.ts';
import { recordWriter } from '../../record/writer.ts';
import type { AgentMetrics } from '../../run/agent-metrics.ts';
import { loadAddon } from '../../run/with-kernel.ts';
import type { EgressMetrics } from '../egress-metrics.ts';
import { BindingRecorder } from './binding-recorder.ts';
import { EGRESS_RECORDS } from './egress-record.ts';

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
