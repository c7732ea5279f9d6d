import assert from 'node:assert/strict';
import type { Node } from '../../apis/objects.ts';
import { formatMembers } from '../../lib/net/member-set.ts';
import { serviceIndex } from '../index/name-index.ts';
import { ObjectIndex } from '../index/object-index.ts';
import { type AddressPeer, canonicalPeers, resolve } from './address-set.ts';

const node = (name: string, ...addresses: string[]): Node => ({
  kind: 'Node',
  name,
  labels: { name },
  addresses,
});
const one: AddressPeer = { nodeSelector: { matchLabels: { name: 'one' } } };
const block = (cidr: string, ...except: string[]): AddressPeer => ({ ipBlock: { cidr, except } });
const idOf = (...peers: AddressPeer[]) => canonicalPeers(peers).id;
const setOf = (peers: AddressPeer[], ...nodes: Node[]) =>
  resolve(canonicalPeers(peers), {
    index: new ObjectIndex({ nodes, namespaces: [], pods: [] }),
    services: serviceIndex({ services: [], endpointSlices: [] }),
  });

describe('canonicalPeers', () => {
  it('gives equal peers the same id', () => {
    const id = idOf(one, block('10.1.0.0/16'));
    assert.equal(idOf(block('10.1.0.0/17'), one, block('10.1.128.0/17'), one), id);
    assert.equal(idOf(one, block('10.1.0.5/16')), id, 'host bits are masked');
    assert.notEqual(idOf(one, block('10.1.0.0/16', '10.1.2.0/24')), id);
    assert.notEqual(idOf(one), id);
  });

  it('keeps its id when its members change', () => {
    const sets = [
      setOf([one], node('one', '10.0.0.1')),
      setOf([one], node('one', '10.0.0.2', '2001:db8::2')),
    ];
    assert.equal(new Set(sets.map((set) => set.id)).size, 1);
    assert.deepEqual(
      sets.map((set) => formatMembers(set.members)),
      [['10.0.0.1'], ['10.0.0.2', '2001:db8::2']],
    );
  });

  it('gives a selector another id than the addresses it selects', () => {
    assert.notEqual(idOf(one), idOf(block('10.0.0.1/32')));
  });

  it('can change without a policy edit only if it has a selector', () => {
    assert.equal(setOf([one, block('10.0.0.0/8')]).dynamic, true);
    assert.equal(setOf([block('10.0.0.0/8')]).dynamic, false);
  });

  it('describes the peers, sorted', () => {
    const peers: AddressPeer[] = [
      block('10.0.0.0/8'),
      { podSelector: {}, namespaceSelector: { matchLabels: { team: 'red' } } },
      { serviceAccount: { name: 'bot', namespace: 'shop' } },
      { podSelector: { matchLabels: { app: 'web' } } },
      one,
    ];
    assert.equal(
      canonicalPeers(peers).description,
      'nodes name=one; pods app=web; pods {} in namespaces team=red; serviceAccount shop/bot; 10.0.0.0/8',
    );
  });
});
