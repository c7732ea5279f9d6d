import type { WallClock } from '../../lib/process/clock.ts';
import type { Log } from '../../lib/process/log.ts';
import { Saver, stateFile } from '../../lib/process/state-file.ts';
import { type GuardMemory, type GuardState, type LastCounted, requiredOf } from './guard-state.ts';

const FILE = 'guard.json';

export type GuardFile = Saver<GuardMemory>;

/** The guard's memory over restarts, beside the confirmed state. */
export function guardFile(stateDir: string, log: Log): GuardFile {
  return new Saver<GuardMemory>(stateFile(stateDir, FILE), (value) => JSON.stringify(value), log);
}

export async function readGuardMemory(file: GuardFile): Promise<GuardMemory | null> {
  return await file.read(parse);
}

/**
 * For commands beside the agent; null: no guard ever remembered anything. Throws StateFileError.
 */
export async function savedGuardMemory(stateDir: string): Promise<GuardMemory | null> {
  const text = await stateFile(stateDir, FILE).read();
  return text === null ? null : parse(text);
}

/** Files of older versions do not say which probes counted. */
function parse(text: string): GuardMemory {
  const { trial, ...rest } = JSON.parse(text) as GuardMemory;
  return { ...rest, trial: trial === null ? null : { ...trial, counted: trial.counted ?? null } };
}

/** Nothing was tried yet. */
export const NO_MEMORY: GuardMemory = { trial: null, holds: [], rollbacks: {} };

export function toMemory(
  { trial, interrupted, proof, holds, rollbacks, lastCounted }: GuardState,
  clock: WallClock,
): GuardMemory {
  const now = clock.now();
  const time = clock.date().getTime();
  const pending = trial ?? interrupted ?? (proof === null || proof.required?.size === 0 ? null : UNKNOWN);
  const required = trial === null ? proof?.required : requiredOf(trial);
  const counted = required ?? interrupted?.counted ?? null;
  return {
    trial:
      pending === null
        ? null
        : {
            changes: pending.changes,
            attempt: pending.attempt,
            counted: counted === null ? null : [...counted],
          },
    holds,
    rollbacks: Object.fromEntries(
      [...rollbacks].map(([probe, at]) => [probe, new Date(time - (now - at)).toISOString()]),
    ),
    ...(lastCounted?.until === Number.POSITIVE_INFINITY ? { lastCounted: [...lastCounted.probes] } : {}),
  };
}

export function toLastCounted({ lastCounted }: GuardMemory): LastCounted | null {
  return lastCounted === undefined ? null : { probes: new Set(lastCounted), until: Number.POSITIVE_INFINITY };
}

/** The change that was interrupted was edited, and its probes must pass all the same. */
const UNKNOWN = { changes: [], attempt: 0 } as const;

/** A time of day that jumped makes no rollback later than now. */
export function toRollbacks({ rollbacks }: GuardMemory, clock: WallClock): ReadonlyMap<string, number> {
  const time = clock.date().getTime();
  return new Map(
    Object.entries(rollbacks).map(([probe, at]) => {
      const age = Math.max(0, time - new Date(at).getTime());
      return [probe, clock.now() - age];
    }),
  );
}
