import assert from 'node:assert/strict';
import { DEFAULT_EGRESS_CONFIG } from '../../../apis/egress/config.ts';
import type { EgressGateway, EgressGatewaySpec } from '../../../apis/egress/objects.ts';
import { type NodeReport, SILENCE } from '../../../apis/node-report.ts';
import { egressInput, fakeGateway, fakeNode, fakePolicy } from '../../../test/fake/egress-objects.ts';
import { fakeClock } from '../../../test/fake/fake-clock.ts';
import { egressCompiler } from '../compile-egress.ts';
import { LeaseGranter } from '../lease/lease-table.ts';
import { AddressOwners } from './address-owners.ts';
import type { GatewayDecision } from './decide-gateway.ts';

const NODES = ['a', 'b'].map((name, i) => fakeNode(name, [`192.0.2.${i + 1}`]));
const REPORT = { enabled: true, features: ['egress'], enforced: null } as const;

/** The owners of a gateway, by default of source Node, with a wall clock that stands. */
function bed(spec: Partial<EgressGatewaySpec> = { source: 'Node' }) {
  const clock = { ...fakeClock(), date: () => new Date(0) };
  const rounds: string[] = [];
  const moves: string[] = [];
  const compile = egressCompiler(DEFAULT_EGRESS_CONFIG);
  const granter = new LeaseGranter({ clock, isLeader: () => true, answered: () => {} });
  const owners = new AddressOwners({
    clock,
    granter,
    heartbeatClock: clock,
    decided: (decisions) => void rounds.push(decisions.map(toLine).join()),
    moved: (gateway, some) => void moves.push(...some.map(({ reason }) => `${gateway} ${reason}`)),
  });
  const policies = [fakePolicy('p', { gateway: 'g' })];
  return {
    clock,
    owners,
    moves,
    publish(status: EgressGateway['status'] = null): void {
      const egressGateways = [{ ...fakeGateway('g', spec, status), uid: 'g' }];
      owners.publish(compile(egressInput({ nodes: NODES, egressGateways, egressPolicies: policies })));
    },
    report: (node: string, more: Partial<NodeReport> = {}) =>
      owners.report({ ...REPORT, node, ...more } as NodeReport),
    /** The rounds since the last call. */
    pass(milliseconds: number): string[] {
      clock.pass(milliseconds);
      return rounds.splice(0);
    },
  };
}

function toLine({ status }: GatewayDecision): string {
  return status.nodes.map(({ name, reason = 'ready' }) => `${name} ${reason}`).join(', ');
}

const READY = 'a ready, b ready';

describe('AddressOwners', () => {
  it('decides nothing unless it leads, then at once, and once for all events of a turn', () => {
    const { owners, publish, report, pass, clock } = bed();
    publish();
    assert.deepEqual([owners.decide(), pass(1_000)], [[], []]);
    for (const node of ['a', 'b']) report(node);
    owners.lead(true);
    publish();
    assert.deepEqual(pass(0), [READY]);
    owners.lead(false);
    assert.deepEqual([pass(60_000), clock.waiting()], [[], []]);
  });

  it('gathers reports, of which the same counts once', () => {
    const { owners, publish, report, pass } = bed();
    owners.lead(true);
    publish();
    for (const node of ['a', 'b']) assert.equal(report(node), true);
    assert.deepEqual(pass(0), [READY]);
    assert.equal(report('a'), false);
    assert.deepEqual(pass(499), []);
    assert.equal(report('b', { off: '' }), true);
    assert.deepEqual(pass(499), []);
    assert.deepEqual(pass(1), [READY.replace('b ready', 'b AgentOff')]);
  });

  it('finds agents that fall silent, and as a new leader gives them time', () => {
    const { owners, publish, report, pass } = bed();
    owners.lead(true);
    publish();
    assert.deepEqual(pass(SILENCE - 1), [READY]);
    report('a');
    assert.deepEqual(pass(10_000), ['a ready, b AgentSilent']);
    assert.equal(owners.nodesNotReady(), 1);
  });

  it('announces a floating address that moves', () => {
    const address = '198.51.100.1';
    const { owners, publish, report, pass, moves } = bed({ ranges: [address] });
    for (const node of ['a', 'b']) report(node);
    owners.lead(true);
    const slots = [{ name: '0', node: 'a', epoch: 1, addresses: [address] }];
    publish({ nodes: [], slots, addresses: [{ address, policy: '' }] });
    assert.deepEqual([pass(0), moves], [[READY], []]);
    report('a', { off: '' });
    assert.deepEqual(pass(500), [READY.replace('a ready', 'a AgentOff')]);
    const [decision] = owners.decide();
    assert.deepEqual(decision?.status.slots[0], { name: '0', node: 'b', epoch: 2, addresses: [address] });
    assert.deepEqual(moves, ['g AgentOff']);
  });
});
