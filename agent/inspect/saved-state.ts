import { setTimeout as pause } from 'node:timers/promises';
import type { NodeState } from '../../apis/compiled.ts';
import { utcText } from '../../lib/process/clock.ts';
import { CommandError, EXIT } from '../../lib/process/exit.ts';
import { stateFile } from '../../lib/process/state-file.ts';
import { countsInForce } from '../dataplane/dataplanes.ts';
import {
  NAMES_FILE,
  parseNamesText,
  type SavedAddress,
  type SavedName,
  type SavedNames,
} from '../names/saved-names.ts';
import {
  Accounting,
  type CountedTable,
  NO_ACCOUNTS,
  type RuleTotals,
  type SavedAccounts,
} from '../record/accounting.ts';
import { agentLock } from '../run/agent-lock.ts';
import { toNodeState } from '../run/state-store.ts';
import { withKernel } from '../run/with-kernel.ts';

/** The state that the agent of this node enforces. Throws a CommandError if there is nothing. */
export async function readState(stateDir: string): Promise<NodeState> {
  const state = await readStateIfAny(stateDir);
  if (state !== null) return state;
  throw new CommandError(
    EXIT.invalid,
    `nothing is enforced: the feature gate is off, or no agent has run with ${stateDir} (start one with nodewall agent, or give its --state-dir)`,
  );
}

/** Null: nothing was ever enforced. */
export async function readStateIfAny(stateDir: string): Promise<NodeState | null> {
  const text = await readFile(stateDir, 'node-state.jsonl');
  return text === null ? null : toNodeState(text);
}

interface ReadTotals {
  readonly totals: Map<string, RuleTotals>;
  /** By rule id: since when it is counted (ISO 8601). */
  readonly since: ReadonlyMap<string, string>;
  /** Why they may be older than now; null: they are of now. */
  readonly remark: string | null;
}

/** The saved counters, and the kernel's since then. `now`: the time of the reading (ISO 8601). */
export async function readTotals(stateDir: string, now: () => string): Promise<ReadTotals> {
  for (let attempt = 1; ; attempt++) {
    const text = await readFile(stateDir, 'counters.json');
    const saved: unknown = text === null ? NO_ACCOUNTS : JSON.parse(text);
    const accounts = new Accounting(saved);
    const { found, remark } = await readKernel();
    // The rules have just changed: the agent is about to save the counters of the removed chains.
    const isStale = found !== null && !isCovered(accounts.save(), found);
    if (isStale && attempt < ATTEMPTS && (await agentLock(stateDir).holder()) !== null) {
      await pause(SAVED_WITHIN / ATTEMPTS);
      continue;
    }
    if (found !== null) accounts.read(found, now());
    return { totals: accounts.totals(), since: accounts.since(), remark };
  }
}

/** Milliseconds within which the agent saves its counters after a change of rules. */
const SAVED_WITHIN = 2_000;
const ATTEMPTS = 20;

function isCovered({ chains }: SavedAccounts, table: CountedTable): boolean {
  const names = new Set(table.chains.map(({ name, handle }) => `${handle} ${name}`));
  return chains.every(({ name, handle }) => names.has(`${handle} ${name}`));
}

async function readFile(stateDir: string, name: string): Promise<string | null> {
  try {
    return await stateFile(stateDir, name).read();
  } catch (error) {
    const { message, cause } = error as Error;
    const isRefused = (cause as NodeJS.ErrnoException | undefined)?.code === 'EACCES';
    throw new CommandError(
      isRefused ? EXIT.refused : EXIT.invalid,
      isRefused ? `${message}: this needs root` : message,
      { cause: error },
    );
  }
}

/** Reads the counters of whichever dataplane holds rules; this needs no configuration. */
async function readKernel(): Promise<{
  readonly found: CountedTable | null;
  readonly remark: string | null;
}> {
  try {
    const found = await withKernel(countsInForce);
    if (found !== null) return { found, remark: null };
    return { found, remark: 'the kernel has no rules; the counts are the last saved ones' };
  } catch (error) {
    if (!(error instanceof CommandError)) throw error;
    const remark = `cannot read the kernel's counters; the counts are the last saved ones, up to 30 s old: ${error.message}`;
    return { found: null, remark };
  }
}

/** The names of the rules in force; times are ISO 8601, to the second. */
export interface NamesInForce {
  /** When the agent saved them; null: it never did. */
  readonly saved: string | null;
  readonly names: readonly KnownName[];
}

interface KnownName extends Omit<SavedName, 'addresses'> {
  readonly addresses: readonly (Omit<SavedAddress, 'seen' | 'expires'> & {
    readonly seen: string;
    readonly expires: string;
  })[];
}

/** As the agent last saved them. Throws a CommandError if the file cannot be read. */
export async function knownNames(stateDir: string): Promise<NamesInForce> {
  const found = await read(stateDir);
  if (found === null) return { saved: null, names: [] };
  const { saved, names } = found;
  return {
    saved: isoTime(saved),
    names: names.map(({ name, failing, addresses }) => ({
      name,
      failing,
      addresses: addresses.map((one) => ({ ...one, seen: isoTime(one.seen), expires: isoTime(one.expires) })),
    })),
  };
}

async function read(stateDir: string): Promise<SavedNames | null> {
  try {
    const text = await stateFile(stateDir, NAMES_FILE).read();
    return text === null ? null : parseNamesText(text);
  } catch (error) {
    const { message, cause } = error as Error;
    const why = cause instanceof Error ? ` (${cause.message})` : '';
    throw new CommandError(EXIT.refused, `${message}${why}`, { cause: error });
  }
}

/** The year 1970 for an invalid time. */
function isoTime(milliseconds: number): string {
  const date = new Date(milliseconds);
  return utcText(Number.isNaN(date.getTime()) ? 0 : date);
}
