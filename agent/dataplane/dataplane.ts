import type { Config, DataplaneName } from '../../apis/config.ts';
import type { Log } from '../../lib/process/log.ts';
import type { Enforcer, EnforcerParts } from '../apply/enforcer.ts';
import { IptablesError } from '../apply/iptables/tools.ts';
import type { Owners } from '../record/accounting.ts';
import type { CountSource, Readings } from '../record/counters.ts';
import type { Remains } from './left-overs.ts';

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

interface Warnings {
  warn(message: string, fields: object): void;
}

/** What went wrong in one place. */
interface Trouble {
  readonly from: Remains;
  readonly error: Error;
}

export interface Removal {
  /** In words. */
  readonly removed: readonly string[];
  /** Where this process may not look. */
  readonly hidden: readonly Trouble[];
  readonly failed: readonly Trouble[];
}

/**
 * Somebody's rules are there, which this process may not read; perhaps none of ours. Asking again
 * gives no other answer.
 */
function isHidden(error: unknown): boolean {
  return error instanceof IptablesError && error.code === 'NOT_PERMITTED';
}

export function warnHidden(log: Warnings, node: string, hidden: readonly Trouble[]): void {
  for (const { from, error } of hidden) {
    log.warn('cannot look for what another dataplane of ours may have left; nodewall cleanup can', {
      node,
      where: from.name,
      error: error.message,
    });
  }
}

/**
 * Whether packets meet rules of ours, of whatever dataplane, as far as this process may look. The
 * chosen one must.
 */
export async function holdRules(
  { all, others }: Pick<Dataplanes, 'all' | 'others'>,
  node: string,
  log: Warnings,
): Promise<boolean> {
  for (const from of all) {
    try {
      if (await from.holdsRules()) return true;
    } catch (error) {
      if (!isHidden(error) || !others.includes(from)) throw error;
      warnHidden(log, node, [{ from, error: error as Error }]);
    }
  }
  return false;
}

/** Whatever one place says, the next are tried. */
export async function removeEach(all: readonly Remains[]): Promise<Removal> {
  const removed: string[] = [];
  const hidden: Trouble[] = [];
  const failed: Trouble[] = [];
  for (const from of all) {
    try {
      removed.push(...(await from.remove()));
    } catch (error) {
      (isHidden(error) ? hidden : failed).push({ from, error: error as Error });
    }
  }
  return { removed, hidden, failed };
}

/** As `removeEach`; what failed is thrown once all were tried. */
export async function removeAll(all: readonly Remains[]): Promise<Omit<Removal, 'failed'>> {
  const { failed, ...rest } = await removeEach(all);
  const [first] = failed;
  if (first === undefined) return rest;
  const messages = new Set(failed.map(({ error }) => error.message));
  throw messages.size === 1 ? first.error : new Error([...messages].join('; '), { cause: first.error });
}
