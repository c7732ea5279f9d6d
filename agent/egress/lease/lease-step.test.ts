import assert from 'node:assert/strict';
import { LeaseWorld } from '../../../test/fake/lease-world.ts';

describe('leaseStep', () => {
  it('never has an address on two nodes, whatever stops, is cut off, moves or ends', () => {
    let moved = 0;
    for (let seed = 1; seed <= 60; seed++) {
      const world = new LeaseWorld(seed, 3, 4);
      const { random, nodes } = world;
      const node = () => nodes[Math.floor(random() * nodes.length)] ?? assert.fail();
      for (let i = 0; i < 60; i++) {
        world.run(random() * 1_000);
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
      assert(world.mostOwners <= 1, `seed ${seed}: ${world.mostOwners} owners`);
      for (const one of nodes) {
        one.freeze(0);
        one.isCutOff = false;
      }
      world.isCalm = true;
      world.publish();
      world.run(45_000);
      for (const [slot, { owner }] of world.slots)
        assert.deepEqual(world.owners(slot), [owner], `seed ${seed}`);
      moved += world.mostOwners;
    }
    assert.equal(moved, 60);
  });
});
