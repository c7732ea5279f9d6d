import assert from 'node:assert/strict';
import { relative } from 'node:path';
import fc from 'fast-check';

/**
 * How many random cases a property gets: so many by default, NODEWALL_RUNS times as many where that
 * is set.
 */
export function runs(count: number): number {
  return Math.max(1, Math.round(count * Number(process.env.NODEWALL_RUNS ?? 1)));
}

/**
 * How many flows each scenario is asked about: so many by default, NODEWALL_FLOWS where that is
 * set.
 */
export function flowCount(count: number): number {
  return Number(process.env.NODEWALL_FLOWS ?? count);
}

/**
 * A property's cases get so long (milliseconds), times NODEWALL_RUNS: shrinking a whole cluster can
 * take longer than anybody waits, and what it has found by then is shown. Cases that there was no
 * time for are a failure.
 */
const PATIENCE = 120_000;

/**
 * Checks a property with a fresh seed, or the one given by hand. A failure says what was found and
 * the command that finds it again, not the scenario, which is long.
 */
export function check<T>(
  test: Mocha.Context,
  count: number,
  arbitrary: fc.Arbitrary<T>,
  property: (value: T) => void,
): void {
  conclude(test, count, fc.check(fc.property(arbitrary, property), parameters<[T]>(count)));
}

/** `check` for a property that waits. */
export async function checkAsync<T>(
  test: Mocha.Context,
  count: number,
  arbitrary: fc.Arbitrary<T>,
  property: (value: T) => Promise<void>,
): Promise<void> {
  conclude(test, count, await fc.check(fc.asyncProperty(arbitrary, property), parameters<[T]>(count)));
}

function parameters<T>(count: number): fc.Parameters<T> {
  const { NODEWALL_SEED: seed, NODEWALL_PATH: path, NODEWALL_RUNS: factor } = process.env;
  const flows = Math.max(1, flowCount(100) / 100);
  return {
    numRuns: runs(count),
    ...(seed === undefined ? {} : { seed: Number(seed) }),
    ...(path === undefined ? {} : { path }),
    interruptAfterTimeLimit: PATIENCE * Math.max(1, Number(factor ?? 1)) * flows,
  };
}

function conclude<T>(test: Mocha.Context, count: number, details: fc.RunDetails<T>): void {
  if (details.interrupted && details.counterexample === null) {
    const done = `${details.numRuns} of ${runs(count)}`;
    throw new Error(`only ${done} cases in the time there is\n\n${rerun(test, details)}`);
  }
  if (details.failed) throw new Error(`${reason(details.errorInstance)}\n\n${rerun(test, details)}`);
}

function reason(error: unknown): string {
  return error instanceof assert.AssertionError
    ? error.message
    : error instanceof Error
      ? (error.stack ?? error.message)
      : String(error);
}

type Found = Pick<fc.RunDetails<unknown>, 'seed' | 'counterexamplePath'>;

function rerun(test: Mocha.Context, { seed, counterexamplePath }: Found): string {
  const file = relative('.', test.test?.file ?? '');
  const title = JSON.stringify(test.test?.title ?? '');
  const path = counterexamplePath === null ? '' : ` NODEWALL_PATH=${counterexamplePath}`;
  const node = relative('.', process.execPath);
  // Not node_modules/mocha/…: mocha takes lines with that out of what it prints.
  return `again: NODEWALL_SEED=${seed}${path} ${node} node_modules/.bin/mocha ${file} -g ${title}`;
}
