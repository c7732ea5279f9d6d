/**
 * Kinds of flows of nodes, and the impact of a change on them, asked for with a user's own rights.
 */

import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { NodeFlow } from '../../../apis/node-flows.ts';
import type { FoundImpact } from '../../../controller/impact/flow-impact.ts';
import { kernelSuite } from '../../kernel/kernel-suite.ts';
import { until } from '../../kernel/until.ts';
import { type AskedBed, NODE } from '../asked-bed.ts';
import { askedCluster } from '../labs.ts';
import { closed, realized, type Story } from '../story-bed.ts';

kernelSuite('flows of nodes, asked for in a cluster', () => {
  const bed = askedCluster.use();
  let story: Story;
  let kubeconfigs: AskedBed['kubeconfigs'];
  let nodewall: AskedBed['nodewall'];
  let printed: AskedBed['printed'];

  before(async () => {
    ({ story, kubeconfigs, nodewall, printed } = bed());
    await bed().renewed();
  });

  it('gives the kinds of flows of one node and of all, with what decides about them', async () => {
    const args = ['--to-port', '80', '--denied'];
    const { flows, kinds } = await printed('flows', '--node', NODE, ...args);
    assert.deepEqual(
      flows.map(({ direction, protocol, port, verdict, decision }: NodeFlow) => {
        return [direction, protocol, port, verdict, `${decision?.policy}/${decision?.rule}`];
      }),
      // Of both families.
      [0, 1].map(() => ['ingress', 'tcp', 80, 'Drop', 'web/close']),
    );
    assert.ok(kinds > 1, `${kinds} kinds: the node has connections to its controller`);
    const all = await nodewall('jane', 'flows', '--all-nodes', '--policy', 'web');
    assert.match(all.stdout, /^worker-1 +ingress +\S+ +tcp 80 .* Drop web\/close$/m);
    assert.match(all.stdout, /^worker-2: \d+ of \d+ kinds of flows since /m);
    const wrong = await nodewall('jane', 'flows', '--node', NODE, '--peer', 'x');
    assert.deepEqual([wrong.status, /--peer: "x": must be an address/.test(wrong.stderr)], [2, true]);
  });

  it('gives all kinds of flows in pages', async () => {
    const child = fileURLToPath(new URL('flow-pages-child.ts', import.meta.url));
    const argv = [process.execPath, child, kubeconfigs.jane, NODE];
    const { pages, all } = JSON.parse((await story.controlPlane.run(argv)).stdout);
    assert.ok(pages > 1 && all.kinds > 1, `${pages} pages of ${all.kinds} kinds`);
    assert.equal(all.flows.length, all.kinds);
  });

  it('advises policies for the nodes that answer, which the cluster takes', async () => {
    const { status, stdout, stderr } = await nodewall('ann', 'advise', '--node', NODE, '--node', 'worker-2');
    assert.deepEqual([status, stderr], [0, ''], stdout);
    assert.match(stdout, /^# - cp-1: not asked$/m);
    assert.match(stdout, /^# - the window is \d+ minutes?: jobs that run daily or weekly are not in it/m);
    // What the drops of `web` are.
    assert.match(stdout, /^# denied .*\n# - ingress .*: tcp 80 on worker-1/m);
    await story.cluster.apply(stdout);
    const names = [...stdout.matchAll(/^metadata: \{name: (\S+)\}$/gm)].map(([, name = '']) => name);
    assert.ok(names.length > 0, stdout);
    await story.cluster.kubectl(['delete', 'ncnp', ...names]);
    const strange = await nodewall('ann', 'advise', '--node', 'worker-9');
    assert.deepEqual(
      [strange.status, strange.stderr],
      [2, 'nodewall: --node: the cluster has no Node "worker-9"\n'],
    );
    const unbound = await nodewall('jane', 'advise');
    assert.equal(unbound.status, 3);
    assert.match(unbound.stderr, /cannot read \S+: .*forbidden/);
  });

  it('says what a change does to the flows of all nodes', async () => {
    const remove = ['impact', '--remove', 'ClusterNetworkPolicy/web', '--all-nodes'];
    const { status, stdout, stderr } = await nodewall('ann', ...remove, '-o', 'json');
    assert.equal(status, 1, stderr);
    const { nodes, failed }: FoundImpact = JSON.parse(stdout);
    assert.deepEqual(failed, []);
    assert.deepEqual(
      nodes.map(({ node, denied, allowed, otherwise }) => [node, denied.length, allowed.length, otherwise]),
      [
        // Of both families.
        [NODE, 0, 2, []],
        ['worker-2', 0, 0, []],
      ],
    );
    const { before: was, after: is } = nodes[0]?.allowed[0] ?? {};
    assert.deepEqual([was?.policy, was?.rule, is?.reason], ['web', 'close', 'default']);
    assert.equal((await nodewall('ann', ...remove, '--fail-on', 'denied')).status, 0);
    const path = join(story.cluster.folder, 'closed.json');
    const all = { egress: [{ name: 'all', action: 'Drop' }], ingress: undefined };
    await writeFile(path, JSON.stringify(closed('out', 0, all)));
    const out = await nodewall('ann', 'impact', '-f', path, '--node', NODE, '-o', 'json');
    const [one]: FoundImpact['nodes'] = JSON.parse(out.stdout).nodes;
    // To the controller and the API server: agents have no failsafe list for egress here.
    const rules = one?.denied.map(({ direction, after }) => `${direction} ${after.policy}/${after.rule}`);
    assert.deepEqual([...new Set(rules)], ['egress out/all'], out.stderr);
    const refused = await nodewall('jane', ...remove);
    assert.deepEqual([refused.status, /cannot read \S+/.test(refused.stderr)], [3, true], refused.stderr);
    const unknown = await nodewall('ann', 'impact', '-f', path, '--node', 'x');
    assert.deepEqual([unknown.status, unknown.stderr], [2, 'nodewall: --node: the cluster has no Node x\n']);
  });

  it('says which rules of all nodes no packet matched, for who may see counters and flows', async () => {
    const args = ['lint', '--all-nodes', '--window', '1s'];
    await story.applied(closed('quiet', 81));
    await story.statusIs('quiet', realized(2));
    const isFound = async () => (await nodewall('jane', ...args)).stdout.includes('not-hit: quiet/close');
    await until('it is counted for a second', isFound, { limit: 60_000 });
    const { status, stdout } = await nodewall('jane', ...args);
    assert.equal(status, 1);
    assert.match(
      stdout,
      /^not-hit: quiet\/close \(ingress\) on worker-1, worker-2\n {2}no packet matched it in this time; last hit: never, counted since /,
    );
    const long = await nodewall('jane', 'lint', '--node', NODE);
    assert.deepEqual([long.status, long.stderr], [0, '']);
    assert.match(
      long.stdout,
      /^Nothing found\.\nJudged by .*; 1 more rules without a hit are not counted for so long; /,
    );
    assert.equal((await nodewall('mallory', ...args)).status, 3);
  });
});
