import assert from 'node:assert/strict';
import { type RealCluster, untilNodesReady } from '../../build/cluster/cluster.ts';
import { CONTROLLERS } from '../../build/cluster/install.ts';
import { type Bed, deleteNamespace, makeNamespace, pods } from './nodewall.ts';
import { enforce, overcome, reset, type Trial, titleOf } from './trial.ts';

const API = 'apiservice/v1alpha1.controlplane.nodewall.io';

/** Controllers that the action makes come to the workers, one to each. */
export async function controllersOnWorkers(cluster: RealCluster, action: () => Promise<void>): Promise<void> {
  await cluster.kubectlOutput(['cordon', 'cp-1']);
  try {
    await action();
  } finally {
    await cluster.kubectlOutput(['uncordon', 'cp-1']);
  }
}

/**
 * First the nodes of the controllers lose power, which `controllersOnWorkers` put them on, then the
 * one of the control plane; all come back at once. `limit`: of the trial (milliseconds).
 */
export function describePowerLoss(bed: Bed, trial: Trial, limit: number): void {
  describe('without power', () => {
    before(async () => {
      await reset(bed.cluster());
      await enforce(bed.cluster(), trial.policies);
    });

    it('lets any namespace be deleted while both nodes of the controllers are without power', async () => {
      const cluster = bed.cluster();
      const workers = cluster.nodes.filter(({ name }) => name !== 'cp-1');
      const places = (await pods(cluster, CONTROLLERS)).map(({ spec }) => spec.nodeName);
      assert.deepEqual(
        places.sort(),
        workers.map(({ name }) => name),
      );
      await Promise.all(workers.map((node) => node.powerOff()));
      // After 45 to 75 s (docs/cluster.md) the agent that is left removes the aggregated API, which
      // nobody serves: while it exists, Kubernetes deletes no namespace.
      await cluster.kubectlOutput(['wait', '--for=delete', API, '--timeout=120s']);
      await makeNamespace(cluster, 'without-controllers');
      await deleteNamespace(cluster, 'without-controllers');
    });

    it(`is not locked: ${titleOf(trial)}`, async () => {
      const cluster = bed.cluster();
      const { seconds } = await overcome(cluster, trial, limit);
      process.stdout.write(`      followed again after ${seconds.toFixed(1)} s\n`);
      await untilNodesReady(cluster);
    });
  });
}
