import assert from 'node:assert/strict';
import fc from 'fast-check';
import { NamedList } from '../../render/incremental-list.ts';
import { mapDifference } from './difference.ts';

interface Thing {
  readonly name: string;
}

const KNOWN = new Map(Array.from({ length: 40 }, (_, i) => [i, { name: `n${i % 20}` }] as const));
/** Each name belongs to two objects. */
const things = fc
  .uniqueArray(fc.nat(39), { selector: (i) => i % 20, maxLength: 20 })
  .map((list) => new Map(list.map((i) => [`n${i % 20}`, KNOWN.get(i) as Thing])));

describe('a difference', () => {
  for (const [of, made] of [
    ['maps', (map: ReadonlyMap<string, Thing>) => map],
    ['lists', (map: ReadonlyMap<string, Thing>) => new NamedList([...map.values()])],
  ] as const)
    it(`of ${of} names added, changed and removed objects, in any order`, () => {
      fc.assert(
        fc.property(things, things, (was, is) => {
          const [current, desired] = [made(was), made(is)];
          const { added, changed, gone } = mapDifference(current, desired);
          assert.deepEqual(
            added,
            [...desired.values()].filter(({ name }) => !current.has(name)),
          );
          assert.deepEqual(
            changed.map((change) => change.desired),
            [...desired.values()].filter(
              (thing) => current.has(thing.name) && current.get(thing.name) !== thing,
            ),
          );
          for (const change of changed) assert.equal(change.current, current.get(change.desired.name));
          assert.deepEqual(
            gone,
            [...current.keys()].filter((name) => !desired.has(name)),
          );
        }),
      );
    });

  it('looks up no object that kept its position', () => {
    const list = Array.from({ length: 1000 }, (_, i): [string, Thing] => [`n${i}`, { name: `n${i}` }]);
    let lookedUp = 0;
    class Watched extends Map<string, Thing> {
      override get(name: string) {
        lookedUp++;
        return super.get(name);
      }
      override has(name: string) {
        lookedUp++;
        return super.has(name);
      }
    }
    const desired = new Watched([...list.slice(0, 500), ['new', { name: 'new' }], ...list.slice(501)]);
    const { added, gone } = mapDifference(new Watched(list), desired);
    assert.deepEqual([added.length, gone], [1, ['n500']]);
    assert.ok(lookedUp < 5, `${lookedUp}`);
  });
});
