import assert from 'node:assert/strict';
import { fakePod, fakePolicy } from '../../test/fake/egress-objects.ts';
import { EgressSelection } from './selection.ts';

describe('the policies that select a pod', () => {
  it('follow policies that come and go, for one object of labels', () => {
    const pod = fakePod('shop/web', ['10.0.0.1']);
    const labels = { team: 'a', 'kubernetes.io/metadata.name': 'shop' };
    const ofTeam = fakePolicy('team', {
      appliedTo: [{ namespaceSelector: { matchLabels: { team: 'a' } }, podSelector: {} }],
    });
    const own = fakePolicy('shop/own');
    const selection = new EgressSelection();
    const names = () => selection.policiesOf(pod, labels)?.map(({ name }) => name);
    assert.deepEqual(names(), []);
    selection.add(ofTeam);
    assert.deepEqual(names(), ['team']);
    selection.add(own);
    assert.deepEqual(names(), ['team', 'own']);
    selection.remove(ofTeam);
    assert.deepEqual(names(), ['own']);
    selection.add(ofTeam);
    assert.deepEqual(names(), ['own', 'team']);
  });
});
