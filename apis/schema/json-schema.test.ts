import assert from 'node:assert/strict';
import { type CrdSchema, overLimit } from './json-schema.ts';

const schema: CrdSchema = {
  type: 'object',
  properties: {
    rules: {
      type: 'array',
      maxItems: 2,
      items: { type: 'object', properties: { peers: { type: 'array', maxItems: 1 } } },
    },
    labels: { type: 'object', maxProperties: 1, additionalProperties: { type: 'array', maxItems: 0 } },
  },
};

describe('overLimit', () => {
  it('finds nothing where lists and maps are as long as they may be', () => {
    assert.equal(overLimit(schema, { rules: [{ peers: [1] }, {}], labels: { a: [] } }), null);
  });

  it('finds the first list or map that is too long, also inside others', () => {
    const found = (value: unknown) => overLimit(schema, value);
    assert.deepEqual(found({ rules: [1, 2, 3] }), { path: ['rules'], count: 3, most: 2 });
    assert.deepEqual(found({ rules: [{}, { peers: [1, 2] }] }), {
      path: ['rules', 1, 'peers'],
      count: 2,
      most: 1,
    });
    assert.deepEqual(found({ labels: { a: [], b: [] } }), { path: ['labels'], count: 2, most: 1 });
    assert.deepEqual(found({ labels: { a: [1] } }), { path: ['labels', 'a'], count: 1, most: 0 });
  });

  it('reads nothing of a list that is too long', () => {
    const items = [1, 2, 3];
    Object.defineProperty(items, '0', { get: () => assert.fail('read') });
    assert.equal(overLimit(schema, { rules: items })?.count, 3);
  });

  it('leaves wrong types and unknown fields to the schema', () => {
    for (const value of [null, 1, 'x', [1, 2], { rules: 'x', labels: [1], other: [1, 2, 3] }]) {
      assert.equal(overLimit(schema, value), null);
    }
  });
});
