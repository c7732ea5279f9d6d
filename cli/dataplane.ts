import type { Enforcer, EnforcerParts } from '../agent/apply/enforcer.ts';
import type { Owners } from '../agent/record/accounting.ts';
import type { CountSource, Readings } from '../agent/record/counters.ts';
import type { Config, DataplaneName } from '../apis/config.ts';
import type { Log } from './log.ts';
import type { Remains } from './remains.ts';

/** One way to enforce rules: stages 5 and 6, what the rules count, and who else touches them. */
export interface Dataplane {
  readonly name: DataplaneName;
  run(parts: RunParts): Running;
}

export interface RunParts {
  readonly config: Config;
  readonly log: Log;
  /** What `Running.digests` said in an earlier run. */
  readonly digests: Readonly<Record<string, string>>;
  /** Told what is read of the counters. */
  readonly readings: Readings;
  readonly enforcer: Omit<EnforcerParts<unknown>, 'reconciler' | 'renderer'>;
}

export interface Running {
  readonly enforcer: Pick<Enforcer<unknown>, 'submit' | 'verify' | 'idle' | 'close'>;
  readonly counts: CountSource;
  /** Of what is in force; null: nothing is yet. */
  owners(): Owners | null;
  /** By which the next run knows what this one left, where there are such. */
  digests(): Record<string, string>;
  /** Changes by others lead to a comparison. Returns what ends it. */
  watch(): () => Promise<void>;
}

export interface Dataplanes {
  /** That of this node. */
  readonly chosen: Dataplane;
  /** What those of earlier runs may have left, that the chosen one doesn't look after. */
  readonly others: readonly Remains[];
  /** What any may have left. */
  readonly all: readonly Remains[];
}

/** Whether packets meet rules of ours, of whatever dataplane. */
export async function holdRules({ all }: Pick<Dataplanes, 'all'>): Promise<boolean> {
  for (const one of all) if (await one.holdsRules()) return true;
  return false;
}

/** In words what was removed. */
export async function removeAll(all: readonly Remains[]): Promise<string[]> {
  const removed: string[] = [];
  for (const one of all) removed.push(...(await one.remove()));
  return removed;
}
