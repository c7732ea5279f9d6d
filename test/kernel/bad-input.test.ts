/** A bad file or policy changes nothing but itself. */
import assert from 'node:assert/strict';
import { forEachDataplane, NFTABLES } from './dataplane.ts';
import { createEnforcedNode, type EnforcedNode, type RunningAgent } from './enforced-node.ts';
import type { Flow } from './flow.ts';
import { policy, tcp } from './manifests.ts';
import { until } from './until.ts';
import { observe } from './verdicts.ts';

// Manifests are read alike in every dataplane.
forEachDataplane(
  'bad input',
  (dataplane) => {
    let node: EnforcedNode;
    let agent: RunningAgent | undefined;
    before(async () => {
      node = await createEnforcedNode(undefined, dataplane);
    });
    after(() => node?.close());

    /** That of an earlier test, or another one. */
    function running(): RunningAgent {
      if (!agent?.isRunning()) agent = node.start();
      return agent;
    }

    const closing = (name: string, port: number) =>
      policy(name, { ingress: [{ name: 'close', action: 'Drop', ports: [tcp(port)] }] });

    /** Which of the ports the kernel drops. */
    async function closedPorts(...ports: readonly number[]): Promise<number[]> {
      const [client] = node.topology.plan.clientAddresses;
      const [address] = node.topology.plan.nodeAddresses;
      assert(client && address);
      const flows = ports.map(
        (dstPort): Flow => ({
          direction: 'ingress',
          src: client.v4,
          dst: address.v4,
          protocol: 'tcp',
          dstPort,
        }),
      );
      const verdicts = await observe(node.topology, flows);
      return ports.filter((_, i) => verdicts[i] === 'Drop');
    }

    for (const [what, text] of [
      ['half a file', '{"apiVersion": "nodewall.io/v1alpha1", "kind": "Cluster'],
      ['a file with an invalid policy', JSON.stringify(policy('a', { priority: 0, ingress: [] }))],
    ] as const) {
      it(`${what} keeps its last valid policies; other policies still change`, async () => {
        await node.write('a.json', [closing('a', 3001)]);
        await node.write('b.json', [closing('b', 3002)]);
        const agent = running();
        await node.untilEnforced('3002', agent);
        await node.untilEnforced('3001', agent);
        const before = agent.log().length;
        await node.write('a.json', text);
        await until('the agent has read it', async () =>
          agent
            .log()
            .slice(before)
            .split('\n')
            .some((line) => line.includes('a.json') && line.includes('"level":"error"')),
        );
        assert.deepEqual(await closedPorts(3001, 3002, 3003), [3001, 3002], agent.log());
        await node.write('b.json', [closing('b', 3003)]);
        await node.untilEnforced('3003', agent);
        assert.deepEqual(await closedPorts(3001, 3002, 3003), [3001, 3003], agent.log());
        await node.write('a.json', [closing('a', 3004)]);
        await node.untilEnforced('3004', agent);
        assert.deepEqual(await closedPorts(3001, 3003, 3004), [3003, 3004]);
        assert(agent.isRunning());
      });
    }

    it('a running agent stops with the rules in force', async () => {
      await node.write('a.json', [closing('a', 3001)]);
      const agent = running();
      await node.untilEnforced('3001', agent);
      const rules = await node.rules();
      await agent.end('SIGTERM');
      assert.equal(await node.rules(), rules);
      assert.deepEqual(await closedPorts(3001, 3002), [3001]);
    });

    it('at start, one bad policy leaves the others in force', async () => {
      const bad = policy('bad', {
        ingress: [{ action: 'Drop', ports: [{ protocol: 'TCP', port: 99_999 }] }],
      });
      await node.write('a.json', [closing('a', 3001), bad, closing('c', 3003)]);
      await node.write('b.json', [closing('b', 3002)]);
      const { status, stderr } = await node.once();
      assert.equal(status, 0);
      assert.match(stderr, /bad/);
      assert.deepEqual(await closedPorts(3001, 3002, 3003, 3004), [3001, 3002, 3003]);
    });
  },
  [NFTABLES],
);
