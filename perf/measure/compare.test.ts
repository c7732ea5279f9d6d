import assert from 'node:assert/strict';
import { compareResults } from './compare.ts';
import { atLeast, atMost, type Figure, figure } from './figure.ts';
import type { ResultsFile } from './results.ts';

describe('comparison of two runs', () => {
  const judge = (before: Figure, after: Figure) =>
    compareResults(results([before]), results([after])).map(({ judgement }) => judgement);
  const time = (...values: number[]) => figure('a time', 'ms', values);

  it('slower is worse beyond the spread of both', () => {
    assert.deepEqual(judge(time(10, 11, 12), time(20, 21, 22)), ['slower']);
    assert.deepEqual(judge(time(20, 21, 22), time(10, 11, 12)), ['faster']);
    assert.deepEqual(judge(time(10, 11, 12), time(11, 12, 13)), ['same']);
    // The later median is outside the earlier spread, but not the other way round.
    assert.deepEqual(judge(time(10, 11, 12), time(10.5, 13, 14)), ['same']);
  });

  it('a spread of nothing is not all: 3 % are the same', () => {
    assert.deepEqual(judge(time(10, 10, 10), time(10.2, 10.2, 10.2)), ['same']);
    assert.deepEqual(judge(time(10, 10, 10), time(10.4, 10.4, 10.4)), ['slower']);
  });

  it('single trials: 10 %', () => {
    assert.deepEqual(judge(time(10), time(10.9)), ['same']);
    assert.deepEqual(judge(time(10), time(11.1)), ['slower']);
  });

  it('which direction is better is the target’s or the unit’s', () => {
    const rate = (value: number) => figure('a rate', '1/s', [value]);
    const share = (value: number) => figure('a share', '%', [value], { target: atLeast(95) });
    const core = (value: number) => figure('a core', '%', [value], { target: atMost(3) });
    assert.deepEqual(judge(rate(100), rate(50)), ['slower']);
    assert.deepEqual(judge(share(100), share(50)), ['slower']);
    assert.deepEqual(judge(core(1), core(2)), ['slower']);
    assert.deepEqual(judge(figure('a share', '%', [1]), figure('a share', '%', [2])), []);
  });

  it('figures of one name are told apart by their order, what one run lacks is left out', () => {
    const before = results([time(1), time(50)]);
    const after = results([time(1), time(500), figure('new', 'ms', [1])]);
    assert.deepEqual(
      compareResults(before, after).map(({ judgement }) => judgement),
      ['same', 'slower'],
    );
  });

  it('reads what older runs wrote', () => {
    const { point: _, ...old } = time(10);
    const before = { ...results([]), benchmarks: [{ ...benchmark([]), figures: [old] }] };
    assert.equal(compareResults(before, results([time(10)])).length, 1);
  });
});

function results(figures: readonly Figure[]): ResultsFile {
  const machine = {} as ResultsFile['machine'];
  return JSON.parse(JSON.stringify({ machine, quick: false, benchmarks: [benchmark(figures)] }));
}

function benchmark(figures: readonly Figure[]): ResultsFile['benchmarks'][number] {
  return { name: 'one', title: '', how: '', load: [0, 0], figures };
}
