import assert from 'node:assert/strict';
import { formatMembers } from '../../apis/memberset.ts';
import type { NetworkPolicyPeer, Node } from '../../apis/objects.ts';
import { objectIndex } from '../index/objectindex.ts';
import { addressSets } from './addressset.ts';

function setsOf(nodes: readonly Node[]) {
  return addressSets(objectIndex({ nodes, namespaces: [], pods: [] }));
}

const node = (name: string, ...addresses: string[]): Node => ({
  kind: 'Node',
  name,
  labels: { name },
  addresses,
});
const one: NetworkPolicyPeer = { nodeSelector: { matchLabels: { name: 'one' } } };
const block = (cidr: string, ...except: string[]): NetworkPolicyPeer => ({ ipBlock: { cidr, except } });

describe('addressset', () => {
  it('is one for peers that say the same', () => {
    const sets = setsOf([node('one', '10.0.0.1')]);
    const id = sets.add([one, block('10.1.0.0/16')]);
    assert.equal(sets.add([block('10.1.0.0/17'), one, block('10.1.128.0/17'), one]), id);
    assert.equal(sets.add([one, block('10.1.0.5/16')]), id, 'host bits are masked');
    assert.notEqual(sets.add([one, block('10.1.0.0/16', '10.1.2.0/24')]), id);
    assert.notEqual(sets.add([one]), id);
    assert.equal(sets.byId.size, 3);
  });

  it('keeps its id when its members change', () => {
    const before = setsOf([node('one', '10.0.0.1')]);
    const after = setsOf([node('one', '10.0.0.2', '2001:db8::2')]);
    const id = before.add([one]);
    assert.equal(after.add([one]), id);
    const members = [before, after].map(({ byId }) => {
      const set = byId.get(id);
      return set === undefined ? [] : formatMembers(set.members);
    });
    assert.deepEqual(members, [['10.0.0.1'], ['10.0.0.2', '2001:db8::2']]);
  });

  it('has another id for a selector than for the addresses it selects', () => {
    const sets = setsOf([node('one', '10.0.0.1')]);
    assert.notEqual(sets.add([one]), sets.add([block('10.0.0.1/32')]));
  });

  it('can change without a policy edit only where a selector is in it', () => {
    const sets = setsOf([]);
    const dynamic = (peers: NetworkPolicyPeer[]) => sets.byId.get(sets.add(peers))?.dynamic;
    assert.equal(dynamic([one, block('10.0.0.0/8')]), true);
    assert.equal(dynamic([block('10.0.0.0/8')]), false);
  });

  it('says in words what the peers are, sorted', () => {
    const sets = setsOf([]);
    const peers: NetworkPolicyPeer[] = [
      block('10.0.0.0/8'),
      { podSelector: {}, namespaceSelector: { matchLabels: { team: 'red' } } },
      { serviceAccount: { name: 'bot', namespace: 'shop' } },
      { podSelector: { matchLabels: { app: 'web' } } },
      one,
    ];
    assert.equal(
      sets.byId.get(sets.add(peers))?.description,
      'nodes name=one; pods app=web; pods {} in namespaces team=red; serviceAccount shop/bot; 10.0.0.0/8',
    );
  });
});
