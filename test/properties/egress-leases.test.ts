import assert from 'node:assert/strict';
import { leaseCampaigns } from './leases/campaign.ts';
import { SimCluster } from './leases/sim-cluster.ts';
import { cases } from './runs.ts';

const SEEDS = cases(40);

describe('leases of floating addresses', () => {
  it('never let two nodes have one address, whatever fails, and every address is back afterwards', () => {
    const { moves } = leaseCampaigns(1, SEEDS);
    assert.ok(moves > SEEDS, `only ${moves} moves`);
  }).timeout(0);

  it('move within 3 s when a node loses its power, counted from then', () => {
    for (let seed = 1; seed <= 10; seed++) {
      const { cluster, owner, address } = withOwner(seed);
      cluster.world.pass(50 * seed);
      cluster.agents.get(owner)?.reboot(60_000);
      const milliseconds = untilMoved(cluster, owner, address);
      assert.ok(milliseconds >= 2_000 && milliseconds <= 2_700, `${milliseconds} ms`);
      assert.equal(cluster.moves[0]?.reason, 'AgentSilent');
    }
  });

  for (const unready of ['Cordoned', 'Draining'] as const)
    it(`move within 0.1 s from a node that is ${unready}, and not back`, () => {
      for (let seed = 1; seed <= 10; seed++) {
        const { cluster, owner, address } = withOwner(seed);
        cluster.setNode(owner, { unready });
        const milliseconds = untilMoved(cluster, owner, address);
        assert.ok(milliseconds <= 100, `${milliseconds} ms`);
        assert.equal(cluster.moves[0]?.reason, unready);
        const [next] = cluster.aliveOn(address);
        cluster.setNode(owner, { unready: undefined });
        cluster.world.pass(20_000);
        assert.deepEqual(cluster.aliveOn(address), [next]);
      }
    });

  it('move from a node whose label was removed', () => {
    const { cluster, owner, address } = withOwner(3);
    cluster.setNode(owner, { labels: {} });
    assert.ok(untilMoved(cluster, owner, address) <= 100);
    assert.equal(cluster.moves[0]?.reason, 'NotSelected');
  });

  it('move from a node that several others do not reach, not from one that only its neighbour does not', () => {
    const { cluster, owner, address } = withOwner(4);
    const [one, other] = [...cluster.agents.values()].filter(({ node }) => node !== owner);
    assert.ok(one !== undefined && other !== undefined);
    one.unreachable = [owner];
    cluster.world.pass(5_000);
    assert.deepEqual(cluster.aliveOn(address), [owner]);
    // Nor if a new leader hears that one first.
    cluster.replaceLeader(true);
    other.pause(1_500);
    cluster.world.pass(5_000);
    assert.equal(cluster.moves.length, 0);
    // It reaches nobody: its own network failed.
    other.unreachable = [...cluster.agents.keys()].filter((node) => node !== other.node);
    cluster.world.pass(5_000);
    assert.deepEqual(cluster.aliveOn(address), [owner]);
    other.unreachable = [owner];
    assert.ok(untilMoved(cluster, owner, address) <= 1_000);
    assert.equal(cluster.moves[0]?.reason, 'Unreachable');
  });

  it('stay with a node that sees another host with its address, which the status says', () => {
    const { cluster, owner, address } = withOwner(7);
    const agent = cluster.agents.get(owner);
    assert.ok(agent);
    agent.unready = 'AddressConflict';
    cluster.world.pass(5_000);
    assert.deepEqual(cluster.aliveOn(address), [owner]);
    const said = cluster.gateways[0]?.status?.nodes.find(({ name }) => name === owner);
    assert.deepEqual(said, { name: owner, ready: true, reason: 'AddressConflict' });
    agent.unready = 'ProbesFailed';
    assert.ok(untilMoved(cluster, owner, address) <= 1_000);
    assert.equal(cluster.moves[0]?.reason, 'ProbesFailed');
  });

  it('stay with an agent that restarts within its longer lease, also if another controller leads', () => {
    const { cluster, owner, address } = withOwner(5);
    cluster.agents.get(owner)?.restart(20_000);
    cluster.world.pass(2_000);
    const isExtended = cluster.gateways[0]?.status?.slots.some(({ leaseSeconds }) => leaseSeconds === 30);
    assert.ok(isExtended);
    cluster.replaceLeader(true);
    for (let time = 0; time < 18_000; time += 100) {
      cluster.world.pass(100);
      assert.deepEqual(cluster.aliveOn(address), [owner]);
    }
    cluster.world.pass(60_000);
    assert.deepEqual(cluster.aliveOn(address), [owner]);
    assert.equal(cluster.moves.length, 0);
    const slots = cluster.gateways.flatMap(({ status }) => status?.slots ?? []);
    assert.ok(slots.every(({ leaseSeconds }) => leaseSeconds === undefined));
  });

  it('stay where they are while another controller takes over', () => {
    const { cluster, owner, address } = withOwner(6);
    cluster.replaceLeader(true);
    for (let time = 0; time < 10_000; time += 100) {
      cluster.world.pass(100);
      assert.deepEqual(cluster.aliveOn(address), [owner]);
    }
    assert.equal(cluster.moves.length, 0);
  });
});

/** A cluster in which one address is alive. */
function withOwner(seed: number) {
  const cluster = new SimCluster({ seed, agents: 3, rateError: 0.0001 });
  cluster.setPolicy('shared', {});
  cluster.world.pass(10_000);
  const slots = cluster.gateways[0]?.status?.slots ?? [];
  const { node: owner, addresses } = slots.find((slot) => slot.addresses.length > 0) ?? assert.fail();
  const [address = ''] = addresses;
  assert.deepEqual(cluster.aliveOn(address), [owner]);
  return { cluster, owner, address };
}

/** Milliseconds until the address is alive on another node. */
function untilMoved({ world, aliveOn }: SimCluster, from: string, address: string): number {
  const begun = world.now;
  while (!aliveOn(address).some((node) => node !== from)) {
    world.pass(1);
    assert.ok(world.now < begun + 60_000, `${address} does not leave ${from}`);
  }
  return world.now - begun;
}
