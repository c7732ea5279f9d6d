import type { NodeState } from '../../apis/compiled.ts';
import type { Log } from '../../lib/process/log.ts';
import { Saver } from '../../lib/process/saver.ts';
import { type BootFiles, bootFolder, removeBootFiles } from './boot-folder.ts';

/** The least time between two writes (milliseconds): with many members these files are large. */
const WRITE_INTERVAL = 10_000;

export interface BootRulesOptions {
  readonly stateDir: string;
  /** Whether files are kept; else those of earlier runs are removed. */
  readonly enabled: boolean;
  readonly log: Log;
}

/** Keeps the files that are loaded at boot equal to the rules in force. Failures are logged. */
export class BootRules {
  readonly #saver: Saver<() => BootFiles, BootFiles>;
  readonly #enabled: boolean;

  constructor({ stateDir, enabled, log }: BootRulesOptions) {
    this.#enabled = enabled;
    this.#saver = new Saver(
      {
        read: async () => null,
        write: (files) =>
          Object.keys(files).length === 0 ? removeBootFiles(stateDir) : bootFolder(stateDir).write(files),
      },
      (files: () => BootFiles) => files(),
      log,
      { interval: WRITE_INTERVAL },
    );
  }

  /** @param files the rules of the state as files; made when they are written */
  inForce({ rules, egress }: NodeState, files: () => BootFiles): void {
    const isNothing = rules.length === 0 && egress === undefined;
    this.#saver.save(isNothing || !this.#enabled ? NO_FILES : files);
  }

  flush(): Promise<void> {
    return this.#saver.flush();
  }
}

/** Nothing is loaded. */
const NO_FILES = (): BootFiles => ({});
