import assert from 'node:assert/strict';
import type { Pod } from '../../apis/objects.ts';
import { objectIndex } from './objectindex.ts';

function pod(namespace: string, name: string, labels = {}, serviceAccount = 'default'): Pod {
  return { kind: 'Pod', namespace, name, labels, serviceAccount, addresses: [] };
}

const web = pod('shop', 'web', { app: 'web' }, 'seller');
const db = pod('shop', 'db', { app: 'db' });
const other = pod('lost', 'web', { app: 'web' }, 'seller');
const index = objectIndex({
  nodes: [],
  namespaces: [{ kind: 'Namespace', name: 'shop', labels: { team: 'red' } }],
  pods: [web, db, other],
});

describe('objectindex', () => {
  it('selects pods of all namespaces, or of those selected', () => {
    assert.deepEqual(index.selectPods({ podSelector: { matchLabels: { app: 'web' } } }), [web, other]);
    assert.deepEqual(index.selectPods({ namespaceSelector: { matchLabels: { team: 'red' } } }), [web, db]);
    const both = { podSelector: { matchLabels: { app: 'db' } }, namespaceSelector: {} };
    assert.deepEqual(index.selectPods(both), [db]);
  });

  it('knows every namespace by its name, also one that nobody declared', () => {
    for (const [name, pods] of [
      ['lost', [other]],
      ['shop', [web, db]],
    ] as const) {
      const matchLabels = { 'kubernetes.io/metadata.name': name };
      assert.deepEqual(index.selectPods({ namespaceSelector: { matchLabels } }), pods);
    }
  });

  it('finds the pods of an account in its namespace alone', () => {
    assert.deepEqual(index.serviceAccountPods('shop', 'seller'), [web]);
    assert.deepEqual(index.serviceAccountPods('shop', 'nobody'), []);
  });

  it('finds the pods that a Service selects in its namespace alone', () => {
    assert.deepEqual(index.labelledPods('shop', { app: 'web' }), [web]);
    assert.deepEqual(index.labelledPods('shop', { app: 'none' }), []);
  });
});
