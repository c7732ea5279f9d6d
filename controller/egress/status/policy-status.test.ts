import assert from 'node:assert/strict';
import type {
  EgressGatewaySpec,
  EgressGatewayStatus,
  EgressPolicySpec,
} from '../../../apis/egress/objects.ts';
import { fakeGateway, fakeNode, fakePolicy } from '../../../test/fake/egress-objects.ts';
import { allocate } from '../allocation.ts';
import { decideGateway, type Unready } from '../owners/decide-gateway.ts';
import { policyStatus } from './policy-status.ts';

const POOL: Partial<EgressGatewaySpec> = { ranges: ['203.0.113.0/30', '2001:db8::/127'] };
const NODES = ['a', 'b'].map((name, i) => fakeNode(name, [`192.0.2.${i + 1}`]));
const policyOf = (name: string, spec: Partial<EgressPolicySpec> = {}) =>
  fakePolicy(name, { gateway: 'gw', ...spec });
const policy = policyOf('shop/p');
const all: Unready = () => null;

/** The leader's decision for a gateway with one policy. */
function decide(
  spec: Partial<EgressGatewaySpec>,
  { unready = all, user = policy, status = null as EgressGatewayStatus | null } = {},
) {
  return decideGateway(allocate(fakeGateway('gw', spec, status), NODES, [user]), {
    unready,
    holdTimeOf: () => ({ heldUntil: '2026-01-01T00:05:00Z', left: 300_000 }),
    leaseSecondsOf: () => null,
    hasConflict: () => false,
  });
}

describe('the status of an egress policy', () => {
  const of = (spec: Partial<EgressGatewaySpec>, unready = all) => {
    const { allocation, status } = decide(spec, { unready });
    const waiting = new Map([
      ['n1', null],
      ['n2', 'AgentOff'],
    ]);
    return {
      ...policyStatus({ policy, allocation, problems: [], pods: 3, nodes: waiting }),
      gateway: status,
    };
  };

  it('has the addresses of both families, their owners, and what nodes do', () => {
    const { status, said, gateway: own } = of(POOL);
    assert.equal(status.addresses.length, 2);
    const slot = own.slots.find(({ addresses }) => addresses.length > 0);
    assert.deepEqual([status.addresses, status.owners], [slot?.addresses, [slot?.node]]);
    assert.deepEqual([status.currentNodesRealized, status.desiredNodesRealized, status.pods], [1, 2, 3]);
    assert.deepEqual(
      said.map(({ type, status: is, reason, message }) => [type, is, reason, message]),
      [
        ['Accepted', 'True', 'Valid', 'The policy is valid.'],
        ['AddressAllocated', 'True', 'Allocated', `The policy has ${status.addresses.join(', ')}.`],
        ['Realized', 'False', 'Realizing', '1 of 2 nodes enforce the policy; n2: AgentOff.'],
      ],
    );
  });

  it('has the address of the node, with source Node', () => {
    const { status, gateway: own } = of({ source: 'Node' });
    const owner = own.slots[0]?.node ?? '';
    assert.deepEqual(status.addresses, NODES.find(({ name }) => name === owner)?.addresses);
    assert.deepEqual(status.owners, [owner]);
  });

  it('has the addresses of an interface, which only its nodes know', () => {
    const { said } = of({ source: 'Node', interface: 'eth1' });
    const message = "The policy has the addresses of eth1 of its gateway's nodes.";
    assert.deepEqual([said[1]?.status, said[1]?.message], ['True', message]);
  });

  it('says why it has no address', () => {
    assert.equal(of({ source: 'Node' }, () => 'NotReady').said[1]?.reason, 'NoReadyNode');
    const { said } = policyStatus({
      policy,
      allocation: null,
      problems: ['x', 'y'],
      pods: 0,
      nodes: new Map(),
    });
    const facts = { policy, allocation: null, problems: ['x'], isWaiting: true, pods: 0, nodes: new Map() };
    assert.equal(policyStatus(facts).said[0]?.reason, 'Waiting');
    assert.deepEqual(
      said.map(({ reason, message }) => [reason, message]),
      [
        ['Invalid', 'x (and 1 more)'],
        ['NoGateway', 'There is no gateway that it may use.'],
        ['NoNodes', '0 of 0 nodes enforce the policy.'],
      ],
    );
  });

  it('is not realized where a gateway drops its connections', () => {
    const { allocation, status } = decide({ source: 'Node' });
    const { said } = policyStatus({
      policy,
      allocation,
      problems: [],
      pods: 1,
      nodes: new Map([['n1', null]]),
      ownerLack: () => 'NetworkIncomplete: no device',
    });
    const owner = status.slots[0]?.node;
    assert.equal(said[2]?.status, 'False');
    assert.equal(
      said[2]?.message,
      `1 of 1 nodes enforce the policy; gateway ${owner}: NetworkIncomplete: no device.`,
    );
  });

  it('names the address that connections of another policy may still use', () => {
    const address = { allocation: 'Fixed', fixed: { ipv4: '203.0.113.1' }, count: 1 } as const;
    const [first, second] = ['shop/p', 'shop/q'].map((name) => policyOf(name, { address }));
    const { status } = decide(POOL, { user: first ?? assert.fail() });
    const waiting = second ?? assert.fail();
    const { allocation } = decide(POOL, { user: waiting, status });
    const { said } = policyStatus({ policy: waiting, allocation, problems: [], pods: 0, nodes: new Map() });
    assert.deepEqual(
      [said[1]?.reason, said[1]?.message],
      [
        'AddressHeld',
        'Connections of another policy may still use what it released: 203.0.113.1 until 2026-01-01T00:05:00Z.',
      ],
    );
  });
});
