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

  async function untilCompleted(generation: number): Promise<void> {
    const isDone = async (): Promise<boolean> => {
      const { decision } = (await bed.rollout('ssh')) ?? {};
      return (
        decision?.state === 'Completed' && decision.policies[0]?.to === generation && at(generation) === COUNT
      );
    };
    await until(`generation ${generation} is on all nodes`, isDone, {
      limit: 300_000,
      detail: () => `${at(generation)} nodes\n${bed.logs()}`,
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
    for (let i = 0; i < KILLS; i++) {
      const { decision } = (await bed.rollout('ssh')) ?? {};
      if (decision?.state === 'Completed') {
        await untilCompleted(generation++);
        await bed.cluster.apply(policy(++priority, 3));
      }
      const leader = await bed.leader();
      await pause(Math.random() * 5_000);
      await leader.kill('SIGKILL');
      await bed.startController(leader.index);
      await bed.leader();
    }
    await untilCompleted(generation);
    done.abort();
    await watching;
    for (const [i, now] of decisions.entries()) {
      const last = decisions[i - 1];
      if (last === undefined || now.policies[0]?.to !== last.policies[0]?.to) continue;
      const isNext = now.step === last.step || now.step === last.step + 1;
      assert.ok(now.state === 'Completed' || isNext, `step ${last.step}, then ${now.step}`);
    }
    for (const { name, history } of bed.nodes) {
      const generations = (history.get('ssh') ?? []).slice((history.get('ssh') ?? []).lastIndexOf(1));
      assert.deepEqual(
        generations,
        [...generations].sort((a, b) => a - b),
        name,
      );
    }
  });
});
