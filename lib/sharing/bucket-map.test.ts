import assert from 'node:assert/strict';
import { BucketMap } from './bucket-map.ts';
import { changedIds } from './changed-map.ts';

const map = BucketMap.of(new Map(Array.from({ length: 500 }, (_, i) => [`k${i}`, i])), 64);

describe('a map in buckets', () => {
  it('has the entries that it was made of', () => {
    assert.equal(map.size, 500);
    assert.deepEqual(
      new Map([...map].sort(([, a], [, b]) => a - b)),
      new Map(
        map
          .entries()
          .toArray()
          .sort(([, a], [, b]) => a - b),
      ),
    );
    assert.equal(map.get('k7'), 7);
    assert.equal(map.has('k500'), false);
    assert.equal([...map.keys()].length, 500);
  });

  it('copies only the buckets of changed entries', () => {
    const next = map.with(
      [
        ['k7', 70],
        ['new', 1],
      ],
      ['k8', 'unknown'],
    );
    assert.deepEqual([next.size, next.get('k7'), next.get('new'), next.has('k8')], [500, 70, 1, false]);
    assert.deepEqual([map.size, map.get('k7'), map.has('new'), map.has('k8')], [500, 7, false, true]);
    assert.ok(next.buckets.filter((bucket, i) => bucket !== map.buckets[i]).length <= 3);
    assert.deepEqual([...changedIds(map, next)].sort(), ['k7', 'k8', 'new']);
  });

  it('is the same map if nothing changes', () => {
    assert.equal(map.with([['k7', 7]], ['unknown']), map);
    assert.equal(BucketMap.of(map, 64), map);
  });

  it('iterates in the same order whatever its history', () => {
    const other = map.with([['a', 1]], ['k3']).with([['k3', 3]], ['a']);
    assert.deepEqual([...other], [...map]);
  });
});
