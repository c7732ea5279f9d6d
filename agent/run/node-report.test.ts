import assert from 'node:assert/strict';
import type { NodeEgress } from '../../apis/egress/node-egress.ts';
import { keyText } from '../../test/fake/fake-routes.ts';
import { closing, nodeState } from '../../test/fake/node-state.ts';
import { policy } from '../../test/kernel/manifests.ts';
import { type AgentState, initialState } from './agent-state.ts';
import { nodeReport } from './node-report.ts';

const START = initialState({ isAllowed: true, last: null, rememberedGate: null, off: null });
const TOTALS = { drifts: 1, rollbacks: 0, recordsLost: 0, denied: 0, failsafeRules: 0 };
const AROUND = {
  node: 'node-0',
  hostAddresses: ['192.0.2.1'],
  version: '1',
  dataplane: 'nftables',
  totals: TOTALS,
  now: new Date(0),
} as const;
const state = nodeState(closing('now', 23));
const folded = { state, enabled: true, endpoints: [], revision: 'e.2' };
const failing = [{ apiGroup: 'nodewall.io', policy: 'p', generation: 1, rule: null, reason: 'r' }] as const;

describe('the report of a node', () => {
  const report = (more: Partial<AgentState>) => nodeReport({ ...START, ...more }, AROUND);

  it('says at the start that nothing is known yet', () => {
    assert.deepEqual(report({}), {
      node: 'node-0',
      revision: null,
      enforced: null,
      enabled: false,
      failing: [],
      policies: 0,
      hostAddresses: ['192.0.2.1'],
      version: '1',
      features: ['established'],
      totals: TOTALS,
      dataplane: 'nftables',
      time: '1970-01-01T00:00:00.000Z',
    });
  });

  for (const [what, more, said] of [
    ['what was heard', { folded }, { revision: 'e.2', enforced: null }],
    [
      'what is in force',
      { inForce: { wanted: state, received: state, revision: 'e.1' } },
      { enforced: 'e.1' },
    ],
    ['how much is, and what fails', { enabled: true, policies: 2, failing }, { policies: 2, failing }],
    ['`nodewall off`', { off: { reason: 'locked out', since: '', by: '' } }, { off: 'locked out' }],
    ['`nodewall off` without a reason', { off: { reason: '', since: '', by: '' } }, { off: '' }],
    ['why the view is not followed', { viewError: 'x'.repeat(600) }, { viewError: 'x'.repeat(500) }],
  ] as const) {
    it(`says ${what}`, () => assert.deepEqual(report(more), { ...report(more), ...said }));
  }

  it('says what the failsafe list has to carry pods, and nothing while nothing is enforced', () => {
    const [ports, reason] = [[8472, 8472], 'r'.repeat(600)] as const;
    const platform = [
      { protocol: 'udp', ports, peers: 'nodes', reason },
      { protocol: 47, ports: [0, 65535], peers: ['192.0.2.7'], reason: 'gre' },
    ] as const;
    assert.deepEqual(nodeReport(START, { ...AROUND, platform }).platform, [
      { entry: 'udp/8472', reason: 'r'.repeat(500) },
      { entry: 'gre', addresses: 1, reason: 'gre' },
    ]);
    assert.equal(nodeReport(START, { ...AROUND, platform: null }).platform, undefined);
  });

  it('says which NodePort policies match nothing, but of those that fail why', () => {
    const drop = (name: string) => ({ name, action: 'Drop' }) as const;
    const nodePort = (name: string) => policy(name, { traffic: 'NodePort', ingress: [drop('a'), drop('b')] });
    const wanted = nodeState(closing('host', 23), nodePort('web'), nodePort('p'));
    const said = nodeReport(
      { ...START, inForce: { wanted, received: wanted, revision: 'e.1' }, failing },
      { ...AROUND, unseenProxy: 'IPVS' },
    );
    const [first, second, ...more] = said.failing;
    assert.deepEqual([first, more], [failing[0], []]);
    const web = { policy: 'web', generation: 0, reason: 'IPVS', notEnforced: true };
    assert.deepEqual(second, { ...failing[0], ...web });
  });

  it('says what the node does for egress gateways, if the gate is on', () => {
    const egress = { refused: null, problems: [] as string[], publicKey: null as string | null };
    const said = (more: Partial<AgentState>, circumstances: typeof egress) => {
      const { features, egress: own } = nodeReport(
        { ...START, ...more },
        { ...AROUND, egress: circumstances },
      );
      return { features, own };
    };
    const features = ['established', 'egress'];
    assert.deepEqual(said({}, egress), { features, own: {} });
    const tunnel = { node: 'node-0', address: '192.0.2.1', mac: '0e:00:00:00:00:01' };
    const steering = { ...state, egress: { tunnel } as NodeEgress };
    const inForce = { wanted: steering, received: steering, revision: 'e.1' };
    const problems = Array.from({ length: 7 }, (_, i) => `problem ${i}`);
    assert.deepEqual(said({ inForce }, { ...egress, problems }), {
      features,
      own: { tunnel: '192.0.2.1', problems: problems.slice(0, 5) },
    });
    // Also before it has a tunnel: without the key the others make none to it.
    const publicKey = keyText(2);
    assert.deepEqual(said({}, { ...egress, publicKey }), { features, own: { key: publicKey } });
  });

  it('says why the node steers nothing', () => {
    const egress = { refused: 'the gate is off here', problems: [], publicKey: null };
    const { features, egress: own } = nodeReport(START, { ...AROUND, egress });
    assert.deepEqual([features, own], [['established'], { refused: 'the gate is off here' }]);
  });
});
