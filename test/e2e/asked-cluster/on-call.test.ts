/**
 * Questions of who is on call about a cluster where several things are wrong: each is answered by
 * the command that `nodewall --help` names for it (cli/program.ts), with the rights of
 * ClusterRoles nodewall-view and nodewall-operator.
 */

import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parse, stringify } from 'yaml';
import { QUESTIONS } from '../../../cli/program.ts';
import { usersYaml } from '../../cluster/admin-api.ts';
import { kernelSuite } from '../../kernel/kernel-suite.ts';
import { tcp } from '../../kernel/manifests.ts';
import { until } from '../../kernel/until.ts';
import { NODEWALL } from '../../program.ts';
import { NODE } from '../asked-bed.ts';
import { askedCluster } from '../labs.ts';
import { closed, realized, type Story } from '../story-bed.ts';

/** Which is switched off. */
const AWAY = 'worker-2';
/** Somebody's client, which is dropped. */
const CLIENT = 'other0';

const ON_CALL = usersYaml({ 'on-call': ['nodewall-view', 'nodewall-operator'] });

interface Created {
  readonly metadata: { readonly creationTimestamp: string };
}

kernelSuite('the questions of who is on call', () => {
  const bed = askedCluster.use();
  let story: Story;
  let kubeconfig: string;
  const asked = new Set<string>();

  before(async () => {
    ({ story } = bed());
    await story.withoutPolicies();
    const { cluster } = story;
    await cluster.apply(ON_CALL);
    kubeconfig = await cluster.kubeconfigFor('on-call', { token: await cluster.token('default/on-call') });

    // A new version of a policy drops what it should not, and another rule of it is for nothing.
    await story.applied(closed('web', 8080));
    // Times of changes are whole seconds: one in that of the creation counts as a part of it.
    const { metadata } = await cluster.get<Created>('clusternetworkpolicy', 'web');
    await until(
      'it is a second old',
      async () => Date.now() - Date.parse(metadata.creationTimestamp) > 1_000,
    );
    const ingress = [
      { name: 'close', action: 'Drop', ports: [tcp(80)], enableLogging: true },
      { name: 'lab', action: 'Drop', ports: [tcp(8080)] },
    ];
    const patch = JSON.stringify({ spec: { ingress } });
    await story.kubectl(
      'patch',
      'clusternetworkpolicy',
      'web',
      '--type=merge',
      `--patch=${patch}`,
      '--field-manager=kubectl-edit',
    );
    await story.statusIs('web', realized(2));
    // One node enforces nothing; a rollout waits for somebody.
    await story.agents[AWAY]?.run('off', '--reason', 'disk replaced');
    await story.statusIs('web', { phase: 'Failed', currentNodesRealized: 1 });
    await story.applied(closed('db', 443, { rollout: { steps: [1, '100%'], pause: 0 } }));
    await until('its first version is out', async () => (await rolloutOf('db')) === 'Completed');
    await story.kubectl('annotate', 'clusternetworkpolicy', 'db', 'nodewall.io/rollout=pause');
    await until('it waits', async () => /Paused|Completed/.test(await rolloutOf('db')));
    await story.applied(closed('db', 22, { rollout: { steps: [1, '100%'], pause: 0 } }));
    await until('it is paused', async () => /^Paused/.test(await rolloutOf('db')));
    await story.sees(CLIENT, NODE, 80, 'closed');
    await story.sees(CLIENT, NODE, 22, 'open');
  });
  after(async () => await story.agents[AWAY]?.run('on'));

  async function rolloutOf(policy: string): Promise<string> {
    const [shown] = JSON.parse((await ask(`nodewall rollout status ${policy} -o json`)).stdout || '[{}]');
    return shown?.progress ?? '';
  }

  /** Runs lines as they are typed, where nothing but the user's kubeconfig is set. */
  async function ask(line: string) {
    const programs = `nodewall() { '${NODEWALL}' "$@"; }; kubectl() { '${story.cluster.program}' kubectl "$@"; }`;
    const command = [
      'env',
      `KUBECONFIG=${kubeconfig}`,
      'sh',
      '-c',
      `cd ${story.cluster.folder}; ${programs}\n${line}`,
    ];
    return await story.controlPlane.run(command, { anyStatus: true });
  }

  /** The command of the question, with the blanks filled in, and its answer. */
  async function answer(question: RegExp, more: { readonly policy?: string; readonly line?: RegExp } = {}) {
    const [found = assert.fail(`no question is ${question}`)] = QUESTIONS.filter(([text]) =>
      question.test(text),
    );
    asked.add(found[0]);
    const { policy = 'web', line = /^/ } = more;
    const lines = found[1].replaceAll('\\\n', '').split('\n');
    const command = (lines.find((one) => line.test(one)) ?? assert.fail(found[1]))
      .replace('ADDRESS', story.machine(CLIENT).v4)
      .replace('NODE', NODE)
      .replace('POLICY', policy)
      .replace('PORT', '80')
      .trim();
    const result = await ask(command);
    if (process.env.NODEWALL_SHOW) process.stderr.write(`\n$ ${command}\n${result.stdout}${result.stderr}`);
    return result;
  }

  it('Is it the firewall? Which rule of which policy?', async () => {
    const { status, stdout } = await answer(/^Is it the firewall/);
    assert.equal(status, 0);
    assert.match(stdout, /^Drop: rule web\/close \(tier application\)$/m);
  });

  it('What is wrong? Which node does not enforce?', async () => {
    const { status, stdout } = await answer(/^What is wrong/);
    assert.equal(status, 1);
    assert.match(stdout, /^Node\/worker-2 +Off +nodewall off: disk replaced; nothing is enforced$/m);
    assert.match(stdout, /^ClusterNetworkPolicy\/db +Paused +\S/m);
  });

  it('What changed, when, and by whom?', async () => {
    const { status, stdout, stderr } = await answer(/^What changed/);
    assert.deepEqual([status, stderr], [0, '']);
    assert.match(
      stdout,
      /^2\d{3}-\S+Z {2}ClusterNetworkPolicy\/web +kubectl-edit \(Update\) +spec\.ingress +Failed, 1 of 2 nodes$/m,
    );
    assert.match(
      stdout,
      /^2\d{3}-\S+Z {2}ConfigMap\/nodewall-system\/nodewall-config +\S+ \(new\) +data\S* *$/m,
    );
    const times = [...stdout.matchAll(/^(2\d{3}-\S+Z) {2}/gm)].map(([, time]) => time);
    assert.deepEqual(times, times.toSorted().reverse());
  });

  it('What is dropped right now?', async () => {
    let isOver = false;
    const asking = answer(/^What is dropped right now/).finally(() => {
      isOver = true;
    });
    while (!isOver) await story.sees(CLIENT, NODE, 80, 'closed');
    assert.match((await asking).stdout, /^\d\S+ +\d+ +Drop +ingress +web\/close +worker-1$/m);
  });

  it('Who was denied?', async () => {
    const { stdout } = await answer(/^Who was denied/);
    const { v4 } = story.machine(CLIENT);
    assert.match(
      stdout,
      new RegExp(`^worker-1 .*Drop +ingress +tcp ${v4.replaceAll('.', '\\.')}:\\d+ → .*:80 .*web/close`, 'm'),
    );
  });

  it('Is a rollout stuck, and why?', async () => {
    const { status, stdout } = await answer(/^Is a rollout stuck/);
    assert.equal(status, 0);
    assert.match(stdout, /^db +- +Paused/m);
    assert.match(stdout, /^db: .*nodewall rollout resume|^db: .*pause/m);
  });

  it('Who uses a port of a node?', async () => {
    const { stdout } = await answer(/^Who uses a port/);
    assert.match(
      stdout,
      new RegExp(
        `^ingress +${story.machine(CLIENT).v4.replaceAll('.', '\\.')} +tcp 80 .* Drop web/close$`,
        'm',
      ),
    );
  });

  it('Which rules does nothing match?', async () => {
    const { stdout } = await answer(/^Which rules/);
    assert.match(stdout, /^ingress +application +web\/lab +Drop +never /m);
    assert.doesNotMatch(stdout, /web\/close/);
  });

  it('Is everything set up right?', async () => {
    const { stdout } = await answer(/^Is everything set up/);
    assert.match(stdout, /worker-2|cannot be checked/);
  });

  it('What do I send the maintainers?', async () => {
    const { status, stdout } = await answer(/^What do I send/);
    assert.equal(status, 0);
    const [, name = ''] = /^(nodewall-bundle-\S+\.tar\.gz): \d+ files/m.exec(stdout) ?? [];
    const file = join(story.cluster.folder, name);
    const { stdout: listed } = await story.controlPlane.run(['tar', '-tzf', file]);
    assert.match(listed, /^nodewall-bundle-[^/\n]+\/nodes\/worker-1\/counters\.json$/m);
  });

  it('What can be undone?', async () => {
    const { status, stdout, stderr } = await ask('nodewall undo');
    assert.deepEqual([status, stderr], [0, '']);
    assert.match(stdout, /^db +- +2\d{3}-\S+Z +\S+ +Paused +nodewall undo db \(generation 1\)$/m);
    assert.match(stdout, /^web +- +2\d{3}-\S+Z +kubectl-edit +- +no earlier version is stored$/m);
    const refused = await ask('nodewall undo web');
    assert.equal(refused.status, 1);
    assert.match(
      refused.stderr,
      /^nodewall: web has no rollout: .*\n {2}kubectl patch clusternetworkpolicy web /,
    );
    const unknown = await ask('nodewall undo --group none');
    assert.equal(unknown.status, 1);
    assert.match(unknown.stderr, /--group: no rollout has the group "none"/);
  });

  it('How do I stop just that?', async () => {
    const undone = await answer(/^How do I stop/, { policy: 'db', line: /nodewall undo/ });
    assert.equal(undone.status, 0, undone.stderr);
    await story.sees(CLIENT, NODE, 443, 'closed');
    const { stdout } = await ask('nodewall undo');
    assert.match(stdout, /^db .* is undone; nodewall rollout promote db ends that$/m);
    const recorded = await answer(/^How do I stop/, { line: /kubectl patch/ });
    assert.equal(recorded.status, 0, recorded.stderr);
    await story.sees(CLIENT, NODE, 80, 'open');
    await story.sees(CLIENT, NODE, 443, 'closed');
  });

  it('Where are rules tried, and how are they confirmed?', async () => {
    const none = await ask('nodewall confirm');
    assert.deepEqual([none.status, none.stderr], [0, '']);
    assert.match(none.stdout, /^No node of the cluster tries rules/);
    const agent = story.agents[NODE] ?? assert.fail();
    const config = join(story.cluster.folder, 'manual.yaml');
    const unguarded = parse(await readFile(join(story.cluster.folder, 'unguarded.yaml'), 'utf8'));
    await writeFile(config, stringify({ ...unguarded, guard: { enabled: true, confirm: 'Manual' } }));
    await agent.end('SIGTERM');
    agent.start('--config', config);
    await agent.says('"enforced"');
    await story.applied(closed('tried', 9999));
    await agent.says('are in force and tried, until nodewall confirm');
    await until('a node reports it', async () => (await ask('nodewall confirm')).status === 1);
    const { stdout } = await ask('nodewall confirm');
    assert.match(
      stdout,
      /^worker-1 +nodewall\.io\/tried +kubectl -n nodewall-system exec .* -- nodewall confirm$/m,
    );
    // Nothing was confirmed by that.
    const [node] = JSON.parse((await ask('nodewall confirm -o json')).stdout);
    assert.deepEqual([node.node, node.policies], [NODE, ['nodewall.io/tried']]);
    await agent.run('confirm');
    await until('nobody tries rules', async () => (await ask('nodewall confirm')).status === 0);
    await agent.end('SIGTERM');
    agent.start();
    await agent.says('"enforced"');
  });

  it('are all asked here', () => {
    assert.deepEqual(
      QUESTIONS.map(([question]) => question).filter((one) => !asked.has(one)),
      [],
    );
  });
});
