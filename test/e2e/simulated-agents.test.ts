/** One controller, and four agents that are simulated: what nodes report, and what comes of it. */
import { describeAntreaStatus } from './antrea-status.ts';
import { describeRollout } from './rollout.ts';
import { type RolloutBed, startRolloutBed } from './rollout-bed.ts';

const NAMES = ['n1', 'n2', 'n3', 'n4'];

describe('a cluster with simulated agents', () => {
  let bed: RolloutBed;
  before(async function () {
    this.timeout(1_800_000);
    const labels = { 'topology.kubernetes.io/zone': 'a' };
    bed = await startRolloutBed({
      nodes: Object.fromEntries(NAMES.map((name) => [name, labels])),
      controllers: 1,
    });
    for (const node of bed.nodes) node.start();
    await bed.leader();
  });
  after(() => bed?.close());

  describeAntreaStatus(() => bed);
  // It turns the gate off.
  describeRollout(() => bed);
});
