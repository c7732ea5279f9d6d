import assert from 'node:assert/strict';
import { NO_OBJECTS } from '../../apis/objects.ts';
import { fakeNodeEgress } from '../../test/fake/egress-objects.ts';
import { compile } from '../compile/compile.ts';
import { Bookmarks, bookmarkCounts } from './view-lines.ts';

const COUNTS = { rules: 1, addressSets: 2, serviceSets: 0 };

describe('Bookmarks', () => {
  it('are one line for all receivers with the same counts', () => {
    const bookmarks = new Bookmarks('e.1.a');
    const first = bookmarks.line(COUNTS);
    assert.equal(first.revision, 'e.1.a');
    assert.equal(first.body.toString(), '"type":"bookmark","rules":1,"addressSets":2,"serviceSets":0}\n');
    assert.equal(bookmarks.line({ ...COUNTS }), first);
    assert.notEqual(bookmarks.line({ ...COUNTS, rules: 2 }), first);
  });
});

describe('the counts of a bookmark', () => {
  const egress = new Map([['a', fakeNodeEgress({ owned: [], slots: new Map([['192.0.2.1', 1]]) as never })]]);
  const compiled = { ...compile(NO_OBJECTS), egress };

  it('have those of egress gateways for a receiver that knows them, and has some', () => {
    const of = (node: string, hasEgress: boolean) => bookmarkCounts(COUNTS, { node, hasEgress }, compiled);
    assert.deepEqual(of('a', true), { ...COUNTS, egress: 1 });
    assert.deepEqual(of('a', false), COUNTS);
    assert.deepEqual(of('b', true), COUNTS);
    assert.deepEqual(bookmarkCounts(COUNTS, { node: 'a', hasEgress: true }, undefined), COUNTS);
  });
});
