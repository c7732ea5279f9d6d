import assert from 'node:assert/strict';
import fc from 'fast-check';
import { check, meet, missingOf } from './runs.ts';

describe('the cases of a property', () => {
  const { NODEWALL_RUNS: before } = process.env;
  beforeEach(() => {
    delete process.env.NODEWALL_RUNS;
  });
  after(() => {
    if (before !== undefined) process.env.NODEWALL_RUNS = before;
  });

  /** How many there were until `enough`, of 32. */
  function tried(
    test: Mocha.Context,
    { by = check, enough = 0 }: { readonly by?: typeof meet; readonly enough?: number },
  ): number {
    const seen = new Map([['case', 0]]);
    const one = () => void seen.set('case', (seen.get('case') ?? 0) + 1);
    by(test, 32, fc.nat(), one, missingOf(seen, ['case'], enough));
    return seen.get('case') ?? 0;
  }

  it('are an eighth, and more while something is missing', function () {
    assert.equal(tried(this, {}), 4);
    assert.equal(tried(this, { enough: 5 }), 8);
    assert.equal(tried(this, { by: meet }), 0);
    assert.equal(tried(this, { by: meet, enough: 1 }), 4);
  });

  it('are as many as NODEWALL_RUNS says', function () {
    process.env.NODEWALL_RUNS = '2';
    assert.equal(tried(this, {}), 64);
  });

  it('fail where something is missing after all', function () {
    assert.throws(() => tried(this, { enough: 33 }), /in 32 cases too rare: case: 32/);
  });

  it('fail as the first that fails, with the seed that repeats it', function () {
    const one = (value: number) => assert.ok(value < 0, 'no case holds');
    assert.throws(
      () => check(this, 30, fc.nat(), one),
      /no case holds[\s\S]*NODEWALL_SEED=-?\d+ NODEWALL_PATH=/,
    );
  });
});
