import assert from 'node:assert/strict';
import { placeAmongNodes } from '../../agent/run/agent-state.ts';
import { startBox } from '../../build/cluster/box.ts';
import { type RealCluster, untilNodesReady } from '../../build/cluster/cluster.ts';
import { describeCluster, install, SYSTEM_NAMESPACE, untilReady } from '../../build/cluster/install.ts';
import { run } from '../../build/programs/command.ts';
import { buildHelm } from '../cluster/build.ts';
import { until } from '../kernel/until.ts';
import { NODEWALL } from '../program.ts';
import { HelmRelease } from './helm-release.ts';
import { leaksNothingUntilFollowed, untilClosed, written } from './installation.ts';
import { setGate, tableOf, untilTables } from './nodewall.ts';

/** Milliseconds. */
const LIMIT = 180_000;
/** Rolls agents and controllers: the configuration's name has its hash. */
const OTHER_CONFIGURATION = 'agentConfig.log.rate=50';

interface WithData {
  readonly data: Readonly<Record<string, string>>;
}

/**
 * What an operator does with the chart and with `nodewall uninstall`, with the real Helm. The steps
 * follow each other.
 */
describe('a release of the chart on a real cluster', function () {
  this.timeout(900_000);
  let cluster: RealCluster;
  let release: HelmRelease;

  before(async function () {
    this.timeout(3_600_000);
    const helm = await buildHelm();
    cluster = await startBox();
    release = new HelmRelease(cluster, helm);
  });
  after(() => cluster?.close());
  afterEach(async function () {
    if (this.currentTest?.state === 'failed') process.stderr.write(`${await describeCluster(cluster)}\n`);
  });

  it('is installed, with the gate off, and enforces when it is on', async () => {
    await release.install();
    await untilReady(cluster);
    await untilTables(cluster, 'nothing is enforced', (table) => table === '');
    await untilClosed(cluster);
  });

  for (const [what, act] of Object.entries({
    'an upgrade with another configuration': () => release.upgrade(OTHER_CONFIGURATION),
    'a rollback': () => release.rollback(1),
    'the same chart again': () => release.upgrade(),
  })) {
    it(`leaks nothing, and keeps gate, CA and caBundles: ${what}`, async () => {
      const before = await written(cluster);
      await leaksNothingUntilFollowed(cluster, act);
      assert.deepEqual(await written(cluster), before);
    });
  }

  it('switches the nodes off one by one where nothing else is said, and not those that wait when it is on again', async () => {
    const [first, second] = [...cluster.nodes].sort(
      (a, b) => placeAmongNodes(a.name) - placeAmongNodes(b.name),
    );
    assert.ok(first !== undefined && second !== undefined);
    // The second node has time enough to be seen waiting, whatever else the machine does.
    const data = { 'config.yaml': 'featureGates: {NodeNetworkPolicy: false}', 'switch-off': '600' };
    const metadata = { name: 'nodewall-config', namespace: SYSTEM_NAMESPACE };
    await cluster.apply(JSON.stringify({ apiVersion: 'v1', kind: 'ConfigMap', metadata, data }));
    const limit = placeAmongNodes(first.name) * 600_000 + LIMIT;
    await until(`${first.name} is off`, async () => (await tableOf(first)) === '', { limit });
    assert.notEqual(await tableOf(second), '', second.name);
    await setGate(cluster, true);
    await untilTables(cluster, 'the port is closed', (table) => table.includes('no-7000'));
  });

  it('is not removed while a node is away, and names it', async () => {
    await release.upgrade('uninstall.timeout=20');
    await untilReady(cluster);
    const away = cluster.node('worker-2');
    await away.powerOff();
    const conditions = async () => {
      const { status } = await cluster.get<{ status: { conditions: { type: string; status: string }[] } }>(
        'node',
        away.name,
      );
      return status.conditions.find(({ type }) => type === 'Ready')?.status;
    };
    await until('the cluster knows', async () => (await conditions()) !== 'True', { limit: LIMIT });
    const { code, stdout, stderr } = await release.uninstall('--timeout=5m');
    assert.notEqual(code, 0, stdout);
    const log = await cluster.kubectlOutput([
      'logs',
      'job/nodewall-uninstall',
      `--namespace=${SYSTEM_NAMESPACE}`,
    ]);
    process.stdout.write(`${stdout}${stderr}${log}`.replace(/^(?=.)/gm, '      '));
    assert.match(log, /worker-2: /);
    assert.doesNotMatch(log, /(cp-1|worker-1): /);
    await untilReadyNodesAreClear();
    await cluster.get('daemonset', 'nodewall-agent', `--namespace=${SYSTEM_NAMESPACE}`);
    await away.powerOn();
    await untilNodesReady(cluster);
  });

  async function untilReadyNodesAreClear(): Promise<void> {
    for (const node of cluster.nodes)
      if (node.name !== 'worker-2') assert.equal(await tableOf(node), '', node.name);
  }

  it('is removed when the node is back: no node has rules, and policies and gate stay', async () => {
    await untilReady(cluster);
    const { code, stdout, stderr } = await release.uninstall('--timeout=10m');
    assert.equal(code, 0, `${stdout}${stderr}`);
    await untilTables(cluster, 'no rules are left', (table) => table === '');
    const pods = ['pods', `--namespace=${SYSTEM_NAMESPACE}`, '--output=name'];
    await until('no pod is left', async () => (await cluster.kubectlOutput(['get', ...pods])) === '', {
      limit: LIMIT,
    });
    await cluster.get('ncnp', 'closed-port');
    const { data } = await cluster.get<WithData>(
      'configmap',
      'nodewall-config',
      `--namespace=${SYSTEM_NAMESPACE}`,
    );
    assert.equal(data['switch-off'], 'now');
  });

  it('is followed by kustomize, and nodewall uninstall removes all of that', async () => {
    await cluster.kubectlOutput(['delete', 'namespace', SYSTEM_NAMESPACE, '--timeout=120s']);
    await install(cluster);
    await untilClosed(cluster);
    const [controlPlane] = cluster.nodes;
    assert.ok(controlPlane !== undefined);
    const command = [NODEWALL, 'uninstall', '--kubeconfig', cluster.kubeconfig, '--crds'];
    const { code, stdout, stderr } = await run(controlPlane.namespace.command(command));
    process.stdout.write(`${stderr}${stdout}`.replace(/^(?=.)/gm, '      '));
    assert.equal(code, 0, stderr);
    await untilTables(cluster, 'no rules are left', (table) => table === '');
    const left = [
      'crd,clusterrole,clusterrolebinding,apiservice',
      '--selector=app.kubernetes.io/part-of=nodewall',
    ];
    assert.equal(await cluster.kubectlOutput(['get', ...left, '--output=name']), '');
    await until(
      'the namespace is gone',
      async () =>
        (await cluster.kubectlOutput(['get', 'namespace', SYSTEM_NAMESPACE, '--ignore-not-found'])) === '',
      { limit: LIMIT },
    );
  });

  it('is removed without the aggregated API too, where the hook asks the controllers', async () => {
    await release.install('aggregatedAPI=false');
    await untilReady(cluster);
    await untilClosed(cluster);
    const { code, stdout, stderr } = await release.uninstall('--timeout=10m');
    assert.equal(code, 0, `${stdout}${stderr}`);
    await untilTables(cluster, 'no rules are left', (table) => table === '');
  });
});
