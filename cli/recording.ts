import { join } from 'node:path';
import type { Enforced } from '../agent/apply/enforcer.ts';
import type { Kernel } from '../agent/apply/kernel.ts';
import { stateFile } from '../agent/receive/statefile.ts';
import { ruleCounters } from '../agent/record/counters.ts';
import type { Interfaces } from '../agent/record/reader.ts';
import { type Recorder, recorder } from '../agent/record/recorder.ts';
import type { Ruleset } from '../agent/render/ruleset.ts';
import type { NodeState } from '../apis/compiled.ts';
import type { Config } from '../apis/config.ts';
import type { AgentOptions } from './agentoptions.ts';
import { loadAddon } from './kernel.ts';
import type { Log } from './log.ts';

interface Parts {
  readonly options: Pick<AgentOptions, 'node' | 'stateDir' | 'once'>;
  readonly config: Config;
  readonly log: Log;
  readonly kernel: Kernel;
  readonly interfaces: Interfaces;
}

/** The record and the counters of an agent. `agent --once` counts, but records nothing: nobody would read on. */
export function recording({ options: { node, stateDir, once }, config, log, kernel, interfaces }: Parts) {
  const counters = ruleCounters({ kernel, file: stateFile(stateDir, 'counters.json'), log, running: !once });
  const file = config.log.file === '' ? join(stateDir, 'records.jsonl') : config.log.file;
  let records: Recorder | null = null;
  return {
    /** To be awaited before anything is applied. */
    async start(): Promise<void> {
      await counters.start();
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
    /** For whoever reads the table: what it counts is counted. */
    kernel: counters.kernel,
    /** What is about to be in force. */
    learn: (state: NodeState) => records?.learn(state),
    enforced({ state }: Enforced, ruleset: Ruleset | null): void {
      if (ruleset !== null) counters.enforced(ruleset, state);
      records?.enforced(state);
    },
    totals: () => counters.totals(),
    async close(): Promise<void> {
      await records?.close();
      await counters.close();
    },
  };
}
