import assert from 'node:assert/strict';
import fc from 'fast-check';
import { boundaries, intersectPorts, type Range } from './interval.ts';

const PORT = fc.integer({ min: 0, max: 40 });
const LIST = fc.array(
  fc.tuple(PORT, PORT).map(([a, b]): Range => [Math.min(a, b), Math.max(a, b)]),
  { maxLength: 6 },
);
const PORTS = Array.from({ length: 42 }, (_, port) => port);
const has = (ranges: readonly Range[], port: number) =>
  ranges.some(([first, last]) => first <= port && port <= last);
const listed = (ranges: readonly Range[]) => PORTS.filter((port) => has(ranges, port));

describe('ports', () => {
  it('intersection has the ports of both', () => {
    fc.assert(
      fc.property(LIST, LIST, (a, b) => {
        assert.deepEqual(
          listed(intersectPorts(a, b)),
          PORTS.filter((port) => has(a, port) && has(b, port)),
        );
      }),
    );
  });

  it('boundaries are where membership changes', () => {
    assert.deepEqual(
      boundaries([
        [5, 9],
        [7, 7],
        [10, 12],
      ]),
      [5, 7, 8, 10, 13],
    );
  });
});
