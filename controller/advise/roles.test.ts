import assert from 'node:assert/strict';
import type { Labels } from '../../apis/objects.ts';
import { fewLabels } from './roles.ts';

const PLACES = ['role', 'app', 'tier', 'other'];
const placeOf = (key: string): number | null => (PLACES.includes(key) ? PLACES.indexOf(key) : null);

const select = (own: readonly Labels[], others: readonly Labels[], needsLabel = false) =>
  fewLabels(own, others, { placeOf, needsLabel });

describe('few labels', () => {
  it('are none where nothing else is to be excluded, unless one is needed', () => {
    const own = [{ zone: 'a', tier: 't', app: 'web' }];
    assert.deepEqual(select(own, []), {});
    assert.deepEqual(select(own, [], true), { matchLabels: { app: 'web' } });
    assert.equal(select([{ zone: 'a' }], [], true), null);
    const others = [{ ...own[0], other: '' }];
    const matchExpressions = [{ key: 'other', operator: 'DoesNotExist' }];
    assert.deepEqual(select(own, others), { matchExpressions });
    assert.deepEqual(select(own, others, true), { matchLabels: { app: 'web' }, matchExpressions });
  });

  it('are those that exclude most, the better one of equals, and one that is there before one that is not', () => {
    const own = [{ role: 'x', app: 'web', tier: 'front' }];
    assert.deepEqual(select(own, [{ app: 'db' }]), { matchLabels: { role: 'x' } });
    assert.deepEqual(select(own, [{ role: 'x', app: 'web', tier: 'back' }]), {
      matchLabels: { tier: 'front' },
    });
    assert.deepEqual(
      select(own, [
        { ...own[0], other: '' },
        { role: 'x', app: 'db', tier: 'front' },
      ]),
      {
        matchLabels: { app: 'web' },
        matchExpressions: [{ key: 'other', operator: 'DoesNotExist' }],
      },
    );
  });

  it('select all of one’s own', () => {
    const own = [
      { app: 'web', tier: 'front' },
      { app: 'web', tier: 'back', other: '' },
    ];
    assert.deepEqual(select(own, [{ app: 'db', tier: 'front' }]), { matchLabels: { app: 'web' } });
    assert.equal(select(own, [{ app: 'web', tier: 'front' }]), null);
    assert.equal(select(own, [{ app: 'web' }], true), null);
  });

  it('are no labels without a place, nor more than four', () => {
    assert.equal(select([{ zone: 'a' }], [{ zone: 'b' }]), null);
    const keys = Array.from({ length: 5 }, (_, i) => `k${i}`);
    const own: Labels = Object.fromEntries(keys.map((key) => [key, 'own']));
    const others = keys.map((key): Labels => ({ ...own, [key]: 'other' }));
    const taste = { placeOf: () => 0, needsLabel: false };
    assert.equal(fewLabels([own], others, taste), null);
    assert.deepEqual(fewLabels([{ b: '' }], [{ a: '' }], taste), { matchLabels: { b: '' } });
    assert.deepEqual(fewLabels([own], others.slice(1), taste), {
      matchLabels: Object.fromEntries(keys.slice(1).map((key) => [key, 'own'])),
    });
  });
});
