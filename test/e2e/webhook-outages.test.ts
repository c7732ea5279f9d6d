import assert from 'node:assert/strict';
import type { TestCluster } from '../cluster/cluster.ts';
import { until } from '../kernel/until.ts';
import { type OneController, startOneController } from './one-controller.ts';

const HEAD = 'apiVersion: nodewall.io/v1alpha1\n';
const policy = (name: string, tier: string): string =>
  `${HEAD}kind: ClusterNetworkPolicy\nmetadata: {name: ${name}}\nspec: {priority: 5, tier: ${tier}, appliedTo: [{nodeSelector: {}}]}`;
const tier = (name: string, priority: number): string =>
  `${HEAD}kind: Tier\nmetadata: {name: ${name}}\nspec: {priority: ${priority}}`;

describe('the controller’s webhook around outages, on a real API server', function () {
  this.timeout(180_000);
  let controller: OneController;
  let cluster: TestCluster;

  before(async function () {
    this.timeout(1_800_000);
    controller = await startOneController('', 'NodeNetworkPolicy=true');
    ({ cluster } = controller);
    await until('the webhook refuses', isRefused, { detail: controller.log });
  });

  after(() => controller?.close());

  const apply = (manifest: string): ReturnType<TestCluster['kubectl']> =>
    cluster.kubectl(['apply', '-f', '-'], { stdin: manifest });

  /** A dry run asks the webhook and stores nothing. */
  async function isRefused(): Promise<boolean> {
    const args = ['create', '--dry-run=server', '-f', '-'];
    const { stderr } = await cluster.kubectl(args, { stdin: policy('invalid', 'nowhere') });
    return stderr.includes('denied the request');
  }

  it('an invalid policy is rejected again within two seconds after the webhook configurations were created again', async () => {
    for (let round = 0; round < 3; round++) {
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
    for (let round = 0; round < 5; round++) {
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
