import assert from 'node:assert/strict';
import fc from 'fast-check';
import { parseSave, toSaveText } from '../lib/index.ts';
import { SET_TYPES } from '../lib/set.ts';
import { savedSets } from './arbitrary.ts';

describe('saved sets', () => {
  it('are read as they were written, and written as they were read', () => {
    const seen = new Set<string>();
    fc.assert(
      fc.property(savedSets, (sets) => {
        const text = toSaveText(sets);
        const read = parseSave(text);
        assert.deepEqual(
          read,
          sets.map((set) => ({ ...set })),
        );
        assert.equal(toSaveText(read), text);
        for (const { type } of sets) seen.add(type);
      }),
      { numRuns: 500 },
    );
    assert.equal(seen.size, SET_TYPES.length);
  });

  it('never split a value into words or lines', () => {
    fc.assert(
      fc.property(savedSets, (sets) => {
        const lines = sets.reduce((sum, { entries }) => sum + 1 + entries.length, 0);
        assert.equal(toSaveText(sets).split('\n').length, lines + 1);
      }),
    );
  });
});
