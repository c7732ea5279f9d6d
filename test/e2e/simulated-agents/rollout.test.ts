import assert from 'node:assert/strict';
import { join } from 'node:path';
import type { RolloutStatus } from '../../../apis/rollout.ts';
import { nodewall } from '../../cli/command.ts';
import { usersYaml } from '../../cluster/admin-api.ts';
import { until } from '../../kernel/until.ts';
import { ROOT } from '../../structure/source-file.ts';
import { simulated } from '../labs.ts';
import type { RolloutBed } from '../rollout-bed.ts';

const policy = (priority: number, rollout: string, name = 'ssh') => `
apiVersion: nodewall.io/v1alpha1
kind: ClusterNetworkPolicy
metadata: {name: ${name}}
spec:
  priority: ${priority}
  rollout: ${rollout}
  appliedTo: [{nodeSelector: {}}]
  ingress: [{name: drop, action: Drop, ports: [{protocol: TCP, port: ${1000 + priority}}]}]
`;
const STEPS = '{steps: [1, "50%", "100%"], pause: 0}';

/** Of one controller, and agents that run; at its end the gate is off. */
describe('a rollout over nodes, on a real API server', function () {
  this.timeout(60_000);
  const begun = simulated.use();
  let bed: RolloutBed;
  before(() => {
    bed = begun();
  });

  const generations = (name = 'ssh'): readonly number[] =>
    bed.nodes.map((node) => node.generation(name)).sort();

  async function rolloutIs(
    what: string,
    wanted: (status: RolloutStatus) => boolean,
    name = 'ssh',
  ): Promise<void> {
    let last: RolloutStatus | undefined;
    await until(
      what,
      async () => {
        last = await bed.rollout(name);
        return last !== undefined && wanted(last);
      },
      { limit: 30_000, detail: () => `${JSON.stringify(last, null, 1)}\n${generations()}\n${bed.logs()}` },
    );
  }

  const isCompleted = ({ progress }: RolloutStatus): boolean => progress === 'Completed';

  it('goes through all steps, for the first version too', async () => {
    await bed.cluster.apply(policy(1, STEPS));
    await rolloutIs('it is completed', isCompleted);
    await until('all nodes have it', async () => generations().every((one) => one === 1));
    const { decision, versions } = (await bed.rollout('ssh')) ?? {};
    assert.deepEqual([decision?.policies[0]?.to, versions?.map(({ generation }) => generation)], [1, [1]]);
  });

  it('pauses when a node of the first step fails, and no other node has the new version', async () => {
    for (const node of bed.nodes) node.failsFrom = 2;
    await bed.cluster.apply(policy(2, STEPS));
    await rolloutIs('it is paused', ({ progress }) => progress === 'Paused at step 1 of 3');
    assert.deepEqual(generations(), [1, 1, 1, 2]);
    await rolloutIs(
      'the node is named',
      ({ failed = [] }) => failed[0]?.reason === 'no such file or directory',
    );
  });

  it('is undone everywhere, until the spec changes', async () => {
    await bed.annotate('ssh', 'undo');
    await until('no node has the new version', async () => generations().every((one) => one === 1));
    await rolloutIs('it is undone', ({ progress }) => progress === 'Undone');
    for (const node of bed.nodes) node.failsFrom = Number.POSITIVE_INFINITY;
    await bed.cluster.apply(policy(3, STEPS));
    await rolloutIs('it is completed', isCompleted);
    assert.deepEqual(generations(), [3, 3, 3, 3]);
  });

  it('is paused, resumed and promoted by the annotation', async () => {
    await bed.cluster.apply(policy(4, '{steps: [1, "100%"], pause: 3600}'));
    await rolloutIs(
      'the first step began',
      ({ progress, confirmed }) => progress === 'Step 1 of 2' && confirmed === 1,
    );
    const steer = async (command: string, ...more: readonly string[]): Promise<string> => {
      const { status, stdout, stderr } = await nodewall(
        'rollout',
        command,
        ...more,
        '--kubeconfig',
        bed.cluster.kubeconfig,
      );
      assert.equal(status, 0, stderr);
      return stdout;
    };
    assert.match(await steer('pause', 'ssh'), /^ssh +- +Paused at step 1 of 2 +4 +1 +1$/m);
    const [shown] = JSON.parse(await steer('resume', 'ssh', '-o', 'json')) as [{ state: string; to: number }];
    assert.deepEqual([shown.state, shown.to], ['Progressing', 4]);
    await bed.annotate('ssh', 'promote');
    await until('all nodes have it', async () => generations().every((one) => one === 4));
  });

  it('moves the policies of a group together', async () => {
    const mixed: string[] = [];
    for (const node of bed.nodes)
      node.enforced = ({ rules }) => {
        const versions = new Map(rules.map(({ source }) => [source.policy, source.generation]));
        if (versions.get('one') !== versions.get('two'))
          mixed.push(`${node.name}: ${JSON.stringify([...versions])}`);
      };
    const both = (priority: number) =>
      ['one', 'two'].map((name) => policy(priority, '{steps: [1, "100%"], pause: 0, group: web}', name));
    for (const generation of [1, 2]) {
      // One after the other, the first may be alone for so long that it begins.
      await Promise.all(both(10 + generation).map((one) => bed.cluster.apply(one)));
      const isDone = (status: RolloutStatus) =>
        isCompleted(status) && status.decision?.policies[0]?.to === generation;
      await rolloutIs('both are completed', isDone, 'two');
      await until('all nodes have both', async () =>
        [...generations('one'), ...generations('two')].every((one) => one === generation),
      );
    }
    assert.deepEqual(mixed, []);
  });

  it('refuses what is not a rollout', async () => {
    for (const wrong of ['{steps: []}', '{steps: ["0%"]}', '{steps: [0]}', '{pause: -1}', '{step: 1}'])
      await assert.rejects(bed.cluster.apply(policy(5, wrong)), wrong);
  });

  it('is steered with ClusterRole nodewall-operator, and only seen with nodewall-view', async () => {
    const kubeconfigs = await people(bed);
    const as = (user: keyof typeof kubeconfigs, ...args: readonly string[]) =>
      nodewall('rollout', ...args, '--kubeconfig', kubeconfigs[user]);
    await bed.cluster.apply(policy(6, '{steps: [1, "100%"], pause: 3600}'));
    await rolloutIs('the first step began', ({ progress }) => progress === 'Step 1 of 2');
    for (const command of ['pause', 'resume', 'promote']) {
      const refused = await as('viewer', command, 'ssh');
      assert.equal(refused.status, 3, refused.stdout);
      assert.match(refused.stderr, /verbs: \["patch"\].*ClusterRole nodewall-operator has.*403 Forbidden/);
      const done = await as('operator', command, 'ssh');
      assert.equal(done.status, 0, done.stderr);
    }
    await until('all nodes have it', async () => generations().every((one) => one === 5));
    assert.equal((await as('viewer', 'status', 'ssh')).status, 0);
    for (const node of bed.nodes) node.failsFrom = 6;
    await bed.cluster.apply(policy(7, '{steps: [1, "100%"], pause: 3600}'));
    await rolloutIs('it is paused', ({ progress }) => progress === 'Paused at step 1 of 2');
    assert.equal((await as('operator', 'undo', 'ssh')).status, 0);
    await rolloutIs('it is undone', ({ progress }) => progress === 'Undone');
  });

  it('turns the gate off with nodewall-operator, which makes and deletes nothing', async () => {
    const { viewer, operator } = await people(bed);
    const kubectl = async (kubeconfig: string, ...args: readonly string[]) =>
      await bed.cluster.kubectl(args, { kubeconfig, stdin: policy(8, STEPS, 'new') });
    const off = ['apply', '-f', join(ROOT, 'deploy/gate/off.yaml')];
    assert.match((await kubectl(viewer, ...off)).stderr, /cannot patch resource "configmaps"/);
    const done = await kubectl(operator, ...off);
    assert.equal(done.code, 0, done.stderr);
    const refused = [
      ['create', '-f', '-'],
      ['delete', 'clusternetworkpolicy', 'ssh'],
      ['label', 'node', 'n1', 'a=b'],
      ['get', 'secrets', '-n', 'nodewall-system'],
    ];
    for (const args of refused)
      assert.match((await kubectl(operator, ...args)).stderr, /forbidden/, args.join(' '));
  });
});

const PEOPLE = usersYaml({ viewer: ['nodewall-view'], operator: ['nodewall-operator'] });

/** Kubeconfigs of two people, each with one of the roles of deploy/rbac.yaml alone. */
async function people({ cluster }: RolloutBed) {
  await cluster.apply(PEOPLE);
  const of = async (name: string) =>
    await cluster.kubeconfigFor(name, { token: await cluster.token(`default/${name}`) });
  return { viewer: await of('viewer'), operator: await of('operator') };
}
