import assert from 'node:assert/strict';
import { isNewEnough } from './go.ts';

describe('the Go that builds the cluster', () => {
  for (const [version, expected] of [
    ['go1.19.8', false],
    ['go1.25.8', false],
    ['go1.26', false],
    ['go1.26.5', false],
    ['go1.26.6', true],
    ['go1.26rc1', false],
    ['go1.27rc1', true],
    ['go1.26.8 X:nodwarf5', true],
    ['go2.0', true],
    ['devel', false],
    ['', false],
  ] as const) {
    it(`${expected ? 'may' : 'may not'} be ${version || 'of no version'}`, () =>
      assert.equal(isNewEnough(version), expected));
  }
});
