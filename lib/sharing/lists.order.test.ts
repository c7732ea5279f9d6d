import assert from 'node:assert/strict';
import { firstAt } from './lists.ts';

describe('firstAt', () => {
  it('finds the first index at which the condition holds, in few steps', () => {
    for (let to = 0; to < 20; to++) {
      for (let from = 0; from <= to; from++) {
        for (let wanted = from; wanted <= to; wanted++) {
          let asked = 0;
          const holds = (index: number): boolean => {
            asked++;
            assert.ok(from <= index && index < to);
            return index >= wanted;
          };
          assert.equal(firstAt(from, to, holds), wanted);
          assert.ok(asked <= Math.ceil(Math.log2(to - from + 1)));
        }
      }
    }
  });
});
