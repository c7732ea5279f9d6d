import assert from 'node:assert/strict';
import { emptyNodeState } from '../../apis/compiled.ts';
import { type Config, DEFAULT_CONFIG } from '../../apis/config.ts';
import { type ClusterObjects, NO_OBJECTS } from '../../apis/objects.ts';
import { egressInput, fakeGateway, fakeNode, fakePod, fakePolicy } from '../../test/fake/egress-objects.ts';
import { egressView } from './standalone-egress.ts';

const ON: Config = { ...DEFAULT_CONFIG, featureGates: { EgressGateway: true } };

function objects(spec: Parameters<typeof fakeGateway>[1]): ClusterObjects {
  return {
    ...NO_OBJECTS,
    ...egressInput({
      nodes: [fakeNode('w', ['10.0.0.9'], { podCIDRs: ['10.244.9.0/24'] })],
      pods: [fakePod('shop/p', ['10.244.9.7'], { node: 'w' })],
      egressGateways: [fakeGateway('g', { default: true, ...spec })],
      egressPolicies: [fakePolicy('shop/p')],
    }),
  };
}

describe('egress gateways of a stand-alone agent', () => {
  function logged(config: Config) {
    const lines: string[] = [];
    const log = {
      error: (message: string, fields: object) => void lines.push(`${message} ${JSON.stringify(fields)}`),
    };
    return { lines, ...egressView('w', config, log as never) };
  }

  it('are nothing with the gate off', () => {
    const { view, lines } = logged(DEFAULT_CONFIG);
    const state = emptyNodeState('w');
    assert.equal(view(state, objects({ ranges: ['198.51.100.1'] })), state);
    assert.deepEqual(lines, []);
  });

  it('refuse source Floating, once: its policies drop', () => {
    const { view, lines } = logged(ON);
    const floating = objects({ source: 'Floating', ranges: ['198.51.100.1'] });
    for (let i = 0; i < 2; i++) {
      const { egress } = view(emptyNodeState('w'), floating);
      const actions = [...(egress?.outcomes.values() ?? [])].map(({ action }) => action);
      assert.ok(actions.length > 0);
      for (const action of actions) assert.deepEqual(action, { kind: 'drop', reason: 'no-gateway' });
    }
    assert.equal(lines.length, 1);
    assert.match(lines[0] ?? '', /source Floating need leases.*Use source: Node.*"objects":"g"/);
  });

  it('leave out this node as a gateway that its probes fail, and take it again', () => {
    const { view, unready } = logged(ON);
    const some = objects({ source: 'Node', ranges: [] });
    const actions = () =>
      [...(view(emptyNodeState('w'), some).egress?.outcomes.values() ?? [])].map(({ action }) => action);
    const before = actions();
    assert.deepEqual(before.map(({ kind }) => kind).sort(), ['drop', 'take'], 'IPv6 has no address');
    unready(new Map([['g', 'ProbesFailed']]));
    assert.ok(actions().some((action) => action.kind === 'drop' && action.reason === 'not-ready'));
    assert.ok(actions().every(({ kind }) => kind === 'drop'));
    unready(new Map());
    assert.deepEqual(actions(), before);
    // Ready for another gateway: nobody hears that it is not for this one.
    const more = { ...some, egressGateways: [...some.egressGateways, fakeGateway('h', { source: 'Node' })] };
    view(emptyNodeState('w'), more);
    unready(new Map([['g', 'ProbesFailed']]));
    assert.deepEqual(actions(), before);
  });
});
