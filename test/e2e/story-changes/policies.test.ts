/**
 * A cluster's day: policies, nodes, pods and namespaces change, and packets and statuses follow.
 */

import assert from 'node:assert/strict';
import { kernelSuite } from '../../kernel/kernel-suite.ts';
import { tcp } from '../../kernel/manifests.ts';
import { until } from '../../kernel/until.ts';
import { changes } from '../labs.ts';
import { closed, realized, type Story } from '../story-bed.ts';

/** Of one controller; at its end there is another one, and no webhook. */
kernelSuite('a story of policies, nodes and pods', () => {
  const begun = changes.use();
  let story: Story;
  before(() => {
    story = begun();
  });
  after(() => story.withoutPolicies());

  it('a policy is created, edited and deleted', async () => {
    await story.sees('other0', 'worker-1', 80, 'open');
    await story.applied(closed('web', 80));
    await story.sees('other0', 'worker-1', 80, 'closed');
    await story.sees('other0', 'worker-2', 80, 'closed');
    await story.sees('other0', 'cp-1', 80, 'open');
    await story.statusIs('web', realized(2));
    const reject = { ingress: [{ name: 'close', action: 'Reject', ports: [tcp(443)] }] };
    await story.applied(closed('web', 80, reject));
    await story.sees('other0', 'worker-1', 443, 'refused');
    await story.sees('other0', 'worker-1', 80, 'open');
    await story.statusIs('web', { ...realized(2), observedGeneration: 2 });
    await story.applied(closed('web', 80));
    await story.sees('worker-2', 'worker-1', 80, 'closed');
    await story.sees('other0', 'worker-1', 443, 'open');
    await story.cluster.remove('ncnp', 'web');
    await story.sees('other0', 'worker-1', 80, 'open');
    await story.sees('other0', 'worker-2', 80, 'open');
  });

  it('a node is labelled and unlabelled', async () => {
    await story.applied(closed('web', 80));
    await story.statusIs('web', realized(2));
    await story.cluster.label(['node', 'cp-1'], { role: 'worker' });
    await story.sees('other0', 'cp-1', 80, 'closed');
    await story.statusIs('web', realized(3));
    for (const name of ['worker-1', 'worker-2']) await story.cluster.label(['node', name], { role: null });
    await story.sees('other0', 'worker-1', 80, 'open');
    await story.sees('other0', 'worker-2', 80, 'open');
    await story.statusIs('web', realized(1));
    await story.cluster.label(['node', 'cp-1'], { role: 'control' });
    await story.sees('other0', 'cp-1', 80, 'open');
    await story.statusIs('web', realized(0));
    for (const name of ['worker-1', 'worker-2'])
      await story.cluster.label(['node', name], { role: 'worker' });
    await story.sees('other0', 'worker-1', 80, 'closed');
    await story.statusIs('web', realized(2));
  });

  it('a node is added, as target and as peer, and removed', async () => {
    const allow = { name: 'nodes', action: 'Allow', ports: [tcp(80)], from: [{ nodeSelector: {} }] };
    const close = { name: 'close', action: 'Drop', ports: [tcp(80)] };
    await story.applied(closed('web', 80, { ingress: [allow, close] }));
    await story.sees('worker-2', 'worker-1', 80, 'open');
    await story.sees('other2', 'worker-1', 80, 'closed');
    await story.statusIs('web', realized(2));
    const joining = story.machine('other2');
    const metadata = { name: 'other2', labels: { 'kubernetes.io/hostname': 'other2', role: 'worker' } };
    await story.applied({ apiVersion: 'v1', kind: 'Node', metadata });
    const addresses = [joining.v4, joining.v6].map((address) => ({ type: 'InternalIP', address }));
    await story.cluster.patchStatus(['node/other2'], { addresses });
    await story.statusIs('web', { phase: 'Realizing', currentNodesRealized: 2, desiredNodesRealized: 3 });
    await story.sees('other2', 'worker-1', 80, 'open');
    const agent = await story.addAgent(joining);
    await story.sees('other0', 'other2', 80, 'closed');
    await story.sees('worker-1', 'other2', 80, 'open');
    await story.statusIs('web', realized(3));
    await story.sameBytes();
    await story.cluster.remove('node', 'other2');
    await story.sees('other2', 'worker-1', 80, 'closed');
    await story.statusIs('web', realized(2));
    assert.notEqual(await agent.rules(), '', 'its rules stay until somebody cleans up');
    await story.removeAgent('other2');
  });

  it('pods of a peer are added and removed, and their namespace is relabelled', async () => {
    const { v4, v6 } = story.machine('other0');
    const from = [
      {
        podSelector: { matchLabels: { app: 'web' } },
        namespaceSelector: { matchLabels: { team: 'shop' } },
      },
    ];
    const allow = { name: 'shop', action: 'Allow', ports: [tcp(80)], from };
    const close = { name: 'close', action: 'Drop', ports: [tcp(80)] };
    await story.applied(
      { apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'shop', labels: { team: 'shop' } } },
      closed('web', 80, { ingress: [allow, close] }),
    );
    await story.sees('other0', 'worker-1', 80, 'closed');
    await story.statusIs('web', realized(2));
    await story.pod('web-1', { app: 'web' }, [v4, v6], 'shop');
    await story.sees('other0', 'worker-1', 80, 'open');
    await story.sees('other1', 'worker-1', 80, 'closed');
    await story.statusIs('web', realized(2));
    await story.cluster.label(['namespace', 'shop'], { team: 'other' });
    await story.sees('other0', 'worker-1', 80, 'closed');
    await story.statusIs('web', realized(2));
    await story.cluster.label(['namespace', 'shop'], { team: 'shop' });
    await story.sees('other0', 'worker-1', 80, 'open');
    await story.cluster.label(['pod', 'web-1', '--namespace=shop'], { app: null });
    await story.sees('other0', 'worker-1', 80, 'closed');
    await story.cluster.label(['pod', 'web-1', '--namespace=shop'], { app: 'web' });
    await story.sees('other0', 'worker-1', 80, 'open');
    await story.cluster.patchStatus(['pod/web-1', '--namespace=shop'], { phase: 'Succeeded' });
    await story.sees('other0', 'worker-1', 80, 'closed');
    await story.cluster.patchStatus(['pod/web-1', '--namespace=shop'], { phase: 'Running' });
    await story.sees('other0', 'worker-1', 80, 'open');
    await story.statusIs('web', realized(2));
    await story.sameBytes();
    await story.cluster.remove('pod', 'web-1', '--namespace=shop');
    await story.sees('other0', 'worker-1', 80, 'closed');
    await story.statusIs('web', realized(2));
    await story.sameBytes();
  });

  it("a reported address of a node counts as its peer address, except for a pod's address", async () => {
    const [further, ofPod, further6] = ['198.51.100.77', '198.51.100.78', '2001:db8:77::1'] as const;
    const { namespace } = story.machine('worker-2');
    const ip = (...args: readonly string[]) => namespace.run(['ip', ...args]);
    const workers = [{ nodeSelector: { matchLabels: { role: 'worker' } } }];
    const allow = { name: 'workers', action: 'Allow', ports: [tcp(80)], from: workers };
    const close = { name: 'close', action: 'Drop', ports: [tcp(80)] };
    await story.applied(closed('web', 80, { ingress: [allow, close] }));
    await story.statusIs('web', realized(2));
    await story.sameBytes();
    const seen = new Set<string>();
    // The next report may wait for 10 s, and is due after 66 s even if nothing changed.
    const reaches = (address: string, isMember: boolean): Promise<number> =>
      until(`${address} is ${isMember ? '' : 'no '}member on worker-1`, async () => {
        const rules = (await story.agents['worker-1']?.rules()) ?? '';
        for (const one of [further, ofPod, further6]) if (rules.includes(one)) seen.add(one);
        return rules.includes(address) === isMember;
      });
    await story.pod('claims', {}, [ofPod]);
    await ip('link', 'add', 'further', 'type', 'veth', 'peer', 'name', 'further-end');
    await ip('link', 'set', 'further-end', 'up');
    await ip('addr', 'add', `${ofPod}/32`, 'dev', 'further');
    // An address of a link that is down is none yet.
    await ip('addr', 'add', `${further}/32`, 'dev', 'further');
    await ip('link', 'set', 'further', 'up');
    await reaches(further, true);
    await ip('addr', 'add', `${further6}/128`, 'dev', 'further', 'nodad');
    await reaches(further6, true);
    await ip('addr', 'del', `${further6}/128`, 'dev', 'further');
    await reaches(further6, false);
    // Another claim takes it away, for as long as it is there.
    await story.pod('claims-too', {}, [further]);
    await reaches(further, false);
    await story.cluster.remove('pod', 'claims-too');
    await reaches(further, true);
    assert.deepEqual([...seen].sort(), [further, further6].sort());
    await ip('link', 'del', 'further');
    await reaches(further, false);
    await story.cluster.remove('pod', 'claims');
    await story.applied(closed('web', 80));
    await story.statusIs('web', realized(2));
    await story.sameBytes();
  });

  it('the gate is switched off, and on again', async () => {
    await story.setGate(false);
    await story.sees('other0', 'worker-1', 80, 'open');
    await story.statusIs('web', { phase: 'Disabled' });
    for (const agent of Object.values(story.agents))
      await until(`no table on ${agent.machine.name}`, async () => (await agent.rules()) === '');
    await story.setGate(true);
    await story.sees('other0', 'worker-1', 80, 'closed');
    await story.statusIs('web', realized(2));
    await story.sameBytes();
  });

  it('kubectl shows errors of the schema, its CEL rules, the webhook', async () => {
    const refused = async (spec: object, message: RegExp): Promise<void> => {
      const { code, stderr } = await story.apply(closed('bad', 81, spec));
      assert.notEqual(code, 0);
      assert.match(stderr, message);
    };
    const backwards = { ingress: [{ action: 'Drop', ports: [{ port: 5, endPort: 4 }] }] };
    await refused(backwards, /"mutate.nodewall.io" denied.*endPort: 4 is below port 5/s);
    await refused(
      { ingress: [{ action: 'Drop', from: [{ interfaceGroup: 'nowhere' }] }] },
      /"(mutate|validate).nodewall.io" denied.*interfaceGroup.*nowhere/s,
    );
    for (const kind of ['mutatingwebhookconfiguration', 'validatingwebhookconfiguration'])
      await story.cluster.remove(kind, 'nodewall');
    // The API server reads the configurations anew within a second or so; then its own schema
    // speaks.
    await until('the schema speaks', async () => {
      const { stderr } = await story.apply(closed('bad', 81, backwards));
      return !stderr.includes('denied') && /endPort needs port, and must not be below it/.test(stderr);
    });
  });

  it('without the webhook a policy that waits for a Tier is left out, and others are enforced', async () => {
    await story.applied(closed('bad', 443, { tier: 'nowhere' }));
    await story.statusIs('bad', ({ phase, problems = [], conditions }) => {
      const accepted = conditions.find(({ type }) => type === 'Accepted');
      return phase === 'Pending' && /nowhere/.test(problems.join()) && accepted?.status === 'False';
    });
    await story.applied(closed('good', 8080));
    await story.sees('other1', 'worker-1', 8080, 'closed');
    await story.sees('other1', 'worker-1', 443, 'open');
    await story.sees('other1', 'worker-1', 80, 'closed');
    await story.statusIs('good', realized(2));
    await story.applied(closed('bad', 443));
    await story.sees('other1', 'worker-1', 443, 'closed');
    await story.statusIs('bad', realized(2));
    // Its last valid version stays in force.
    await story.applied(closed('bad', 8080, { tier: 'nowhere' }));
    await story.statusIs('bad', { phase: 'Pending', enforcedGeneration: 2 });
    await story.sees('other1', 'worker-1', 443, 'closed');
    // Also for a controller that never saw it valid.
    await story.replicas[0]?.end('SIGKILL');
    await story.addReplica();
    await story.routed();
    await story.applied(closed('good', 8080, { priority: 6 }));
    await story.statusIs('good', { ...realized(2), observedGeneration: 2 });
    await story.sees('other1', 'worker-1', 443, 'closed');
    await story.statusIs('bad', { phase: 'Pending', enforcedGeneration: 2 });
    await story.applied(closed('bad', 443, { tier: 'platform' }));
    await story.statusIs('bad', realized(2));
    await story.cluster.remove('ncnp', 'bad', 'good');
    await story.sees('other1', 'worker-1', 443, 'open');
    await story.sees('other1', 'worker-1', 8080, 'open');
    await story.statusIs('web', realized(2));
  });

  it('at the end, the kernels have the rules of a stand-alone compile of the same objects', () =>
    story.sameBytes());
});
