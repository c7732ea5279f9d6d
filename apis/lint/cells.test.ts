import assert from 'node:assert/strict';
import type { RuleListEntry } from '../difference/entry.ts';
import { PROTOCOL_NUMBERS } from '../flow.ts';
import { cellsOf, type FlowCell } from './cells.ts';

const { tcp } = PROTOCOL_NUMBERS;

/** Rule `order` for TCP ports `first` to `first + width`, from source ports alike. */
function entry(order: number, first: number, width: number): RuleListEntry {
  const ports = [first, first + width] as const;
  return {
    order,
    leaf: order + 1,
    isPass: false,
    isBaseline: false,
    isSkippable: false,
    sparesPods: false,
    boxes: new Map([[tcp, [{ x: ports, y: ports }]]]),
  };
}

describe('cells of flows', () => {
  const entries = [entry(0, 10, 10), entry(1, 15, 10), entry(2, 18, 1)];

  it('divide both numbers where the rules that match change', () => {
    const cells = [...cellsOf(4, 'ingress', { entries, failsafe: [], numbers: [] }, () => {})];
    const matching = (x: number, y: number): readonly FlowCell[] =>
      cells.filter((cell) => isIn(x, cell.x) && isIn(y, cell.y));
    for (let x = 9; x < 28; x++) {
      for (let y = 9; y < 28; y++) {
        const orders = entries
          .filter(({ boxes }) => boxes?.get(tcp)?.some((box) => isIn(x, box.x) && isIn(y, box.y)))
          .map(({ order }) => order);
        const found = matching(x, y).map((cell) => cell.entries.map(({ order }) => order));
        assert.deepEqual(found, orders.length === 0 ? [] : [orders], `port ${x} from ${y}`);
      }
    }
  });

  it('can be ended before each: there are as many as the square of the rules', () => {
    const count = 50;
    const stairs = Array.from({ length: count }, (_, i) => entry(i, 1 + i, 1000));
    let left = count * count;
    const checkpoint = (): void => {
      if (left-- === 0) throw new Error('over');
    };
    let cells = 0;
    assert.throws(() => {
      for (const _ of cellsOf(4, 'ingress', { entries: stairs, failsafe: [], numbers: [] }, checkpoint))
        cells++;
    }, /over/);
    assert.ok(cells > 0 && cells <= count * count);
  });
});

function isIn(value: number, range: readonly [number, number] | null): boolean {
  return range === null || (range[0] <= value && value <= range[1]);
}
