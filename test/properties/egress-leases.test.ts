import assert from 'node:assert/strict';
import type { SimAgent } from './leases/sim-agent.ts';
import { BAD, GOOD, type NodeChange, SimCluster, SLOW } from './leases/sim-cluster.ts';
import { cases } from './runs.ts';

/** Milliseconds of the world. */
const STEP = 500;
const HEALTHY = 60_000;

const FAULTY = 60_000;

/** An error names the seed of the first campaign that fails. */
function leaseCampaigns(count: number): { readonly moves: number } {
  let moves = 0;
  for (let seed = 1; seed <= count; seed++) {
    try {
      moves += leaseCampaign(seed, FAULTY).moves;
    } catch (cause) {
      throw new Error(`seed ${seed}: ${(cause as Error).message}`, { cause });
    }
  }
  return { moves };
}

/**
 * Faults of all kinds for a while; then all is well, and every address must be where its slot is.
 */
function leaseCampaign(seed: number, faulty: number): { readonly moves: number } {
  const cluster = new SimCluster({ seed, agents: 3 + (seed % 3), rateError: 0.008 });
  const { world } = cluster;
  cluster.setPolicy('shared', {});
  cluster.setPolicy('dedicated', { allocation: 'Dedicated', count: 2 });
  cluster.setPolicy('other', { allocation: 'Dedicated' }, 'g2');
  world.pass(5_000);
  // With many faults at a time no address is alive, and little can go wrong.
  const often = world.between(0.05, 0.25);
  for (let time = 0; time < faulty; time += STEP) {
    if (time % 10_000 === 0) cluster.network = world.pick([GOOD, BAD, SLOW]);
    if (world.chance(often)) world.pick(FAULTS)(cluster);
    world.pass(STEP);
  }
  heal(cluster);
  world.pass(HEALTHY);
  checkAllAlive(cluster);
  return { moves: cluster.moves.length };
}

const FAULTS: readonly ((cluster: SimCluster) => void)[] = [
  (cluster) => anyAgent(cluster).pause(cluster.world.between(0, 8_000)),
  (cluster) => anyAgent(cluster).kill(cluster.world.between(0, 5_000)),
  (cluster) => anyAgent(cluster).restart(cluster.world.between(0, 45_000)),
  (cluster) => anyAgent(cluster).reboot(cluster.world.between(1_000, 10_000)),
  (cluster) => {
    const { world, cutOff } = cluster;
    const { node } = anyAgent(cluster);
    cutOff.add(node);
    world.after(world.between(0, 10_000), () => cutOff.delete(node));
  },
  ({ world, controllers }) => world.pick(controllers).process.pause(world.between(0, 20_000)),
  ({ world, controllers }) => {
    world.pick(controllers).dateOffset += world.between(-3_600_000, 3_600_000);
  },
  (cluster) => cluster.replaceLeader(cluster.world.chance(0.7)),
  (cluster) => {
    cluster.isElectionStuck = true;
    cluster.world.after(cluster.world.between(0, 15_000), () => {
      cluster.isElectionStuck = false;
    });
  },
  (cluster) => setAnyNode(cluster, { unready: cluster.world.pick(['Cordoned', 'Draining', 'NotReady']) }),
  (cluster) => setAnyNode(cluster, { unready: undefined }),
  (cluster) => setAnyNode(cluster, { labels: {} }),
  (cluster) => setAnyNode(cluster, { labels: { egress: 'yes' } }),
  (cluster) => {
    const agent = anyAgent(cluster);
    agent.unready = cluster.world.pick([null, 'ProbesFailed', 'AddressConflict']);
  },
  (cluster) => {
    const [one, other] = [...cluster.agents.values()];
    const about = cluster.world.pick([...cluster.agents.keys()]);
    for (const agent of [one, other]) {
      if (agent !== undefined) agent.unreachable = agent.unreachable.length > 0 ? [] : [about];
    }
  },
  (cluster) => {
    const { world } = cluster;
    const address = world.pick([
      null,
      { allocation: 'Dedicated' as const },
      { allocation: 'Fixed' as const, fixed: { ipv4: `198.51.100.${world.pick([2, 3, 4, 5])}` } },
    ]);
    cluster.setPolicy('changing', address, world.pick(['g1', 'g2']));
  },
  (cluster) => {
    const { world } = cluster;
    const first = world.pick([1, 2, 3, 4, 5]);
    cluster.setGateway('g1', { ranges: [`198.51.100.1-198.51.100.${first}`] });
    cluster.setGateway('g2', { ranges: [`198.51.100.${first + 1}-198.51.100.6`] });
  },
  (cluster) => {
    const leaseSeconds = cluster.world.pick([1, 2, 5]);
    cluster.setGateway(cluster.world.pick(['g1', 'g2']), {
      failover: { heartbeatMilliseconds: 500, leaseSeconds, failback: cluster.world.chance(0.5) },
    });
  },
];

/** Mostly one that has an address. */
function anyAgent({ world, agents, gateways }: SimCluster): SimAgent {
  const slots = gateways.flatMap(({ status }) => status?.slots ?? []);
  const owners = slots.flatMap(({ node, addresses }) => (addresses.length > 0 ? [agents.get(node)] : []));
  const known = owners.filter((agent) => agent !== undefined);
  return world.pick(known.length > 0 && world.chance(0.8) ? known : [...agents.values()]);
}

function setAnyNode(cluster: SimCluster, change: NodeChange): void {
  cluster.setNode(cluster.world.pick([...cluster.agents.keys()]), change);
}

function heal(cluster: SimCluster): void {
  cluster.network = GOOD;
  cluster.isElectionStuck = false;
  cluster.cutOff.clear();
  for (const [name, agent] of cluster.agents) {
    agent.unready = null;
    agent.unreachable = [];
    cluster.setNode(name, { labels: { egress: 'yes' }, unready: undefined });
  }
}

/** Every address of a slot is alive on the slot's owner, which is ready. */
function checkAllAlive({ gateways, aliveOn, world }: SimCluster): void {
  for (const { name, status } of gateways) {
    const ready = new Set(status?.nodes.flatMap((node) => (node.ready ? [node.name] : [])));
    assert.ok(ready.size > 0, `no node of ${name} is ready after ${world.now} ms`);
    for (const { node, addresses, leaseSeconds } of status?.slots ?? []) {
      assert.equal(leaseSeconds, undefined);
      for (const address of addresses) {
        assert.ok(ready.has(node), `${address} is on ${node}, which is not ready`);
        assert.deepEqual(aliveOn(address), [node], `${address} after ${world.now} ms`);
      }
    }
  }
}

/** Campaigns, each of a seed of its own: egress-leases.long.ts has more. */
const SEEDS = Number(process.env.NODEWALL_CAMPAIGNS ?? cases(40));

describe('leases of floating addresses', () => {
  it('never let two nodes have one address, whatever fails, and every address is back afterwards', () => {
    const { moves } = leaseCampaigns(SEEDS);
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
