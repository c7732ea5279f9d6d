import assert from 'node:assert/strict';
import fc from 'fast-check';
import type { PortRange } from '../../../apis/compiled.ts';
import { item } from '../../../test/fake/node-state.ts';
import { check } from '../../../test/properties/runs.ts';
import { type PortPieces, portPieces } from './port-pieces.ts';

/**
 * The pieces of rules with these ports, by port or range: the indexes of the rules. Null: every
 * port.
 */
function pieces(...ports: readonly (readonly (number | PortRange)[] | null)[]): PortPieces {
  const items = ports.map((list, i) => item(`rule${i}`, list === null ? {} : { ports: list }));
  const found = portPieces(items, Number.POSITIVE_INFINITY);
  assert.ok(found);
  return found;
}

function words({ ports, planOfPort, ranges, planOfRange, lists, others }: PortPieces): object {
  return {
    ...Object.fromEntries(ports.map((port, i) => [port, lists[planOfPort[i] ?? -1]?.join()])),
    ...Object.fromEntries(ranges.map((range, i) => [range.join('-'), lists[planOfRange[i] ?? -1]?.join()])),
    ...(others.length > 0 ? { others: others.join() } : {}),
  };
}

describe('port pieces', () => {
  it('single ports stay single; rules of one port are in order', () => {
    assert.deepEqual(words(pieces([80], [443], [80])), { 80: '0,2', 443: '1' });
  });

  it('are none for no rules; for rules for every port there is only the list for other ports', () => {
    assert.deepEqual(words(pieces()), {});
    assert.deepEqual(words(pieces(null, null)), { others: '0,1' });
  });

  it('a rule for every port is in each piece, in its order', () => {
    assert.deepEqual(words(pieces([80], null, [80], [443])), { 80: '0,1,2', 443: '1,3', others: '1' });
  });

  it('ranges are split where another begins or ends', () => {
    assert.deepEqual(words(pieces([[1000, 2999]], [[2000, 3999]])), {
      '1000-1999': '0',
      '2000-2999': '0,1',
      '3000-3999': '1',
    });
  });

  it('a single port in a range is a piece of its own', () => {
    assert.deepEqual(words(pieces([[1000, 2999]], [2000])), {
      2000: '0,1',
      '1000-1999': '0',
      '2001-2999': '0',
    });
  });

  it('a piece of up to eight ports is single ports, a wider one a range', () => {
    assert.deepEqual(Object.keys(words(pieces([[100, 107]]))), [
      '100',
      '101',
      '102',
      '103',
      '104',
      '105',
      '106',
      '107',
    ]);
    assert.deepEqual(Object.keys(words(pieces([[100, 108]]))), ['100-108']);
  });

  it('the first and the last port can be pieces and ends of ranges', () => {
    assert.deepEqual(words(pieces([0], [65_535])), { 0: '0', 65535: '1' });
    assert.deepEqual(words(pieces([[0, 65_535]])), { '0-65535': '0' });
    assert.deepEqual(words(pieces([[0, 65_535]], [0, 65_535])), { 0: '0,1', 65535: '0,1', '1-65534': '0' });
  });

  it('pieces with the same rules share a list', () => {
    const { lists } = pieces([80, 81, [1000, 2000]], [80, [1500, 1600]]);
    assert.deepEqual(lists, [[0, 1], [0]]);
  });

  it('are none if the lists exceed the limit', () => {
    const items = [item('a', { ports: [[1, 100]] }), item('b', { ports: [[50, 200]] })];
    assert.ok(portPieces(items, 4));
    assert.equal(portPieces(items, 3), null);
  });

  it('property: every port leads to its rules', function () {
    const port = fc.oneof(fc.integer({ min: 0, max: 40 }), fc.integer({ min: 65_500, max: 65_535 }));
    const range = fc.tuple(port, port).map(([a, b]): PortRange => [Math.min(a, b), Math.max(a, b)]);
    // The ranges of one rule are a union: sorted, disjoint, not adjacent.
    const asked = fc.oneof(
      range.map((one) => [one]),
      port.map((one): PortRange[] => [[one, one]]),
      fc.constant<PortRange[]>([
        [3, 3],
        [10, 30],
      ]),
      fc.constant(null),
    );
    check(this, 300, fc.array(asked, { maxLength: 12 }), (rules) => {
      const found = pieces(...rules);
      const { ports, planOfPort, ranges, planOfRange, lists, others } = found;
      assert.deepEqual(
        [...ports],
        [...new Set(ports)].sort((a, b) => a - b),
      );
      for (const one of [
        ...Array(45).keys(),
        100,
        65_499,
        ...Array.from({ length: 36 }, (_, i) => 65_500 + i),
      ]) {
        const wanted = rules.flatMap((list, i) =>
          list === null || list.some(([first, last]) => first <= one && one <= last) ? i : [],
        );
        const at = ports.indexOf(one);
        const within = ranges.findIndex(([first, last]) => first <= one && one <= last);
        assert.ok(at < 0 || within < 0, `${one} is looked up once`);
        const plan = at >= 0 ? planOfPort[at] : planOfRange[within];
        assert.deepEqual(plan === undefined ? others : lists[plan], wanted, String(one));
      }
    });
  });
});
