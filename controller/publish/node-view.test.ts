import assert from 'node:assert/strict';
import { namedBy } from '../../apis/compiled.ts';
import { type ClusterObjects, NO_OBJECTS, type Rule } from '../../apis/objects.ts';
import { compile } from '../compile/compile.ts';
import { nodeView } from './node-view.ts';

const at = (name: string) => [{ nodeSelector: { matchLabels: { name } } }];
const rule = (name: string, appliedTo: Rule['appliedTo'] = []): Rule => ({
  name,
  action: 'Drop',
  appliedTo,
  from: [{ ipBlock: { cidr: `10.${name.length}.0.0/16` } }],
});

const toService = (name: string, node: string): Rule => ({
  name,
  action: 'Drop',
  appliedTo: at(node),
  toServices: [{ namespace: 'shop', name }],
});

function policy(name: string, ingress: Rule[], egress: Rule[]): ClusterObjects['policies'][number] {
  const spec = { priority: 5, ingress, egress };
  return { kind: 'ClusterNetworkPolicy', apiGroup: 'nodewall.io', name, uid: '', generation: 0, spec };
}

const compiled = compile({
  ...NO_OBJECTS,
  nodes: ['one', 'two', 'three', 'four'].map((name, i) => ({
    kind: 'Node',
    name,
    labels: { name },
    addresses: [`192.0.2.${i}`],
  })),
  policies: [
    policy('b', [rule('i', at('one')), rule('ii', at('two'))], [rule('e', at('one'))]),
    policy('c', [], [toService('y', 'three'), toService('x', 'three'), toService('z', 'four')]),
    policy('a', [rule('iii', at('one'))], []),
  ],
});

describe('nodeView', () => {
  it('has the rules that apply to the node, in evaluation order, ingress first', () => {
    const { rules, nodeAddresses } = nodeView(compiled, 'one');
    assert.deepEqual(
      rules.map(({ source }) => source.rule),
      ['iii', 'i', 'e'],
    );
    assert.deepEqual(nodeAddresses, ['192.0.2.0']);
  });

  it('has the AddressSets that its rules and the failsafe list name, and no others', () => {
    const { rules, addressSets, allNodes, controllers } = nodeView(compiled, 'two');
    assert.deepEqual(
      new Set(addressSets.keys()),
      new Set([allNodes, controllers, ...namedBy(rules).addressSets]),
    );
    assert.equal(addressSets.size, 3);
  });

  it('is empty for a node that no policy selects', () => {
    assert.deepEqual(nodeView(compiled, 'five').rules, []);
  });

  it('has the ServiceSets that its rules name, and no others', () => {
    const { rules, serviceSets } = nodeView(compiled, 'three');
    assert.deepEqual([...serviceSets.keys()], namedBy(rules).serviceSets.sort());
    assert.deepEqual(
      new Set([...serviceSets.values()].map(({ description }) => description)),
      new Set(['shop/x', 'shop/y']),
    );
    assert.equal(nodeView(compiled, 'one').serviceSets.size, 0);
  });
});
