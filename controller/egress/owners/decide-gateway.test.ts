import assert from 'node:assert/strict';
import type { EgressGateway, EgressGatewaySpec, EgressPolicy } from '../../../apis/egress/objects.ts';
import type { Node } from '../../../apis/objects.ts';
import { allocate } from '../allocation.ts';
import { decideGateway, type GatewayFacts, type Unready } from './decide-gateway.ts';

const SPEC: EgressGatewaySpec = {
  nodeSelector: { matchLabels: { gateway: 'true' } },
  ranges: [],
  source: 'Node',
  choice: 'Failover',
  announce: 'L2',
  probes: [],
  failover: { heartbeatMilliseconds: 500, leaseSeconds: 2, failback: false },
  allowedNamespaces: {},
  default: false,
};
const POOL: Partial<EgressGatewaySpec> = { ranges: ['203.0.113.0/30', '2001:db8::/127'], source: 'Floating' };

function gateway(spec: Partial<EgressGatewaySpec>, status: EgressGateway['status'] = null): EgressGateway {
  const identity = { kind: 'EgressGateway', apiGroup: 'nodewall.io', name: 'gw', uid: 'u' } as const;
  return { ...identity, generation: 1, spec: { ...SPEC, ...spec }, status };
}

const nodes = ['a', 'b'].map((name, i): Node => {
  const address = `192.0.2.${i + 1}`;
  return { kind: 'Node', name, labels: {}, addresses: [address], internalAddresses: [address] };
});

const policy: EgressPolicy = {
  kind: 'EgressPolicy',
  apiGroup: 'nodewall.io',
  namespace: 'shop',
  name: 'p',
  uid: 'v',
  generation: 1,
  spec: {
    stage: 'Namespace',
    appliedTo: [{ podSelector: {} }],
    gateway: 'gw',
    except: [],
    action: 'Gateway',
    address: { allocation: 'Shared', fixed: {}, count: 1 },
    whenUnavailable: 'Drop',
    priority: 1000,
    mode: 'Enforce',
  },
  status: null,
};

/** Decides again and again, each time from what was decided before. */
function decided(spec: Partial<EgressGatewaySpec>, ...readiness: Unready[]) {
  let status: EgressGateway['status'] = null;
  return readiness.map((unready) => {
    const found = decideGateway(allocate(gateway(spec, status), nodes, [policy]), facts(unready));
    ({ status } = found);
    return found;
  });
}

function facts(unready: Unready): GatewayFacts {
  return { unready, holdTimeOf: HELD, leaseSecondsOf: () => null, hasConflict: () => false };
}

const HELD = () => ({ heldUntil: '2026-01-01T00:05:00Z', left: 300_000 });
const all: Unready = () => null;
const allBut =
  (out: string): Unready =>
  (name) =>
    name === out ? 'NotReady' : null;

describe('the decision for an egress gateway', () => {
  it('keeps the owner of source Node until it is not ready, and then the other one', () => {
    const [first] = decided({}, all);
    const owner = first?.status.slots[0]?.node ?? '';
    const other = owner === 'a' ? 'b' : 'a';
    const states = decided({}, all, all, allBut(owner), all, () => 'NotReady');
    assert.deepEqual(
      states.map(({ status }) => status.slots),
      [
        [{ name: '0', node: owner, epoch: 1, addresses: [] }],
        [{ name: '0', node: owner, epoch: 1, addresses: [] }],
        [{ name: '0', node: other, epoch: 2, addresses: [] }],
        [{ name: '0', node: other, epoch: 2, addresses: [] }],
        [{ name: '0', node: other, epoch: 2, addresses: [] }],
      ],
    );
    assert.ok(states[4]?.status.nodes.every(({ ready }) => !ready));
    assert.deepEqual(
      states[2]?.status.nodes.find(({ name }) => name === owner),
      {
        name: owner,
        ready: false,
        reason: 'NotReady',
      },
    );
  });

  it('has the owner that nodes choose without a status', () => {
    const path = allocate(gateway({}), nodes, [policy]).paths.get(policy)?.[4];
    assert.ok(path?.kind === 'node');
    assert.equal(decided({}, all)[0]?.status.slots[0]?.node, path.nodes[0]?.name);
  });

  it('moves the slots of an owner that is not ready, and never back', () => {
    const [first, second, third] = decided(POOL, all, allBut('a'), all);
    const was = first?.status.slots ?? [];
    assert.deepEqual(first?.status.slots.map(({ node }) => node).sort(), ['a', 'a', 'b', 'b']);
    for (const [i, slot] of (second?.status.slots ?? []).entries()) {
      assert.deepEqual(slot, was[i]?.node === 'b' ? was[i] : { ...was[i], node: 'b', epoch: 2 });
    }
    assert.deepEqual(third?.status.slots, second?.status.slots);
    assert.deepEqual(
      second?.moves.map(({ from, to, reason }) => [from, to, reason]),
      second?.status.slots
        .filter(({ epoch, addresses }) => epoch === 2 && addresses.length > 0)
        .map(() => ['a', 'b', 'NotReady']),
    );
    assert.deepEqual(first?.status.usage, { ipv4: { total: '2', used: 1 }, ipv6: { total: '2', used: 1 } });
    assert.equal(first?.status.slots.length, 4);
  });

  it('moves slots back where failback is on', () => {
    const failover = { ...SPEC.failover, failback: true };
    const [first, second, third] = decided({ ...POOL, failover }, all, allBut('a'), all);
    assert.ok(second?.status.slots.every(({ node }) => node === 'b'));
    assert.deepEqual(
      third?.status.slots.map(({ node }) => node),
      first?.status.slots.map(({ node }) => node),
    );
  });

  it('leaves slots with their owners while no node is ready', () => {
    const [first, second] = decided(POOL, all, () => 'NotReady');
    assert.deepEqual(second?.status.slots, first?.status.slots);
  });

  it('gives the slots of a node that is no candidate any more to others, with the next epoch', () => {
    const [first] = decided(POOL, all);
    const status = first?.status ?? assert.fail();
    const left = decideGateway(allocate(gateway(POOL, status), nodes.slice(1), [policy]), facts(all));
    for (const [i, slot] of left.status.slots.entries()) {
      const was = status.slots[i];
      assert.deepEqual(slot, was?.node === 'b' ? was : { ...was, node: 'b', epoch: 2 });
    }
  });
});

describe('a released floating address', () => {
  const fixed = (name: string): EgressPolicy => {
    const address = { allocation: 'Fixed', fixed: { ipv4: '203.0.113.1' }, count: 1 } as const;
    return { ...policy, name, spec: { ...policy.spec, address } };
  };
  const decideWith = (
    policies: readonly EgressPolicy[],
    status: EgressGateway['status'],
    left = 300_000,
    unready = all,
  ) =>
    decideGateway(allocate(gateway(POOL, status), nodes, policies), {
      ...facts(unready),
      holdTimeOf: () => ({ ...HELD(), left }),
    });

  it('stays with its owner, then leaves its slot, then goes to the policy that waits for it', () => {
    const first = decideWith([fixed('p')], null).status;
    assert.deepEqual(first.addresses, [{ address: '203.0.113.1', policy: 'shop/p' }]);
    const waiting = [fixed('q')];
    const held = decideWith(waiting, first);
    assert.deepEqual(held.status.addresses, [
      { address: '203.0.113.1', policy: 'shop/p', heldUntil: HELD().heldUntil },
    ]);
    assert.deepEqual(held.status.slots, first.slots);
    const cut = decideWith(waiting, held.status, 0).status;
    assert.ok(cut.slots.every(({ addresses }) => addresses.length === 0));
    assert.deepEqual(decideWith(waiting, cut, 1).status.addresses, held.status.addresses);
    const unseen = decideWith(waiting, cut, 0, () => 'AgentSilent').status;
    assert.deepEqual(unseen.addresses, held.status.addresses);
    const free = decideWith(waiting, cut, 0).status;
    assert.deepEqual(free.addresses, []);
    assert.deepEqual(decideWith(waiting, free).status.addresses, [
      { address: '203.0.113.1', policy: 'shop/q' },
    ]);
  });

  it('is given back to its policy at once, also to one that was created again', () => {
    const first = decideWith([fixed('p')], null).status;
    const held = decideWith([], first).status;
    assert.deepEqual(decideWith([fixed('p')], held).status.addresses, first.addresses);
  });
});
