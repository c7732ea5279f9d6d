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

/** Keeps the files that are loaded at boot equal to the confirmed rules. Failures are logged. */
export class BootRules {
  readonly #saver: Saver<() => BootFiles, BootFiles>;
  readonly #enabled: boolean;
  #inForce: { readonly state: NodeState; readonly files: () => BootFiles } | null = null;
  #confirmed: NodeState | null = null;

  constructor({ stateDir, enabled, log }: BootRulesOptions) {
    this.#enabled = enabled;
    this.#saver = new Saver(
      {
        read: async () => null,
        write: async (files) => {
          if (Object.keys(files).length === 0) await removeBootFiles(stateDir);
          else await bootFolder(stateDir).write(files);
        },
      },
      (files: () => BootFiles) => files(),
      log,
      { interval: WRITE_INTERVAL },
    );
  }

  /**
   * The state is in force, confirmed or not.
   * @param files its rules as files; made when they are written
   */
  inForce(state: NodeState, files: () => BootFiles): void {
    const isNothing = state.rules.length === 0 && state.egress === undefined;
    this.#inForce = { state, files: isNothing || !this.#enabled ? NO_FILES : files };
    if (state === this.#confirmed) this.confirmed(state);
  }

  /** The state is the one that counts from now on. */
  confirmed(state: NodeState): void {
    this.#confirmed = state;
    if (this.#inForce?.state === state) this.#saver.save(this.#inForce.files);
  }

  /** Writes what waits; from then on nothing is written. */
  close(): Promise<void> {
    return this.#saver.close();
  }
}

/** Nothing is loaded. */
const NO_FILES = (): BootFiles => ({});
