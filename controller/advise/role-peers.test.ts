import assert from 'node:assert/strict';
import type { Node } from '../../apis/objects.ts';
import { NodeClass } from './node-class.ts';
import type { Owner, PodShape } from './peer-owner.ts';
import { draftPeers } from './role-peers.ts';
import type { Role } from './roles.ts';

const HOSTNAME = 'kubernetes.io/hostname';
const NAMESPACE = 'kubernetes.io/metadata.name';

function node(name: string, labels: Readonly<Record<string, string>> = { [HOSTNAME]: name }): Node {
  return { kind: 'Node', name, labels, addresses: [`192.0.2.${name.codePointAt(0)}`] };
}

function role(name: string, nodes: readonly string[], more: Partial<Role> = {}): Role {
  const selector = { matchLabels: { role: name } };
  return { name, nodes, selector, isByName: false, unknownNodes: [], seen: new NodeClass(), ...more };
}

function shape(namespace: string, labels: Readonly<Record<string, string>>, serviceAccount = 'default') {
  const address = `10.244.0.${1 + Object.values(labels).join().length}`;
  const key = `pods ${namespace} ${JSON.stringify(labels)} ${serviceAccount}`;
  return { key, namespace, labels, serviceAccount, addresses: [address] };
}

const nodeOwner = (of: Node): Owner => ({ kind: 'node', key: of.name, text: of.name, node: of });
const podOwner = (of: PodShape): Owner => ({ kind: 'pods', key: of.key, text: of.key, shape: of });

function peers(owners: readonly Owner[], roles: readonly Role[] = [], pods: readonly PodShape[] = []) {
  const podsByNamespace = Map.groupBy(pods, ({ namespace }) => namespace);
  return [...draftPeers(owners, { roles, podsByNamespace, scanners: new Set(), scanning: [] }).values()];
}

const ofNodes = (names: string, ...roles: readonly Role[]) =>
  peers(
    [...names].map((name) => nodeOwner(node(name))),
    roles,
  );
const byRole = (name: string) => ({ nodeSelector: { matchLabels: { role: name } } });
const byName = (...values: string[]) => ({
  nodeSelector: { matchExpressions: [{ key: HOSTNAME, operator: 'In', values }] },
});

describe('nodes as peers', () => {
  it('are the rest of their role where half of it was seen, or more than three; else their names', () => {
    const control = role('control', ['z']);
    const worker = role('worker', [...'abcdefghij']);
    assert.deepEqual(ofNodes('abcd', worker, control), [byRole('worker')]);
    assert.deepEqual(ofNodes('abc', worker, control), [byName('a', 'b', 'c')]);
    assert.deepEqual(ofNodes('ab', role('few', [...'abcd']), control), [byRole('few')]);
    assert.deepEqual(ofNodes('ab', role('few', [...'abcde']), control), [byName('a', 'b')]);
    // One node is half of two by chance.
    assert.deepEqual(ofNodes('a', role('two', ['a', 'b']), control), [
      { nodeSelector: { matchLabels: { [HOSTNAME]: 'a' } } },
    ]);
    assert.deepEqual(ofNodes('z', worker, control), [byRole('control')]);
    assert.deepEqual(ofNodes('abcdz', worker, control), [{ nodeSelector: {} }]);
  });

  it('are names where the role is, and addresses where a Node has no name', () => {
    assert.deepEqual(ofNodes('ab', role('named', ['a', 'b'], { isByName: true })), [byName('a', 'b')]);
    assert.deepEqual(peers([nodeOwner(node('a', {}))]), [{ ipBlock: { cidr: '192.0.2.97/32' } }]);
  });

  it('are no names of nodes that the role’s selector selects too', () => {
    const worker = role('worker', ['a', 'b'], { unknownNodes: ['c'] });
    assert.deepEqual(ofNodes('abc', worker, role('control', ['z'])), [byRole('worker')]);
  });
});

describe('pods as peers', () => {
  const app = (name: string, namespace = 'shop') => shape(namespace, { app: name });
  const selected = (name: string, namespace = 'shop') => ({
    podSelector: { matchLabels: { app: name } },
    namespaceSelector: { matchLabels: { [NAMESPACE]: namespace } },
  });
  const ofPods = (seen: readonly PodShape[], ...others: readonly PodShape[]) =>
    peers(seen.map(podOwner), [], [...seen, ...others]);

  it('are their labels, else their service account, else their addresses', () => {
    assert.deepEqual(ofPods([app('web')], app('db')), [selected('web')]);
    const bare = shape('shop', {}, 'scraper');
    assert.deepEqual(ofPods([bare], app('db')), [{ serviceAccount: { name: 'scraper', namespace: 'shop' } }]);
    assert.deepEqual(ofPods([shape('shop', {})], app('db')), [{ ipBlock: { cidr: '10.244.0.1/32' } }]);
  });

  it('are a namespace of which all workloads were seen, and all namespaces if it is so of each', () => {
    const both = [app('web'), app('db')];
    const namespaceSelector = { matchLabels: { [NAMESPACE]: 'shop' } };
    assert.deepEqual(ofPods(both, app('x', 'other')), [{ namespaceSelector }]);
    const four = [...both, app('x', 'other'), app('y', 'other')];
    assert.deepEqual(ofPods(four), [{ namespaceSelector: {} }]);
    const two = { matchExpressions: [{ key: NAMESPACE, operator: 'In', values: ['other', 'shop'] }] };
    assert.deepEqual(ofPods(four, app('z', 'third')), [{ namespaceSelector: two }]);
    assert.deepEqual(ofPods([app('web')], app('x', 'other')), [selected('web')]);
  });

  it('are namespaces of which half were seen where there are more than six', () => {
    const names = ['a', 'b', 'c', 'd', 'e', 'f', 'g'];
    const others = names.map((name) => app(`other-${name}`));
    const six = names.slice(0, 6).map((name) => app(name));
    assert.equal(ofPods(six, ...others.slice(1)).length, 6);
    const seven = names.map((name) => app(name));
    assert.deepEqual(ofPods(seven, ...others), [
      { namespaceSelector: { matchLabels: { [NAMESPACE]: 'shop' } } },
    ]);
    assert.equal(ofPods(seven, ...others, app('more')).length, 7);
  });
});
