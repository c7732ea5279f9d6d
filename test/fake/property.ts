import { relative } from 'node:path';
import fc from 'fast-check';
import { runs } from '../properties/runs.ts';

/**
 * `check` of test/properties/runs.ts for a property that waits: a fresh seed or the one given by hand, and in a failure what was found and
 * the command that finds it again, not the scenario, which is long.
 */
export async function checkAsync<T>(
  test: Mocha.Context,
  count: number,
  arbitrary: fc.Arbitrary<T>,
  property: (value: T) => Promise<void>,
): Promise<void> {
  const { NODEWALL_SEED: seed, NODEWALL_PATH: path } = process.env;
  const details = await fc.check(fc.asyncProperty(arbitrary, property), {
    numRuns: runs(count),
    ...(seed === undefined ? {} : { seed: Number(seed) }),
    ...(path === undefined ? {} : { path }),
    interruptAfterTimeLimit: 60_000 * Math.max(1, Number(process.env.NODEWALL_RUNS ?? 1)),
  });
  if (!details.failed) return;
  const { errorInstance: error } = details;
  const reason = error instanceof Error ? (error.stack ?? error.message) : String(error);
  const node = relative('.', process.execPath);
  const file = relative('.', test.test?.file ?? '');
  throw new Error(
    `${reason}\n\nagain: NODEWALL_SEED=${details.seed} NODEWALL_PATH=${details.counterexamplePath} ${node} node_modules/mocha/bin/mocha.js ${file} -g ${JSON.stringify(test.test?.title ?? '')}`,
  );
}
