import assert from 'node:assert/strict';
import { setTimeout as pause } from 'node:timers/promises';
import type { RolloutDecision } from '../../apis/rollout.ts';
import { until } from '../kernel/until.ts';
import { runs } from '../properties/runs.ts';
import { type RolloutBed, startRolloutBed } from './rollout-bed.ts';

const COUNT = 197;
const KILLS = runs(50);
const policy = (priority: number, seconds: number) => `
apiVersion: nodewall.io/v1alpha1
kind: ClusterNetworkPolicy
metadata: {name: ssh}
spec:
  priority: ${priority}
  rollout: {steps: [1, "5%", "25%", "100%"], pause: ${seconds}}
  appliedTo: [{nodeSelector: {}}]
  ingress: [{name: drop, action: Drop, ports: [{protocol: TCP, port: ${1000 + priority}}]}]
`;

describe(`a rollout over ${COUNT} simulated nodes, with three controllers`, function () {
  this.timeout(0);
  let bed: RolloutBed;
  let priority = 1;

  before(async () => {
    const names = Array.from({ length: COUNT }, (_, i) => `n${i}`);
    const labels = (i: number) => ({ 'topology.kubernetes.io/zone': `z${i % 3}` });
    bed = await startRolloutBed({
      nodes: Object.fromEntries(names.map((name, i) => [name, labels(i)])),
      controllers: 3,
      config: 'leaderElection: {leaseDuration: 3, renewDeadline: 2, retryPeriod: 1}',
    });
    for (const node of bed.nodes) node.start();
    await bed.leader();
    await bed.cluster.apply(policy(priority, 0));
    await untilCompleted(1);
  });

  after(async () => {
    await bed?.close();
  });

  const at = (generation: number): number =>
    bed.nodes.filter((node) => node.generation('ssh') === generation).length;

  /** How many nodes had which generations, one after the other. */
  const histories = (): string => {
    const groups = Map.groupBy(bed.nodes, ({ history }) => history.get('ssh')?.join() ?? 'none');
    return [...groups].map(([list, nodes]) => `${nodes.length} nodes: ${list}`).join('\n');
  };

  async function untilCompleted(generation: number): Promise<void> {
    const isDone = async (): Promise<boolean> => {
      const { decision } = (await bed.rollout('ssh')) ?? {};
      return (
        decision?.state === 'Completed' && decision.policies[0]?.to === generation && at(generation) === COUNT
      );
    };
    await until(`generation ${generation} is on all nodes`, isDone, {
      limit: 120_000,
      detail: () => `${histories()}\n${bed.logs()}`,
    });
  }

  it('stops at the first step where its node fails, and is undone within a second', async () => {
    for (const node of bed.nodes) node.failsFrom = 2;
    await bed.cluster.apply(policy(++priority, 0));
    const paused = await until(
      'it is paused',
      async () => (await bed.rollout('ssh'))?.decision?.state === 'Paused',
      { detail: bed.logs },
    );
    assert.ok(paused < 20_000, `${paused} ms`);
    await pause(2_000);
    assert.deepEqual([at(2), at(1)], [1, COUNT - 1]);
    await bed.annotate('ssh', 'undo');
    const undone = await until('it is undone', async () => at(1) === COUNT, { detail: bed.logs });
    assert.ok(undone < 1_000, `${undone} ms`);
    for (const node of bed.nodes) node.failsFrom = Number.POSITIVE_INFINITY;
    await bed.cluster.apply(policy(++priority, 0));
    await untilCompleted(3);
  });

  it(`goes on where it was when its leader is killed, ${KILLS} times`, async () => {
    const decisions: RolloutDecision[] = [];
    const done = new AbortController();
    const watching = (async () => {
      while (!done.signal.aborted) {
        const { decision } = (await bed.rollout('ssh').catch(() => undefined)) ?? {};
        if (decision !== undefined && decision.serial !== decisions.at(-1)?.serial) decisions.push(decision);
        await pause(50);
      }
    })();
    let generation = 3;
    let killedInProgress = 0;
    try {
      for (let i = 0; i < KILLS; i++) {
        if ((await bed.rollout('ssh'))?.decision?.state === 'Completed') {
          await untilCompleted(generation++);
          await bed.cluster.apply(policy(++priority, 2));
        }
        const leader = await bed.leader();
        await pause(Math.random() * 4_000);
        await bed.end(leader.index, 'SIGKILL');
        if ((await bed.rollout('ssh'))?.decision?.state === 'Progressing') killedInProgress++;
        await bed.startController(leader.index);
      }
      await bed.leader();
      await untilCompleted(generation);
    } finally {
      done.abort();
      await watching;
    }
    assert.ok(killedInProgress > KILLS / 2, `${killedInProgress} of ${KILLS} kills in the middle`);
    checkSteps(decisions);
    // An earlier generation, or none, is a step back.
    for (const { name, history } of bed.nodes) {
      const all = history.get('ssh') ?? [];
      const since = all.slice(all.lastIndexOf(1));
      assert.deepEqual(
        since,
        [...new Set(since)].sort((a, b) => a - b),
        name,
      );
    }
  });
});

/** Each decision follows the one before it; within one version, by at most one step. */
function checkSteps(decisions: readonly RolloutDecision[]): void {
  for (const [i, now] of decisions.entries()) {
    const last = decisions[i - 1];
    if (last === undefined) continue;
    assert.equal(now.serial, last.serial + 1, 'one was not seen');
    if (now.policies[0]?.to !== last.policies[0]?.to) continue;
    const isNext = now.step === last.step + 1 || (now.state === 'Completed' && last.step === 4);
    assert.ok(isNext, `${last.state} at step ${last.step}, then ${now.state} at step ${now.step}`);
  }
}
