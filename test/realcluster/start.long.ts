import { startBox } from '../../build/cluster/box.ts';
import type { RealCluster } from '../../build/cluster/cluster.ts';
import { describeCluster, install, untilReady } from '../../build/cluster/install.ts';
import { summarise } from '../../perf/measure/statistics.ts';
import { type AgentStart, startOfAgent } from './agent-start.ts';
import { untilClosed } from './installation.ts';
import { untilConfirmed } from './nodewall.ts';

const TRIALS = 12;
const POLICY = 'closed-port';

/** How long a node is without rules when its agent starts, the image being there. */
describe('the start of an agent on a real cluster', function () {
  this.timeout(900_000);
  let cluster: RealCluster;

  before(async function () {
    this.timeout(3_600_000);
    cluster = await startBox();
    await install(cluster);
    await untilClosed(cluster);
  });
  after(() => cluster?.close());
  afterEach(async function () {
    if (this.currentTest?.state === 'failed') process.stderr.write(`${await describeCluster(cluster)}\n`);
  });

  /** Guarded apply has ended, and no agent is about to be replaced. */
  async function untilCalm(): Promise<void> {
    await untilReady(cluster);
    await untilConfirmed(cluster, POLICY);
  }

  for (const [what, forgets] of [
    ['from the state that the agent before has saved', false],
    ['from the controller, on a node without a state', true],
  ] as const) {
    it(`ends with the rules in force, ${what}`, async () => {
      const starts: AgentStart[] = [];
      for (let i = 0; i < TRIALS; i++) {
        await untilCalm();
        starts.push(await startOfAgent(cluster, cluster.node('worker-1'), { policy: POLICY, forgets }));
      }
      for (const [from, part] of [
        ['the container’s start', 'sinceStarted'],
        ['its creation', 'sinceCreated'],
        ['the deletion of the pod before', 'sinceDeleted'],
      ] as const) {
        const { median, min, max } = summarise(starts.map((start) => start[part] / 1000));
        const figures = [median, min, max].map((value) => value.toFixed(2));
        process.stdout.write(
          `      from ${from}: median ${figures[0]} s, ${figures[1]} to ${figures[2]} s\n`,
        );
      }
    });
  }
});
