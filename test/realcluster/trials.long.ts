import fc from 'fast-check';
import { startBox } from '../../build/cluster/box.ts';
import type { RealCluster } from '../../build/cluster/cluster.ts';
import { describeCluster, install, KUSTOMIZE_BASE } from '../../build/cluster/install.ts';
import { QUICK_GUARD } from './nodewall.ts';
import { EVENTS, type EventName, NAMED_PORTS, type PolicyName } from './outage.ts';
import { MEANWHILE, reset, runTrial, type Trial, titleOf } from './trial.ts';

/** From the last action on (milliseconds). */
const LIMIT = 60_000;

const POLICIES: readonly (readonly PolicyName[])[] = [
  ['flagship'],
  ['ingress'],
  ['egress'],
  ['flagship', 'both'],
];
/** What is applied again after this has the policy as it was before. */
const isPossible = ({ event, meanwhile }: Trial): boolean =>
  event !== 'CustomResourceDefinitions deleted' || !meanwhile.startsWith('policy ');
const EVERY = Object.keys(EVENTS) as EventName[];
const TRIALS: readonly Trial[] = POLICIES.flatMap((policies) =>
  EVERY.flatMap((event) => MEANWHILE.map((meanwhile) => ({ policies, event, meanwhile }))),
).filter(isPossible);
/** With the default times of guarded apply, which takes back what closes the API server. */
const NAMED: readonly Trial[] = (Object.keys(NAMED_PORTS) as PolicyName[]).flatMap((name) =>
  EVERY.map((event) => ({ policies: [name], event, meanwhile: 'nothing', base: KUSTOMIZE_BASE }) as const),
);
/** NODEWALL_TRIALS is how many of all, drawn from NODEWALL_SEED; default: all. */
const SEED = Number(process.env.NODEWALL_SEED ?? Math.floor(Math.random() * 2 ** 31));

function drawn(trials: readonly Trial[]): readonly Trial[] {
  const { NODEWALL_TRIALS: most } = process.env;
  if (most === undefined) return trials;
  process.stdout.write(`NODEWALL_SEED=${SEED}\n`);
  const seed = { seed: SEED, numRuns: 1 };
  const some = fc.shuffledSubarray([...trials], { minLength: trials.length });
  return (fc.sample(some, seed)[0] ?? []).slice(0, Number(most));
}

/**
 * Every policy that closes nearly everything × what can happen to nodewall × what is done
 * meanwhile: about an hour.
 */
function describeTrials(what: string, base: string, trials: readonly Trial[]): void {
  describe(what, function () {
    this.timeout(600_000);
    let cluster: RealCluster;
    before(async function () {
      this.timeout(3_600_000);
      cluster = await startBox();
      await install(cluster, base);
    });
    after(() => cluster?.close());
    afterEach(async function () {
      if (this.currentTest?.state === 'failed') process.stderr.write(`${await describeCluster(cluster)}\n`);
    });
    for (const trial of drawn(trials)) {
      it(titleOf(trial), async () => {
        await reset(cluster);
        const { seconds } = await runTrial(cluster, trial, LIMIT);
        process.stdout.write(`    followed again after ${seconds.toFixed(1)} s\n`);
      });
    }
  });
}

describeTrials('a real cluster is never locked', QUICK_GUARD, TRIALS);
describeTrials('a real cluster is never locked by rules that name ports', KUSTOMIZE_BASE, NAMED);
