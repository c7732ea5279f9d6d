import assert from 'node:assert/strict';
import { relative } from 'node:path';
import fc from 'fast-check';

/**
 * `npm test` tries this part of the cases that a property names, with fresh seeds; `npm run
 * test:long` tries ten times all of them.
 */
const SHARE = 1 / 8;

/** So many by default, NODEWALL_RUNS times as many where that is set. */
export function runs(count: number): number {
  return Math.max(1, Math.round(count * Number(process.env.NODEWALL_RUNS ?? 1)));
}

/**
 * How many random cases of `count` a property gets: a part, or `runs` where NODEWALL_RUNS is set.
 */
export function cases(count: number): number {
  return process.env.NODEWALL_RUNS === undefined ? Math.ceil(count * SHARE) : runs(count);
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
const PATIENCE = 600_000;

/** Names what random cases have not met yet: a property that never meets it says nothing of it. */
type Missing = () => readonly string[];

/** The expected keys that were counted fewer than `least` times, with their counts. */
export function missingOf(
  seen: ReadonlyMap<string, number>,
  expected: readonly string[],
  least = 3,
): Missing {
  const counts = () => expected.map((key) => [key, seen.get(key) ?? 0] as const);
  return () => counts().flatMap(([key, count]) => (count < least ? [`${key}: ${count}`] : []));
}

/**
 * Checks a property with a fresh seed, or the one given by hand. A failure says what was found and
 * the command that finds it again, not the scenario, which is long. Where the cases have not met
 * what `missing` names, there are more, up to `count`; then it fails.
 */
export function check<T>(
  test: Mocha.Context,
  count: number,
  arbitrary: fc.Arbitrary<T>,
  property: (value: T) => void,
  missing?: Missing,
): void {
  for (const part of parts<[T]>(count, missing))
    conclude(test, part.numRuns, fc.check(fc.property(arbitrary, property), part));
}

/**
 * `check` of no case where nothing is missing, and of as many of `count` as it takes to meet it.
 */
export function meet<T>(
  test: Mocha.Context,
  count: number,
  arbitrary: fc.Arbitrary<T>,
  property: (value: T) => void,
  missing: Missing,
): void {
  for (const part of parts<[T]>(count, missing, 0))
    conclude(test, part.numRuns, fc.check(fc.property(arbitrary, property), part));
}

/** `check` for a property that waits. */
export async function checkAsync<T>(
  test: Mocha.Context,
  count: number,
  arbitrary: fc.Arbitrary<T>,
  property: (value: T) => Promise<void>,
  missing?: Missing,
): Promise<void> {
  for (const part of parts<[T]>(count, missing))
    conclude(test, part.numRuns, await fc.check(fc.asyncProperty(arbitrary, property), part));
}

/**
 * One part after the other, `least` at least, until nothing is missing; throws if something is
 * after all cases.
 */
function* parts<T>(
  count: number,
  missing: Missing = () => [],
  least: 0 | 1 = 1,
): Generator<fc.Parameters<T> & { readonly numRuns: number }> {
  const { NODEWALL_SEED: seed, NODEWALL_PATH: path, NODEWALL_RUNS: factor } = process.env;
  const flows = Math.max(1, flowCount(100) / 100);
  const first = cases(count);
  const most = Math.max(first, runs(count));
  for (let done = 0; done < least || (done < most && missing().length > 0); done += first) {
    yield {
      numRuns: Math.min(first, most - done),
      ...(seed === undefined ? {} : { seed: Number(seed) + done }),
      ...(path === undefined ? {} : { path }),
      interruptAfterTimeLimit: PATIENCE * Math.max(1, Number(factor ?? 1)) * flows,
    };
    // One case is repeated.
    if (path !== undefined) return;
  }
  const never = missing();
  if (never.length > 0) throw new Error(`in ${most} cases too rare: ${never.join(', ')}`);
}

function conclude<T>(test: Mocha.Context, count: number, details: fc.RunDetails<T>): void {
  if (details.interrupted && details.counterexample === null) {
    const done = `${details.numRuns} of ${count}`;
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
