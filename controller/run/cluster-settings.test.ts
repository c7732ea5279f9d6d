import assert from 'node:assert/strict';
import type { NodeReport } from '../../apis/node-report.ts';
import { createLog } from '../../lib/process/log.ts';
import { fakeClock } from '../../test/fake/fake-clock.ts';
import { UnsetGates } from './cluster-settings.ts';

const report = (node: string, more: Partial<NodeReport>): NodeReport => ({
  node,
  revision: null,
  enforced: null,
  enabled: false,
  failing: [],
  policies: 0,
  hostAddresses: [],
  version: '',
  dataplane: 'nftables',
  time: '',
  ...more,
});

describe('gates without a value', () => {
  function begin() {
    const clock = fakeClock();
    const said: string[] = [];
    const reports: NodeReport[] = [];
    const leads = { now: true };
    const announce = (note: string): boolean => {
      if (leads.now) said.push(note);
      return leads.now;
    };
    const gates = new UnsetGates({
      reports: () => reports,
      log: createLog({ logLevel: 'error' }),
      clock,
      announce,
    });
    return { clock, said, reports, gates, leads };
  }

  it('are announced with the number of nodes that go on, again when it changes, until there is a value', () => {
    const { clock, said, reports, gates } = begin();
    gates.set('NodeNetworkPolicy', 'unset');
    clock.pass(10_000);
    assert.deepEqual(said, [], 'a new cluster');
    assert.match(gates.remark() ?? '', /has no value, and no node enforces anything: kubectl apply/);
    reports.push(report('a', { enabled: true }), report('b', { enabled: false }));
    clock.pass(10_000);
    clock.pass(10_000);
    assert.deepEqual(said, [
      'The feature gate NodeNetworkPolicy has no value; 1 node goes on enforcing, new nodes enforce nothing: kubectl apply -f deploy/gate/on.yaml',
    ]);
    reports.push(report('c', { enabled: true }));
    clock.pass(10_000);
    assert.match(said[1] ?? '', /; 2 nodes go on enforcing/);
    assert.equal(gates.nodes('NodeNetworkPolicy'), 2);
    gates.set('NodeNetworkPolicy', true);
    assert.deepEqual([gates.nodes('NodeNetworkPolicy'), gates.remark(), clock.waiting()], [0, null, []]);
  });

  it('are announced by a replica that comes to lead after it has counted', () => {
    const { clock, said, reports, gates, leads } = begin();
    leads.now = false;
    gates.set('NodeNetworkPolicy', 'unset');
    reports.push(report('a', { enabled: true }));
    clock.pass(30_000);
    assert.deepEqual(said, []);
    leads.now = true;
    clock.pass(20_000);
    assert.match(said.join(), /; 1 node goes on enforcing/);
    assert.equal(said.length, 1);
    gates.close();
  });

  it('are silent of EgressGateway where no node steers', () => {
    const { clock, said, reports, gates } = begin();
    gates.set('EgressGateway', 'unset');
    reports.push(report('a', { enabled: true, egress: {} }));
    clock.pass(10_000);
    assert.deepEqual([said, gates.remark()], [[], null]);
    reports.push(report('b', { enabled: true, egress: { tunnel: '10.0.0.2' } }));
    clock.pass(10_000);
    assert.match(said.join(), /EgressGateway has no value; 1 node goes on steering/);
    gates.close();
    assert.deepEqual(clock.waiting(), []);
  });
});
