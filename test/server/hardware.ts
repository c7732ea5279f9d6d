import type { Finished } from '../../build/programs/command.ts';
import type { Outside } from './outside.ts';

export interface RunOptions {
  readonly stdin?: string;
}

export interface HardwareOptions {
  /** The machine's disk as a folder, with everything that is installed. */
  readonly root: string;
  /** A folder for files of the hardware. */
  readonly folder: string;
  readonly outside: Outside;
}

/** Something that boots a disk, with a cable to outside. */
export interface Hardware {
  /** Switches it on; resolves when commands can run. */
  on(): Promise<void>;
  /** Runs a command to its end, whatever that is. */
  run(argv: readonly string[], options?: RunOptions): Promise<Finished>;
  /** Resolves when it has gone off by itself: what the kernel held is gone. */
  isOff(): Promise<void>;
  /** Pulls its plug. */
  cut(): Promise<void>;
  /** The console since it was switched on. */
  console(): string;
}
