import assert from 'node:assert/strict';
import fc from 'fast-check';
import { CLOSE_LABELS, CLOSE_SELECTOR } from '../../test/generate/labels.ts';
import { labelIndex } from './key-index.ts';
import { allHold, canonicalRequirements } from './selector.ts';

describe('labelIndex', () => {
  it('selects the same items as a full scan, after any changes', () => {
    fc.assert(
      fc.property(
        fc.array(CLOSE_LABELS, { maxLength: 12 }),
        fc.array(CLOSE_LABELS, { maxLength: 6 }),
        fc.array(CLOSE_SELECTOR, { maxLength: 6 }),
        (first, more, selectors) => {
          const [before, added] = [first, more].map((all) => all.map((labels) => ({ labels })));
          assert.ok(before !== undefined && added !== undefined);
          const removed = before.filter((_, i) => i % 3 === 1);
          const index = labelIndex(before);
          index.change({ removed, added });
          const now = [...before.filter((item) => !removed.includes(item)), ...added];
          assert.equal(index.size, now.length);
          for (const selector of selectors.map(canonicalRequirements)) {
            const wanted = now.filter(({ labels }) => allHold(selector, labels));
            const found = index.select(selector);
            assert.equal(found.length, wanted.length);
            assert.deepEqual(new Set(found), new Set(wanted));
            assert.ok(index.effort(selector) >= wanted.length);
          }
        },
      ),
      { numRuns: 500 },
    );
  });

  it('selects by more keys than it caches', () => {
    const items = Array.from({ length: 1500 }, (_, i) => ({ labels: { [`key-${i}`]: '' } }));
    const index = labelIndex(items);
    const select = (i: number) => index.select([{ key: `key-${i}`, operator: 'Exists' }]);
    for (const [i, item] of items.entries()) assert.deepEqual(select(i), [item]);
    const [first, ...others] = items;
    assert.ok(first !== undefined);
    index.change({ removed: [first], added: [] });
    assert.deepEqual([select(0), select(1), select(1499)], [[], [others[0]], [others.at(-1)]]);
  });

  it('tests only the items of the rarest requirement', () => {
    const items = Array.from({ length: 20 }, (_, i) => ({
      labels: { all: 'yes', ...(i < 3 ? { few: `${i}` } : {}) },
    }));
    const index = labelIndex(items);
    const effort = (...keys: string[]) =>
      index.effort(keys.map((key) => ({ key, operator: 'Exists' as const })));
    assert.deepEqual([effort(), effort('all'), effort('all', 'few'), effort('none')], [20, 20, 3, 0]);
    assert.equal(index.effort([{ key: 'few', operator: 'In', values: ['1', '9'] }]), 1);
    assert.equal(index.effort([{ key: 'few', operator: 'NotIn', values: ['1'] }]), 20);
  });
});
