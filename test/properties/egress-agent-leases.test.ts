/** The agent's leases in simulated time, with the controller's table and with a stricter one. */
import assert from 'node:assert/strict';
import { LeaseTable } from '../../controller/egress/lease/lease-table.ts';
import { LeaseWorld, type SimulatedLeader, StrictLeader } from '../fake/lease-world.ts';

const LEADERS: Readonly<Record<string, () => SimulatedLeader>> = {
  'hardly a margin': () => new StrictLeader(),
  "the controller's": () => {
    const table = new LeaseTable();
    table.begin(0, [], []);
    return table;
  },
};

describe('leases of an agent', () => {
  for (const [name, newLeader] of Object.entries(LEADERS)) {
    it(`never has an address on two nodes, whatever stops, is cut off, moves or ends (${name})`, () => {
      for (let seed = 1; seed <= 30; seed++) {
        const world = disturbed(seed, newLeader());
        assert.equal(world.mostOwners, 1, `seed ${seed}`);
        for (const one of world.nodes) {
          one.freeze(0);
          one.isCutOff = false;
        }
        world.isCalm = true;
        world.publish();
        world.run(45_000);
        for (const [slot, { owner }] of world.slots)
          assert.deepEqual(world.owners(slot), [owner], `seed ${seed}, slot ${slot}`);
      }
    });
  }
});

/** A minute with three nodes and four slots. */
function disturbed(seed: number, leader: SimulatedLeader): LeaseWorld {
  const world = new LeaseWorld(seed, { nodes: 3, slots: 4, leader });
  const { random, nodes } = world;
  const node = () => nodes[Math.floor(random() * nodes.length)] ?? assert.fail();
  for (let i = 0; i < 60; i++) {
    world.run(random() * 2_000);
    const one = node();
    const chance = random();
    if (chance < 0.3) world.move(`${Math.floor(random() * 4)}`, node().name);
    else if (chance < 0.5) one.freeze(random() * 5_000);
    else if (chance < 0.65) one.isCutOff = !one.isCutOff;
    else if (chance < 0.8) {
      one.kill();
      world.at(random() * 3_000, () => one.start());
    } else if (chance < 0.9) {
      one.stop();
      world.at(1_000 + random() * 3_000, () => one.start());
    }
  }
  return world;
}
