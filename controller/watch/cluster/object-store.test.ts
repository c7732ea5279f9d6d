import assert from 'node:assert/strict';
import { ObjectStore, type PartialList } from './object-store.ts';

interface Version {
  readonly key: string;
  readonly version: number;
}

/** Values are `KEY@VERSION`; keys that begin with `x` are not stored. */
function versions(): ObjectStore<string> {
  return new ObjectStore(({ key, version }) => (key.startsWith('x') ? null : `${key}@${version}`));
}

const at = (key: string, version: number) => ({ key, version, raw: {} });

function listed(store: ObjectStore<string>, ...objects: readonly Version[]): PartialList<string> {
  const list = store.startList();
  for (const { key, version } of objects) list.add(at(key, version));
  list.end();
  return list;
}

describe('ObjectStore', () => {
  let store: ObjectStore<string>;
  const put = (key: string, version: number) => store.receive(at(key, version), false);
  const remove = (key: string, version: number) => store.receive(at(key, version), true);

  beforeEach(() => {
    store = versions();
    store.replace(listed(store, at('a', 1), at('b', 2), at('x', 3)), 10);
  });

  it('applies new events only', () => {
    assert.deepEqual(put('a', 11), {
      change: { key: 'a', before: 'a@1', now: 'a@11' },
      isDisordered: false,
    });
    assert.deepEqual(put('a', 11), { change: null, isDisordered: false });
    assert.deepEqual(put('a', 1), { change: null, isDisordered: false });
    assert.deepEqual(put('x', 12), { change: null, isDisordered: false });
    assert.equal(store.position(), 12);
    assert.deepEqual(remove('a', 13).change, { key: 'a', before: 'a@11', now: null });
    assert.deepEqual(remove('a', 13), { change: null, isDisordered: false });
    assert.equal(store.size(), 1);
  });

  it('applies a late event by its version, and reports the disorder', () => {
    put('c', 15);
    assert.deepEqual(put('a', 12), { change: { key: 'a', before: 'a@1', now: 'a@12' }, isDisordered: true });
    assert.deepEqual(remove('b', 14), { change: { key: 'b', before: 'b@2', now: null }, isDisordered: true });
    // Created in between, or an event from before the deletion: only a list can decide.
    assert.deepEqual(put('b', 13), { change: null, isDisordered: true });
    assert.deepEqual(put('x2', 13), { change: null, isDisordered: false });
  });

  it('replaces its objects by those of a list', () => {
    const changes = store.replace(listed(store, at('a', 1), at('c', 12)), 12);
    assert.deepEqual(changes, [
      { key: 'c', before: null, now: 'c@12' },
      { key: 'b', before: 'b@2', now: null },
    ]);
    assert.equal(store.position(), 12);
  });

  it('corrects changes that events missed, and keeps later events', () => {
    const list = store.startList();
    for (const object of [at('a', 1), at('b', 2), at('c', 11), at('e', 12), at('f', 13)]) {
      list.add(object);
    }
    put('b', 16);
    put('d', 17);
    put('g', 18);
    put('e', 19);
    remove('e', 20);
    remove('g', 21);
    list.end();
    assert.deepEqual(store.correct(list, 15), [
      { key: 'c', before: null, now: 'c@11' },
      { key: 'f', before: null, now: 'f@13' },
    ]);
    assert.equal(store.position(), 21);
  });

  it('corrects an object of the listed version with other content', () => {
    const labelled = new ObjectStore<{ label: unknown }>(({ raw: { label } }) =>
      label === null ? null : { label },
    );
    const object = (label: string | null) => ({ ...at('a', 11), raw: { label } });
    labelled.replace(labelled.startList(), 10);
    labelled.receive(object('wr}ng'), false);
    const listing = (label: string | null) => {
      const list = labelled.startList(false);
      list.add(object(label));
      return list;
    };
    const [change] = labelled.correct(listing('right'), 11);
    assert.deepEqual(change, { key: 'a', before: { label: 'wr}ng' }, now: { label: 'right' } });
    assert.deepEqual(labelled.correct(listing('right'), 11), []);
    assert.equal(labelled.correct(listing(null), 11)[0]?.now, null);
  });

  it('corrects a missed deletion and a missed change', () => {
    const list = listed(store, at('b', 12));
    assert.deepEqual(store.correct(list, 15), [
      { key: 'b', before: 'b@2', now: 'b@12' },
      { key: 'a', before: 'a@1', now: null },
    ]);
    assert.deepEqual(store.correct(listed(store, at('b', 12)), 16), []);
  });
});
