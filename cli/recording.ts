import { join } from 'node:path';
import type { Enforced } from '../agent/apply/enforcer.ts';
import { stateFile } from '../agent/receive/statefile.ts';
import type { Owners } from '../agent/record/accounting.ts';
import { type CountSource, ruleCounters } from '../agent/record/counters.ts';
import type { Interfaces } from '../agent/record/reader.ts';
import { type Recorder, recorder } from '../agent/record/recorder.ts';
import type { NodeState } from '../apis/compiled.ts';
import type { Config } from '../apis/config.ts';
import type { AgentOptions } from './agentoptions.ts';
import { loadAddon } from './kernel.ts';
import type { Log } from './log.ts';

interface Parts {
  readonly options: Pick<AgentOptions, 'node' | 'stateDir' | 'once'>;
  readonly config: Config;
  readonly log: Log;
  readonly interfaces: Interfaces;
}

/** The record and the counters of an agent. `agent --once` counts, but records nothing: nobody would read on. */
export function recording({ options: { node, stateDir, once }, config, log, interfaces }: Parts) {
  const counters = ruleCounters({ file: stateFile(stateDir, 'counters.json'), log, running: !once });
  const file = config.log.file === '' ? join(stateDir, 'records.jsonl') : config.log.file;
  let records: Recorder | null = null;
  return {
    /** To be awaited before anything is applied. */
    async start(source: CountSource): Promise<void> {
      await counters.start(source);
      if (once) return;
      const { Nflog } = await loadAddon();
      records = recorder({
        node,
        config,
        file,
        interfaces,
        counters,
        log,
        openNflog: (options, listener) => new Nflog(options, listener),
      });
    },
    readings: counters.readings,
    /** What is about to be in force. */
    learn: (state: NodeState) => records?.learn(state),
    enforced({ state }: Enforced, owners: Owners | null): void {
      if (owners !== null) counters.enforced(owners, state);
      records?.enforced(state);
    },
    totals: () => counters.totals(),
    async close(): Promise<void> {
      await records?.close();
      await counters.close();
    },
  };
}
