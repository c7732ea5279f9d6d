import { startBox } from './box.ts';
import type { RealCluster } from './cluster.ts';
import { describe as describeCluster, install, QUICK_GUARD } from './nodewall.ts';
import { EVENTS, type EventName, type PolicyName } from './outage.ts';
import { MEANWHILE, reset, runTrial, type Trial, titleOf } from './trial.ts';

/** From the last action on (milliseconds). */
const LIMIT = 60_000;

const POLICIES: readonly (readonly PolicyName[])[] = [
  ['flagship'],
  ['ingress'],
  ['egress'],
  ['flagship', 'both'],
];
const TRIALS: readonly Trial[] = POLICIES.flatMap((policies) =>
  (Object.keys(EVENTS) as EventName[]).flatMap((event) =>
    MEANWHILE.map((meanwhile) => ({ policies, event, meanwhile })),
  ),
);

/**
 * Every policy that closes nearly everything × what can happen to nodewall × what is done
 * meanwhile: about an hour.
 */
describe('a real cluster is never locked', function () {
  this.timeout(600_000);
  let cluster: RealCluster;
  before(async function () {
    this.timeout(3_600_000);
    cluster = await startBox();
    await install(cluster, QUICK_GUARD);
  });
  after(() => cluster?.close());
  afterEach(async function () {
    if (this.currentTest?.state === 'failed') process.stderr.write(`${await describeCluster(cluster)}\n`);
  });
  for (const trial of TRIALS) {
    it(titleOf(trial), async () => {
      await reset(cluster);
      const { seconds } = await runTrial(cluster, trial, LIMIT);
      process.stdout.write(`    followed again after ${seconds.toFixed(1)} s\n`);
    });
  }
});
