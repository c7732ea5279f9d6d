import assert from 'node:assert/strict';
import type { SimAgent } from './sim-agent.ts';
import { BAD, GOOD, type NodeChange, SimCluster, SLOW } from './sim-cluster.ts';

/** Milliseconds of the world. */
const STEP = 500;
const HEALTHY = 60_000;

const FAULTY = 60_000;

/** So many campaigns with seeds of their own; an error names that of the first that fails. */
export function leaseCampaigns(first: number, count: number): { readonly moves: number } {
  let moves = 0;
  for (let seed = first; seed < first + count; seed++) {
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
