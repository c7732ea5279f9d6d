import assert from 'node:assert/strict';
import fc from 'fast-check';
import type { ChainVerdict, VerdictMap } from '../../render/verdict-map.ts';
import type { ElementsCommand } from './command.ts';
import { mapChange, sameElements } from './element-change.ts';

type Entries = ReadonlyMap<number, string>;

/**
 * A map of ports. The verdicts are in the order in which the keys first name them, or in the given
 * order.
 */
function toMap(entries: Entries, order: readonly string[] = [...new Set(entries.values())]): VerdictMap {
  const sorted = [...entries].sort(([a], [b]) => a - b);
  return {
    name: 'm',
    key: 'port',
    family: null,
    interval: false,
    fixed: false,
    keys: Uint8Array.from(sorted.flatMap(([port]) => [port >> 8, port & 255])),
    targets: Uint32Array.from(sorted, ([, chain]) => order.indexOf(chain)),
    verdicts: order.map((chain): ChainVerdict => ({ kind: 'jump', chain })),
  };
}

/**
 * Like the kernel: an element that exists can't be added, one that doesn't exist can't be deleted.
 */
function run(current: Map<number, string>, commands: readonly ElementsCommand[]): void {
  for (const { kind, keys, targets, verdicts } of commands) {
    if (kind === 'flushElements') current.clear();
    for (let i = 0; i < keys.length / 2; i++) {
      const port = 256 * (keys[2 * i] ?? 0) + (keys[2 * i + 1] ?? 0);
      if (kind === 'deleteElements') assert.ok(current.delete(port), `${port} is not there`);
      else {
        assert.ok(!current.has(port), `${port} is there`);
        current.set(port, verdicts?.[targets?.[i] ?? -1]?.chain ?? '?');
      }
    }
  }
}

const CHAINS = ['a', 'b', 'c', 'd'];
const entries = fc
  .array(fc.tuple(fc.nat(600), fc.constantFrom(...CHAINS)), { maxLength: 60 })
  .map((list) => new Map(list));
const edits = fc.array(fc.tuple(fc.nat(600), fc.option(fc.constantFrom(...CHAINS))), { maxLength: 4 });

describe('a change of a map', () => {
  it('gives every key its old or new verdict during the change, its new one after it', () => {
    fc.assert(
      fc.property(entries, edits, fc.boolean(), (before, changes, sameOrder) => {
        const after = new Map(before);
        for (const [port, chain] of changes) {
          if (chain === null) after.delete(port);
          else after.set(port, chain);
        }
        const order = sameOrder ? CHAINS : undefined;
        const [from, to] = [toMap(before, order), toMap(after, order)];
        const { swap, less } = mapChange(from, to);
        const current = new Map(before);
        run(current, swap);
        for (const [port, chain] of before) assert.equal(current.get(port), after.get(port) ?? chain);
        run(current, less);
        assert.deepEqual(new Map([...current].sort()), new Map([...after].sort()));
        const touched = [...new Set(changes.map(([port]) => port))];
        const sent = [...swap, ...less].reduce((sum, { keys }) => sum + keys.length / 2, 0);
        assert.ok(sent <= 2 * touched.length, `${sent} elements for ${touched.length} ports`);
        assert.equal(sameElements(from, to), sent === 0);
      }),
    );
  });

  it('flushes a map with elements that no map of nodewall has', () => {
    const wanted = toMap(new Map([[80, 'a']]));
    const { swap, less } = mapChange({ ...wanted, keys: null }, wanted);
    assert.deepEqual([swap.map(({ kind }) => kind), less], [['flushElements', 'addElements'], []]);
  });

  it('is empty for a known map that is named for its content', () => {
    const map = { ...toMap(new Map([[80, 'a']])), fixed: true };
    const other = { ...toMap(new Map([[81, 'b']])), fixed: true };
    assert.deepEqual(mapChange(other, map), { swap: [], less: [] });
    assert.equal(mapChange({ ...other, fixed: false }, map).swap.length, 1);
  });
});
