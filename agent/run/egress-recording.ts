import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { NodeState } from '../../apis/compiled.ts';
import type { Config } from '../../apis/config.ts';
import type { Clock } from '../../lib/process/clock.ts';
import type { Log } from '../../lib/process/log.ts';
import { BindingRecorder } from '../egress/record/binding-recorder.ts';
import { EGRESS_RECORDS } from '../egress/record/egress-record.ts';
import { recordWriter } from '../record/writer.ts';
import type { AgentMetrics } from './agent-metrics.ts';
import type { AgentOptions } from './agent-options.ts';
import { loadAddon } from './with-kernel.ts';

interface Parts {
  readonly options: Pick<AgentOptions, 'node' | 'stateDir'>;
  readonly config: Config;
  readonly log: Log;
  readonly clock: Clock;
  readonly metrics: AgentMetrics;
}

export interface EgressRecording {
  enforced(state: NodeState): void;
  close(): Promise<void>;
}

/**
 * Records of connections that leave by this node as an egress gateway; null if the configuration
 * does not ask for them.
 */
export async function egressRecording(parts: Parts): Promise<EgressRecording | null> {
  const { options, config, log, clock, metrics } = parts;
  if (config.featureGates.EgressGateway !== true || !config.log.egressConnections) return null;
  const { ConntrackMonitor } = await loadAddon();
  await checkSettings(options.node, log);
  const file = join(options.stateDir, EGRESS_RECORDS);
  const recorder = new BindingRecorder({
    node: options.node,
    clock,
    log,
    openMonitor: (filter, listener) => new ConntrackMonitor(filter, listener),
    openWriter: () => recordWriter({ config: config.log, file, log, what: 'egress' }),
    counted: metrics.egressRecords,
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
