import assert from 'node:assert/strict';
import { type NodeReport, SILENCE } from '../../../apis/node-report.ts';
import { fakeClock } from '../../../test/fake/fake-clock.ts';
import { AgentReports, agentLack, networkLack } from './address-owners.ts';

const report = (node: string): NodeReport => ({ node }) as NodeReport;

describe('AgentReports', () => {
  it('has a silent agent’s last report, and forgets those of deleted nodes', () => {
    const clock = fakeClock();
    const reports = new AgentReports(clock);
    assert.equal(reports.receive(report('a')), true);
    reports.receive(report('gone'));
    clock.pass(SILENCE + 1);
    const first = report('new');
    reports.receive(first);
    assert.equal(reports.fresh('a'), undefined);
    assert.deepEqual(reports.last('a'), report('a'));
    reports.keep(new Set(['a']));
    assert.equal(reports.last('gone'), undefined);
    assert.equal(reports.last('new'), first, 'a node that is not listed yet stays');
    assert.equal(reports.receive(report('new')), false);
    assert.equal(reports.receive({ ...first, egress: {} }), true);
  });
});

const REPORT: NodeReport = {
  node: 'n1',
  revision: null,
  enforced: null,
  enabled: true,
  failing: [],
  policies: 0,
  hostAddresses: [],
  version: '1',
  features: ['egress'],
  egress: {},
  dataplane: 'nftables',
  time: '2026-01-01T00:00:00Z',
};

describe('what an agent lacks for egress gateways', () => {
  for (const [what, more, lack] of [
    ['nothing', {}, null],
    ['a version without them', { features: ['established'] }, 'AgentWithoutEgress'],
    [
      'its machine refuses them',
      { features: [], egress: { refused: 'dataplane iptables' } },
      'AgentWithoutEgress: dataplane iptables',
    ],
    ['nodewall off', { off: '' }, 'AgentOff'],
    ['the gate NodeNetworkPolicy', { enabled: false, features: [] }, 'AgentOff'],
    ['a view that it cannot apply', { viewError: 'egress: x' }, 'AgentNotFollowing: egress: x'],
  ] as const) {
    it(`${what}: ${lack}`, () => {
      assert.equal(agentLack({ ...REPORT, ...more }), lack);
    });
  }

  it('says the first thing that the network configuration lacks, and how many more', () => {
    const lackOf = (problems: readonly string[]) => networkLack({ ...REPORT, egress: { problems } });
    assert.equal(lackOf([]), null);
    assert.equal(lackOf(['ip rule']), 'NetworkIncomplete: ip rule');
    assert.equal(lackOf(['ip rule', 'a', 'b']), 'NetworkIncomplete: ip rule (and 2 more)');
  });
});
