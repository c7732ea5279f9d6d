import assert from 'node:assert/strict';
import type { LabelSelector, Namespace, Node, Pod } from '../../apis/objects.ts';
import { ObjectIndex } from './object-index.ts';
import { canonicalRequirements } from './selector.ts';

function pod(namespace: string, name: string, labels = {}, serviceAccount = 'default'): Pod {
  return { kind: 'Pod', namespace, name, labels, serviceAccount, addresses: [`10.0.0.${name.length}`] };
}

const web = pod('shop', 'web', { app: 'web' }, 'seller');
const db = pod('shop', 'db', { app: 'db' });
const other = pod('lost', 'web', { app: 'web' }, 'seller');
const shop: Namespace = { kind: 'Namespace', name: 'shop', labels: { team: 'red' } };
const node: Node = { kind: 'Node', name: 'one', labels: { role: 'worker' }, addresses: ['10.0.0.3'] };
const START = { nodes: [node], namespaces: [shop], pods: [web, db, other] };

const selected = (index: ObjectIndex, ofPod: LabelSelector, ofNamespace: LabelSelector = {}) =>
  new Set(index.selectPods(canonicalRequirements(ofPod), canonicalRequirements(ofNamespace)));
const team = (value: string): LabelSelector => ({ matchLabels: { team: value } });
const named = (name: string): LabelSelector => ({ matchLabels: { 'kubernetes.io/metadata.name': name } });
const app = (value: string): LabelSelector => ({ matchLabels: { app: value } });

describe('objectIndex', () => {
  const index = new ObjectIndex(START);

  it('selects pods in all namespaces or in selected ones', () => {
    assert.deepEqual(selected(index, app('web')), new Set([web, other]));
    assert.deepEqual(selected(index, {}, team('red')), new Set([web, db]));
    assert.deepEqual(selected(index, app('db'), team('red')), new Set([db]));
  });

  it('selects a namespace by its name even if it is not declared', () => {
    assert.deepEqual(selected(index, {}, named('lost')), new Set([other]));
    assert.deepEqual(selected(index, {}, named('shop')), new Set([web, db]));
    assert.deepEqual(index.namespaceLabels('new'), { 'kubernetes.io/metadata.name': 'new' });
  });

  it('selects the same pods by labels first and by namespaces first', () => {
    // One pod has the label `few`, all have `all`: so each of the two ways is the shorter one once.
    const pods = Array.from({ length: 20 }, (_, i) =>
      pod(`ns-${i % 10}`, `${i}`, { all: 'yes', ...(i === 3 ? { few: '' } : {}) }),
    );
    const namespaces = Array.from({ length: 10 }, (_, i): Namespace => {
      return { kind: 'Namespace', name: `ns-${i}`, labels: { team: i < 5 ? 'red' : 'blue' } };
    });
    const many = new ObjectIndex({ nodes: [], namespaces, pods });
    const has = (key: string): LabelSelector => ({ matchExpressions: [{ key, operator: 'Exists' }] });
    assert.deepEqual(selected(many, has('few'), team('red')), new Set([pods[3]]));
    assert.deepEqual(selected(many, has('few'), team('blue')), new Set());
    const red = pods.filter((_, i) => i % 10 < 5);
    assert.deepEqual(selected(many, has('all'), team('red')), new Set(red));
  });

  it('finds the pods of a service account only in its namespace', () => {
    assert.deepEqual([...index.serviceAccountPods('shop', 'seller')], [web]);
    assert.deepEqual([...index.serviceAccountPods('shop', 'nobody')], []);
  });

  it('finds the pods that a Service selects only in its namespace', () => {
    assert.deepEqual(index.labelledPods('shop', { app: 'web' }), [web]);
    assert.deepEqual(index.labelledPods('shop', { app: 'none' }), []);
  });

  it('finds the object that has an address', () => {
    assert.deepEqual(new Set(index.holders('10.0.0.3')), new Set([node, web, other]));
    assert.deepEqual([...index.holders('10.0.0.9')], []);
  });

  it('returns the pods of relabelled namespaces, and selects by the new labels', () => {
    const following = new ObjectIndex(START);
    const nobodyAsked = following.difference({ ...START, namespaces: [] });
    assert.deepEqual(nobodyAsked.moved, []);
    assert.equal(selected(following, {}, team('red')).size, 2);
    const blue = { ...shop, labels: { team: 'blue' } };
    const lost: Namespace = { kind: 'Namespace', name: 'lost', labels: { team: 'blue' } };
    const steps = [
      { namespaces: [blue], moved: [web, db], blue: [web, db] },
      { namespaces: [{ ...blue }], moved: [], blue: [web, db] },
      { namespaces: [blue, lost], moved: [other], blue: [web, db, other] },
      { namespaces: [lost], moved: [web, db], blue: [other] },
      { namespaces: [], moved: [other], blue: [] },
    ];
    for (const { namespaces, moved, blue: wanted } of steps) {
      const now = { ...START, namespaces };
      const change = following.difference(now);
      assert.deepEqual(new Set(change.moved), new Set(moved));
      following.advance(now, change);
      assert.deepEqual(selected(following, {}, team('blue')), new Set(wanted));
      assert.deepEqual(selected(following, {}, named('lost')), new Set([other]));
    }
  });

  it('follows added and removed pods and nodes, also in undeclared namespaces', () => {
    const following = new ObjectIndex(START);
    const cache = pod('new', 'cache', { app: 'web' }, 'seller');
    const ask = (from: ObjectIndex) => [
      selected(from, app('web')),
      selected(from, {}, named('new')),
      selected(from, {}, named('lost')),
      new Set(from.serviceAccountPods('new', 'seller')),
      new Set(from.holders('10.0.0.3')),
      new Set(from.holders('10.0.0.5')),
      new Set(from.selectNodes(canonicalRequirements({ matchLabels: { role: 'worker' } }))),
    ];
    ask(following);
    for (const now of [
      { nodes: [{ ...node, labels: {} }], namespaces: [shop], pods: [web, cache] },
      { nodes: [], namespaces: [], pods: [cache, other] },
      START,
    ]) {
      following.advance(now, following.difference(now));
      assert.deepEqual(ask(following), ask(new ObjectIndex(now)));
    }
  });
});
