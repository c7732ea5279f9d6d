import assert from 'node:assert/strict';
import { managerChanges } from './managed-fields.ts';

const CREATED = '2026-11-27T02:00:00Z';

describe('changesOf', () => {
  it('has the last change of each program, newest first, without statuses', () => {
    const changes = managerChanges({
      name: 'web',
      creationTimestamp: CREATED,
      managedFields: [
        {
          manager: 'kubectl',
          operation: 'Apply',
          time: CREATED,
          fieldsV1: { 'f:spec': { 'f:priority': {}, 'f:appliedTo': {} } },
        },
        {
          manager: 'nodewall-controller',
          operation: 'Apply',
          time: '2026-11-27T02:05:00Z',
          subresource: 'status',
          fieldsV1: { 'f:status': {} },
        },
        {
          manager: 'kubectl-edit',
          operation: 'Update',
          time: '2026-11-27T02:04:00Z',
          fieldsV1: {
            'f:metadata': { 'f:annotations': { '.': {}, 'f:nodewall.io/rollout': {} } },
            'f:spec': { 'f:ingress': {} },
          },
        },
      ],
    });
    assert.deepEqual(changes, [
      {
        time: '2026-11-27T02:04:00Z',
        manager: 'kubectl-edit',
        operation: 'Update',
        fields: ['metadata.annotations:nodewall.io/rollout', 'spec.ingress'],
        isNew: false,
      },
      {
        time: CREATED,
        manager: 'kubectl',
        operation: 'Apply',
        fields: ['spec.appliedTo', 'spec.priority'],
        isNew: true,
      },
    ]);
  });

  it('says that an object is being deleted', () => {
    const [change] = managerChanges({ name: 'web', deletionTimestamp: CREATED });
    assert.deepEqual(change, { time: CREATED, manager: '', operation: 'Delete', fields: [], isNew: false });
  });

  it('takes objects without, and fields that are none', () => {
    assert.deepEqual(managerChanges({ name: 'web' }), []);
    const [change] = managerChanges({
      name: 'web',
      managedFields: [{ time: CREATED, fieldsV1: { 'k:{"a":1}': {}, 'f:data': 'x' } }],
    });
    assert.deepEqual(change?.fields, ['data']);
  });
});
