import type { NodeState } from '../../apis/compiled.ts';
import type { Config } from '../../apis/config.ts';
import { systemClock } from '../../lib/process/clock.ts';
import type { Log } from '../../lib/process/log.ts';
import { stateFile } from '../../lib/process/state-file.ts';
import type { Enforced } from '../apply/enforcer.ts';
import type { Owners } from '../record/accounting.ts';
import { type CountSource, RuleCounters } from '../record/counters.ts';
import { recordsFile } from '../record/record-files.ts';
import { Recorder, type RecordOutlet } from '../record/recorder.ts';
import type { AgentMetrics } from './agent-metrics.ts';
import type { AgentOptions } from './agent-options.ts';
import type { KeptFlows } from './flow-inventory.ts';
import type { InterfaceGroups } from './interface-groups.ts';
import { loadAddon } from './with-kernel.ts';

interface RecordingOptions {
  readonly options: Pick<AgentOptions, 'node' | 'stateDir' | 'once'>;
  readonly config: Config;
  readonly log: Log;
  readonly interfaces: InterfaceGroups;
  readonly metrics: AgentMetrics;
  readonly flows: KeptFlows | null;
}

const NOWHERE: RecordOutlet = { write() {}, close() {} };

/**
 * The flow log and the counters of an agent. `agent --once` counts, but records nothing, because no
 * process stays to read the kernel's log messages.
 */
export function recording({ options, config, log, interfaces, metrics, flows }: RecordingOptions) {
  const { node, stateDir, once } = options;
  const counters = new RuleCounters({ file: stateFile(stateDir, 'counters.json'), log, running: !once });
  const file = recordsFile(stateDir, config) ?? config.log.file;
  let records: Recorder | null = null;
  return {
    /** Before anything is applied, and before the guard, which may record a rollback at once. */
    async start(source: CountSource): Promise<void> {
      await counters.start(source);
      if (once) return;
      const { Nflog } = await loadAddon();
      records = new Recorder({
        node,
        config,
        file,
        interfaces,
        counters,
        recorded: flows?.recorded,
        log,
        clock: systemClock,
        lost: (count) => metrics.recordsLost(count),
        openNflog: (options, listener) => new Nflog(options, listener),
      });
    },
    readings: counters.readings,
    /** Announces a state that is about to be in force. */
    learn: (state: NodeState) => records?.learn(state),
    enforced({ resolved: state }: Enforced, owners: Owners | null): void {
      if (owners !== null) counters.enforced(owners, state);
      records?.enforced(state);
    },
    totals: () => counters.totals(),
    /** For records other than those of packets; with `--once` they go nowhere. */
    outlet: async (): Promise<RecordOutlet> => (await records?.outlet()) ?? NOWHERE,
    async close(): Promise<void> {
      await records?.close();
      await counters.close();
    },
  };
}
