/** What stays when something is gone: controllers, the API server, etcd, tokens. Rules do. */

import assert from 'node:assert/strict';
import { kernelSuite } from '../../kernel/kernel-suite.ts';
import { failures } from '../labs.ts';
import type { Agent } from '../story-agents.ts';
import { closed, realized, type Story } from '../story-bed.ts';

const FLOODED = 22;

/** Of two controllers; at its end both are gone. */
kernelSuite('a story of outages', function () {
  this.timeout(300_000);
  const bed = failures.use();
  let story: Story;
  before(async () => {
    ({ story } = bed());
    await story.applied(closed('web', 80), closed('flood', FLOODED));
    await story.statusIs('web', realized(2));
    await story.statusIs('flood', realized(2));
  });

  const agentOn = (name: string): Agent => story.agents[name] ?? assert.fail(`no agent on ${name}`);
  it('two controllers are both ready, and one leads', async () => {
    const answers = await Promise.all(story.replicas.map((one) => one.ready()));
    assert.deepEqual(answers, ['200 ok', '200 ok']);
    const leaders = await Promise.all(story.replicas.map((one) => one.metrics()));
    assert.deepEqual(
      leaders.map((text) => /^nodewall_controller_leader (\d)$/m.exec(text)?.[1]),
      ['1', '0'],
    );
  });

  it('the controller is killed: rules stay, the standby takes over, nothing leaks', async () => {
    await story.withoutLeaks('worker-1', FLOODED, async () => {
      await story.replicas[0]?.end('SIGKILL');
      await story.sees('other0', 'worker-1', 80, 'closed');
      // Nobody enforces it yet, nobody says so.
      await story.applied(closed('web', 443));
      assert.equal(await story.routed(), story.replicas[1]);
      await story.sees('other0', 'worker-1', 443, 'closed');
      await story.sees('other0', 'worker-1', 80, 'open');
      await story.statusIs('web', { ...realized(2), observedGeneration: 2 });
    });
    await story.addReplica();
    await story.applied(closed('web', 80));
    await story.sees('other0', 'worker-2', 80, 'closed');
    await story.statusIs('web', realized(2));
    await story.sameBytes();
  });

  it('a controller that stops in order is replaced at once', async () => {
    await story.replicas[1]?.end('SIGTERM');
    assert.equal(await story.routed(), story.replicas[2]);
    await story.applied(closed('web', 443));
    await story.sees('other0', 'worker-1', 443, 'closed');
    await story.statusIs('web', realized(2));
  });

  it('the API server restarts, and etcd', async () => {
    await story.withoutLeaks('worker-1', FLOODED, async () => {
      await story.cluster.stopApiServer('SIGKILL');
      await story.sees('other0', 'worker-1', 443, 'closed');
      await story.cluster.startApiServer();
      await story.routed();
      await story.applied(closed('web', 80));
      await story.sees('other0', 'worker-1', 80, 'closed');
      await story.statusIs('web', realized(2));
      await story.cluster.stopEtcd('SIGKILL');
      await story.sees('other0', 'worker-2', 80, 'closed');
      await story.cluster.startEtcd();
      await story.routed();
      await story.applied(closed('web', 443));
      await story.sees('other0', 'worker-2', 443, 'closed');
      await story.statusIs('web', realized(2));
    });
  });

  it('an expired token ends its stream; a new one continues', async () => {
    const agent = agentOn('worker-1');
    const bound = { boundNode: 'worker-1', audiences: ['nodewall-controller'] };
    await agent.end('SIGTERM');
    const token = await story.cluster.token('nodewall-system/nodewall-agent', { ...bound, seconds: 20 });
    await agent.setToken(token);
    agent.start();
    await agent.says('following the controller');
    await agent.says('refused (401');
    await story.applied(closed('web', 8080));
    await story.sees('other0', 'worker-2', 8080, 'closed');
    await story.sees('other0', 'worker-1', 443, 'closed');
    await story.statusIs('web', { phase: 'Realizing', currentNodesRealized: 1, desiredNodesRealized: 2 });
    await agent.setToken();
    await story.sees('other0', 'worker-1', 8080, 'closed');
    await story.statusIs('web', realized(2));
  });

  it('a token of another node, or bound to none, is rejected', async () => {
    const agent = agentOn('worker-1');
    await agent.end('SIGTERM');
    const audiences = ['nodewall-controller'];
    for (const boundNode of [{ boundNode: 'worker-2' }, {}]) {
      const token = await story.cluster.token('nodewall-system/nodewall-agent', {
        audiences,
        ...boundNode,
      });
      await agent.setToken(token);
      agent.start();
      await agent.says('refused (403');
      await agent.end('SIGTERM');
    }
    await story.sees('other0', 'worker-1', 8080, 'closed');
    await agent.setToken();
    agent.start();
    await agent.says('following the controller');
    await story.statusIs('web', realized(2));
  });

  it("a deleted Node's token is rejected, its rules stay; a new Node needs a new token", async () => {
    const agent = agentOn('worker-1');
    const { v4, v6 } = agent.machine;
    await story.cluster.remove('node', 'worker-1');
    await story.statusIs('web', realized(1));
    await agent.says('refused (404: there is no Node worker-1)');
    // What was found out about a token holds for a minute.
    await agent.says('refused (401');
    await story.sees('other0', 'worker-1', 8080, 'closed');
    const metadata = { name: 'worker-1', labels: { 'kubernetes.io/hostname': 'worker-1', role: 'worker' } };
    await story.applied({ apiVersion: 'v1', kind: 'Node', metadata });
    const addresses = [v4, v6].map((address) => ({ type: 'InternalIP', address }));
    await story.cluster.patchStatus(['node/worker-1'], { addresses });
    await story.applied(closed('web', 80));
    await story.sees('other0', 'worker-2', 80, 'closed');
    await story.statusIs('web', { currentNodesRealized: 1, desiredNodesRealized: 2 });
    await story.sees('other0', 'worker-1', 8080, 'closed');
    await agent.setToken();
    await story.sees('other0', 'worker-1', 80, 'closed');
    await story.sees('other0', 'worker-1', 8080, 'open');
    await story.statusIs('web', realized(2));
    await story.sameBytes();
  });

  it('an agent starts without a controller: the saved state is in force', async () => {
    const agent = agentOn('worker-1');
    const before = await agent.rules();
    for (const replica of story.replicas) await replica.end('SIGKILL');
    await agent.end('SIGKILL');
    // As after a reboot.
    await agent.machine.namespace.run(['nft', 'delete', 'table', 'inet', 'nodewall']);
    await story.sees('other0', 'worker-1', 80, 'open');
    agent.start();
    await story.sees('other0', 'worker-1', 80, 'closed');
    assert.equal(await agent.rules(), before);
    await story.applied(closed('web', 443));
    await story.addReplica();
    await story.routed();
    await story.sees('other0', 'worker-1', 443, 'closed');
    await story.statusIs('web', realized(2));
  });

  it('at the end, the kernels have the rules of a stand-alone compile of the same objects', () =>
    story.sameBytes());
});
