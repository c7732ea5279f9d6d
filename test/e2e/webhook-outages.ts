import assert from 'node:assert/strict';
import type { TestCluster } from '../cluster/cluster.ts';
import { until } from '../kernel/until.ts';
import type { OneController } from './one-controller.ts';

const HEAD = 'apiVersion: nodewall.io/v1alpha1\n';
const policy = (name: string, tier: string): string =>
  `${HEAD}kind: ClusterNetworkPolicy\nmetadata: {name: ${name}}\nspec: {priority: 5, tier: ${tier}, appliedTo: [{nodeSelector: {}}]}`;
const tier = (name: string, priority: number): string =>
  `${HEAD}kind: Tier\nmetadata: {name: ${name}}\nspec: {priority: ${priority}}`;

/** @param rounds how often the configurations are created again, and the API server is restarted */
export function describeWebhookOutages(begun: () => OneController, rounds: number): void {
  describe('the controller’s webhook around outages, on a real API server', function () {
    this.timeout(60_000 + 40_000 * rounds);
    let controller: OneController;
    let cluster: TestCluster;

    before(async () => {
      controller = begun();
      ({ cluster } = controller);
      await until('the webhook refuses', isRefused, { detail: controller.log });
    });

    const apply = (manifest: string): ReturnType<TestCluster['kubectl']> =>
      cluster.kubectl(['apply', '-f', '-'], { stdin: manifest });

    /** A dry run asks the webhook and stores nothing. */
    async function isRefused(): Promise<boolean> {
      const args = ['create', '--dry-run=server', '-f', '-'];
      const { stderr } = await cluster.kubectl(args, { stdin: policy('invalid', 'nowhere') });
      return stderr.includes('denied the request');
    }

    it('an invalid policy is rejected again within two seconds after the webhook configurations were created again', async () => {
      for (let round = 0; round < rounds; round++) {
        const gone = await cluster.kubectl([
          'delete',
          'mutatingwebhookconfiguration,validatingwebhookconfiguration',
          'nodewall',
        ]);
        assert.equal(gone.code, 0, gone.stderr);
        await until('nobody refuses', async () => !(await isRefused()));
        await cluster.apply(controller.webhooks);
        // The API server reads the configurations anew within a second or so; the machine may have
        // other work.
        const made = performance.now();
        await until('the webhook refuses', isRefused, { limit: 10_000, detail: controller.log });
        const seconds = (performance.now() - made) / 1000;
        process.stdout.write(`      refused again after ${seconds.toFixed(1)} s\n`);
      }
    });

    it('accepts a Tier and its policy in one apply, as soon as the API server answers again', async () => {
      for (let round = 0; round < rounds; round++) {
        await cluster.restartApiServer('SIGKILL');
        const [first, second] = [`a${round}`, `b${round}`];
        for (const [at, name] of [first, second].entries()) {
          const both = `${tier(name, 10 + 2 * round + at)}\n---\n${policy(name, name)}`;
          const { code, stderr } = await apply(both);
          assert.equal(code, 0, `round ${round}: ${stderr}\n${controller.log().slice(-8_000)}`);
        }
        const refused = await apply(policy('invalid', 'nowhere'));
        assert.match(refused.stderr, /there is no Tier "nowhere"/);
      }
    });
  });
}
