import assert from 'node:assert/strict';
import { documenting } from './documents.ts';
import { NODEWALL_API } from './resources.ts';

const [, , policies] = NODEWALL_API;
assert.ok(policies !== undefined);
const narrow = documenting(policies, {});

const object = (priority: unknown, more: object = {}, uid = 'u') => ({
  key: 'one',
  version: 7,
  raw: {
    apiVersion: policies.apiVersion,
    kind: policies.kind,
    metadata: { name: 'one', uid },
    spec: {
      priority,
      appliedTo: [{ nodeSelector: {} }],
      egress: [{ action: 'Allow', toServices: [{ name: 's', namespace: 'd' }] }],
    },
    ...more,
  },
});

describe('documenting', () => {
  const first = narrow(object(5), null);

  it('gives the same content as a file with only that object', () => {
    assert.equal(first?.content.file, 'clusternetworkpolicies.nodewall.io/one');
    assert.deepEqual([first?.uid, first?.services], ['u', ['d/s']]);
    assert.equal(first?.content.policies.objects[0]?.spec.priority, 5);
    assert.equal(first?.content.rejected.size, 0);
  });

  it('returns the same document for an equal object', () => {
    assert.equal(narrow(object(5, { status: { phase: 'Realized' } }), first), first);
    const invalid = narrow(object('high'), first);
    assert.notEqual(invalid, first);
    assert.equal(invalid?.content.rejected.size, 1);
    assert.equal(narrow(object('high'), invalid), invalid);
  });

  it('returns another document for a changed or recreated object', () => {
    const edited = narrow(object(6), first);
    assert.equal(edited?.content.policies.objects[0]?.spec.priority, 6);
    const other = narrow(object(5, {}, 'other'), first);
    assert.equal(other?.uid, 'other');
  });
});
