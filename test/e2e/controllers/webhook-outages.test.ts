import assert from 'node:assert/strict';
import { once } from 'node:events';
import type { IncomingMessage } from 'node:http';
import { request } from 'node:https';
import type { TestCluster } from '../../cluster/cluster.ts';
import { until } from '../../kernel/until.ts';
import { oneController } from '../labs.ts';
import type { OneController } from '../one-controller.ts';

const HEAD = 'apiVersion: nodewall.io/v1alpha1\n';
const policy = (name: string, tier: string): string =>
  `${HEAD}kind: ClusterNetworkPolicy\nmetadata: {name: ${name}}\nspec: {priority: 5, tier: ${tier}, appliedTo: [{nodeSelector: {}}]}`;
const tier = (name: string, priority: number): string =>
  `${HEAD}kind: Tier\nmetadata: {name: ${name}}\nspec: {priority: ${priority}}`;

/** How often the configurations are created again, and the API server is restarted. */
const ROUNDS = Number(process.env.NODEWALL_OUTAGES ?? 2);

/** The status of a POST without a body and its type. */
async function statusOf(url: string): Promise<number> {
  const outgoing = request(url, { method: 'POST', rejectUnauthorized: false, agent: false }).end();
  const [response] = (await once(outgoing, 'response')) as [IncomingMessage];
  response.resume();
  return response.statusCode ?? 0;
}

describe('the controller’s webhook around outages, on a real API server', function () {
  this.timeout(60_000 + 40_000 * ROUNDS);
  const begun = oneController.use();
  let controller: OneController;
  let cluster: TestCluster;

  before(async () => {
    controller = begun();
    ({ cluster } = controller);
    await until('the webhook refuses', isRefused, { detail: controller.log });
  });

  const apply = (manifest: string): ReturnType<TestCluster['kubectl']> =>
    cluster.kubectl(['apply', '-f', '-'], { stdin: manifest });

  /** Whether the webhook refuses what the schema refuses too, in other words. */
  async function isRefused(): Promise<boolean> {
    const passes = policy('invalid', 'baseline, ingress: [{name: r, action: Pass}]');
    const refusal = await cluster.apply(passes).then(() => '', String);
    return refusal.includes('denied the request');
  }

  it('an invalid policy is rejected again within two seconds after the webhook configurations were created again', async () => {
    for (let round = 0; round < ROUNDS; round++) {
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

  it('nobody else is answered, and a path that somebody reset is written again', async () => {
    const { url } = await validate();
    const { origin, pathname } = new URL(url);
    assert.match(pathname, /^\/validate\/\d+-[0-9a-f]{64}$/);
    for (const path of ['/validate', '/use', '/', `${pathname.slice(0, -1)}z`])
      assert.equal(await statusOf(`${origin}${path}`), 404, path);
    assert.equal(await statusOf(url), 415);
    const patch = JSON.stringify([
      { op: 'replace', path: '/webhooks/0/clientConfig/url', value: `${origin}/validate` },
    ]);
    const args = ['patch', 'validatingwebhookconfiguration', 'nodewall', '--type=json'];
    const { code, stderr } = await cluster.kubectl([...args, `--patch=${patch}`]);
    assert.equal(code, 0, stderr);
    await until('the path is there again', async () => (await validate()).url !== `${origin}/validate`);
    assert.equal(new URL((await validate()).url).pathname.length, pathname.length);
    await until('the webhook refuses', isRefused, { detail: controller.log });
    const log = controller.log();
    for (const secret of log.match(/\d+-[0-9a-f]{64}/g) ?? []) assert.fail(`the log has ${secret}`);
  });

  async function validate(): Promise<{ readonly url: string }> {
    const { webhooks } = await cluster.get<{ webhooks: { clientConfig: { url: string } }[] }>(
      'validatingwebhookconfiguration',
      'nodewall',
    );
    return webhooks[0]?.clientConfig ?? assert.fail('no webhook');
  }

  it('accepts a Tier and its policy in one apply, as soon as the API server answers again', async () => {
    for (let round = 0; round < ROUNDS; round++) {
      await cluster.restartApiServer('SIGKILL');
      const [first, second] = [`a${round}`, `b${round}`];
      for (const [at, name] of [first, second].entries()) {
        const both = `${tier(name, 10 + 2 * round + at)}\n---\n${policy(name, name)}`;
        const { code, stderr } = await apply(both);
        assert.equal(code, 0, `round ${round}: ${stderr}\n${controller.log().slice(-8_000)}`);
      }
      const waits = await apply(policy('waits', 'nowhere'));
      assert.match(waits.stderr, /there is no Tier "nowhere"/);
      await cluster.remove('ncnp', 'waits');
    }
  });
});
