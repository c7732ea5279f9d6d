import assert from 'node:assert/strict';
import { once } from 'node:events';
import { startBox } from '../../build/cluster/box.ts';
import { type RealCluster, untilNodesReady } from '../../build/cluster/cluster.ts';
import { CNI_PLUGINS } from '../../build/cluster/configuration.ts';
import { CONTROLLERS, describeCluster, SYSTEM_NAMESPACE, untilReady } from '../../build/cluster/install.ts';
import { NODES } from '../../build/cluster/network.ts';
import { isCovered, parseAddress, parseCidr } from '../../lib/net/address.ts';
import { buildHelm } from '../cluster/build.ts';
import { until } from '../kernel/until.ts';
import { probeProgram } from '../probe/probe.ts';
import { HelmRelease } from './helm-release.ts';
import { pods, tableOf } from './nodewall.ts';

/** Milliseconds. */
const LIMIT = 180_000;
/** Milliseconds: less than a cluster takes to know that a node is lost. */
const FOLLOW_LIMIT = 30_000;
const PORT = 8000;
const CONTROL_PLANE = 'cp-1';
const WORKERS = ['worker-1', 'worker-2'] as const;
/** Pods that are started in each of the tests. */
const PODS = 8;

const POLICY = `
apiVersion: nodewall.io/v1alpha1
kind: EgressGateway
metadata: {name: internet}
spec:
  nodeSelector: {matchLabels: {egress: internet}}
  choice: Spread
  allowedNamespaces: {}
---
apiVersion: nodewall.io/v1alpha1
kind: EgressPolicy
metadata: {name: pay, namespace: default}
spec:
  appliedTo: [{podSelector: {matchLabels: {app: pay}}}]
  gateway: internet
`;

/** The sources of new connections to the server. */
const SEEN = `
table inet seen {
  set v4 { type ipv4_addr; flags dynamic; size 4096; }
  set v6 { type ipv6_addr; flags dynamic; size 4096; }
  chain input {
    type filter hook input priority -10;
    tcp dport ${PORT} ct state new meta nfproto ipv4 update @v4 { ip saddr }
    tcp dport ${PORT} ct state new meta nfproto ipv6 update @v6 { ip6 saddr }
  }
}
`;

interface GatewayStatus {
  readonly nodes?: readonly { readonly name: string; readonly ready: boolean }[];
}

interface Crr {
  readonly transactions: number;
  readonly failed: number;
}

/** Pods leave a real cluster by two gateways, from their first packet on. */
describe('egress gateways on a real cluster', function () {
  this.timeout(600_000);
  let cluster: RealCluster;
  /** A worker with a controller; it is lost in one of the tests. */
  let second: string;
  /** The other one, on which the pods run. */
  let home: string;
  let count = 0;
  /** The nodes by which pods of `app: pay` leave. */
  const gateways = (): readonly string[] => [CONTROL_PLANE, second];

  before(async function () {
    this.timeout(3_600_000);
    const helm = await buildHelm();
    cluster = await startBox();
    const { outside } = cluster;
    await outside.namespace.run(['nft', '-f', '-'], { stdin: SEEN });
    const server = outside.namespace.spawn([await probeProgram(), 'serve', '--port', String(PORT)]);
    await once(server.stdout, 'data');
    const release = new HelmRelease(cluster, helm);
    await release.install(
      'egress.enabled=true',
      'egress.pods=true',
      `agentConfig.egress.cniPlugins=${CNI_PLUGINS}`,
    );
    await untilReady(cluster);
    const controllers = (await pods(cluster, CONTROLLERS)).map(({ spec }) => spec.nodeName);
    second = WORKERS.find((name) => controllers.includes(name)) ?? assert.fail(controllers.join());
    home = WORKERS.find((name) => name !== second) ?? assert.fail();
    await cluster.kubectlOutput(['label', 'node', ...gateways(), 'egress=internet']);
    await cluster.apply(POLICY);
    await setGates(true);
    for (const name of gateways()) await untilGateway(name, true);
  });
  after(() => cluster?.close());
  afterEach(async function () {
    if (this.currentTest?.state === 'failed') process.stderr.write(`${await describeCluster(cluster)}\n`);
  });

  async function setGates(egress: boolean): Promise<void> {
    const data = { 'config.yaml': `featureGates: {NodeNetworkPolicy: true, EgressGateway: ${egress}}` };
    const metadata = { name: 'nodewall-config', namespace: SYSTEM_NAMESPACE };
    await cluster.apply(JSON.stringify({ apiVersion: 'v1', kind: 'ConfigMap', metadata, data }));
  }

  async function untilGateway(node: string, ready: boolean): Promise<void> {
    const isSo = async () => {
      const { status } = await cluster.get<{ status?: GatewayStatus }>('negw', 'internet');
      return status?.nodes?.some((one) => one.name === node && one.ready === ready) === true;
    };
    await until(`${node} is ${ready ? '' : 'not '}ready`, isSo, { limit: LIMIT });
  }

  /** Each agent that runs has the gateways of this moment. */
  async function untilAllFollow(): Promise<void> {
    const name = `marker-${count++}`;
    const rule = { name: 'none', action: 'Allow', from: [{ ipBlock: { cidr: '198.51.100.1/32' } }] };
    const spec = { priority: 9000, appliedTo: [{ nodeSelector: {} }], ingress: [rule] };
    const kind = { apiVersion: 'nodewall.io/v1alpha1', kind: 'ClusterNetworkPolicy' };
    await cluster.apply(JSON.stringify({ ...kind, metadata: { name }, spec }));
    const nodes = [CONTROL_PLANE, home].map((one) => cluster.node(one));
    const follow = async () => (await Promise.all(nodes.map(tableOf))).every((table) => table.includes(name));
    await until('the agents follow a controller', follow, { limit: FOLLOW_LIMIT });
  }

  /** All agents follow the controller on `second`: the other one starts anew, and has none yet. */
  async function allFollowSecond(): Promise<void> {
    const others = (await pods(cluster, CONTROLLERS)).filter(({ spec }) => spec.nodeName !== second);
    const names = others.map(({ metadata }) => metadata.name);
    await cluster.kubectlOutput(['delete', 'pods', `--namespace=${SYSTEM_NAMESPACE}`, ...names]);
    await untilReady(cluster);
  }

  /** A pod of `app: pay` that does nothing: its node watches the gateways. */
  async function startIdle(name: string): Promise<void> {
    const metadata = { name, namespace: 'default', labels: { app: 'pay' } };
    const container = { name: 'idle', image: 'docker.io/library/probe:test', args: ['serve', '--port', '1'] };
    const spec = { nodeName: home, terminationGracePeriodSeconds: 1, containers: [container] };
    await cluster.apply(JSON.stringify({ apiVersion: 'v1', kind: 'Pod', metadata, spec }));
    await cluster.kubectlOutput(['wait', '--for=condition=Ready', `pod/${name}`, `--timeout=${LIMIT}ms`]);
  }

  /** Connections, one after another, by both families, for the pod's first three seconds. */
  function pod(name: string, labels: object): object {
    const { v4, v6 } = cluster.outside;
    const container = (family: string, address: string) => ({
      name: family,
      image: 'docker.io/library/probe:test',
      args: ['crr', '--dst', address, '--port', String(PORT), '--seconds', '3'],
    });
    return {
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { name, namespace: 'default', labels },
      spec: {
        nodeName: home,
        restartPolicy: 'Never',
        terminationGracePeriodSeconds: 1,
        containers: [container('v4', v4), container('v6', v6)],
      },
    };
  }

  /** Starts pods and waits until they are done; what the server saw and what they could do. */
  async function run(labels: object): Promise<{ seen: string[]; done: readonly Crr[] }> {
    for (const set of ['v4', 'v6'])
      await cluster.outside.namespace.run(['nft', 'flush', 'set', 'inet', 'seen', set]);
    const names = Array.from({ length: PODS }, () => `client-${count++}`);
    for (const name of names) await cluster.apply(JSON.stringify(pod(name, labels)));
    const phases = async (): Promise<string> =>
      await cluster.kubectlOutput(['get', 'pods', ...names, '--output=jsonpath={.items[*].status.phase}']);
    const isDone = async () => (await phases()).split(' ').every((phase) => phase === 'Succeeded');
    await until('all pods are done', isDone, { limit: LIMIT });
    const logs = names.flatMap((name) =>
      ['v4', 'v6'].map((family) => ['logs', name, `--container=${family}`]),
    );
    const done = await Promise.all(
      logs.map(async (args) => JSON.parse(await cluster.kubectlOutput(args)) as Crr),
    );
    await cluster.kubectlOutput(['delete', 'pods', ...names]);
    return { seen: await seen(), done };
  }

  async function seen(): Promise<string[]> {
    const { stdout } = await cluster.outside.namespace.run([
      'nft',
      '--json',
      'list',
      'table',
      'inet',
      'seen',
    ]);
    const { nftables } = JSON.parse(stdout) as { nftables: { set?: { elem?: string[] } }[] };
    return nftables.flatMap(({ set }) => set?.elem ?? []).sort();
  }

  const addressesOf = (names: readonly string[]): string[] =>
    names.flatMap((name) => [cluster.node(name).v4, cluster.node(name).v6]).sort();

  function isOfPod(source: string): boolean {
    const { podCidrs } = NODES.find(({ name }) => name === home) ?? assert.fail();
    const blocks = podCidrs.flatMap((text) => parseCidr(text)?.cidr ?? []);
    return isCovered(blocks, parseAddress(source) ?? assert.fail(source));
  }

  function areServed(done: readonly Crr[]): void {
    for (const [i, { transactions }] of done.entries())
      assert.ok(transactions > 0, `${i}: ${JSON.stringify(done)}`);
    const sum = (of: keyof Crr) => done.reduce((all, one) => all + one[of], 0);
    process.stdout.write(`      ${sum('transactions')} connections, ${sum('failed')} failed\n`);
  }

  it('has pods without a policy leave by themselves', async () => {
    const { seen: sources, done } = await run({ app: 'other' });
    areServed(done);
    for (const source of sources) assert.ok(isOfPod(source), source);
  });

  it('has pods leave by both gateways alone, by the addresses that CNI has left', async () => {
    const { seen: sources, done } = await run({ app: 'pay' });
    areServed(done);
    assert.deepEqual(sources, addressesOf(gateways()));
  });

  it('has them leave by the other gateway while one is off', async () => {
    await startIdle('idle');
    await allFollowSecond();
    await cluster.node(second).powerOff();
    const off = performance.now();
    await untilGateway(second, false);
    // The cluster goes on sending connections there for 40 s; the agents find another controller.
    await untilAllFollow();
    const seconds = (performance.now() - off) / 1000;
    process.stdout.write(`      the other agents follow a controller ${seconds.toFixed(1)} s later\n`);
    const { seen: sources, done } = await run({ app: 'pay' });
    areServed(done);
    assert.deepEqual(sources, addressesOf([CONTROL_PLANE]));
    await cluster.kubectlOutput(['delete', 'pod', 'idle']);
    await cluster.node(second).powerOn();
    await untilNodesReady(cluster);
    await untilReady(cluster);
    await untilGateway(second, true);
  });

  it('has pods leave by both gateways alone, and no packet wait, with the CNI plugin', async () => {
    await cluster.node(home).setPodInterfaces({ traffic: 'routed', plugins: [{ type: 'nodewall-egress' }] });
    // containerd reads the folder of configurations by itself.
    const { seen: sources, done } = await run({ app: 'pay' });
    areServed(done);
    assert.deepEqual(sources, addressesOf(gateways()));
    for (const { failed } of done) assert.equal(failed, 0, JSON.stringify(done));
  });

  it('has the next pods leave by themselves, with the plugin too, when the gate is off', async () => {
    await setGates(false);
    await until(
      'no chain of it is left',
      async () => {
        const { stdout } = await cluster.node(home).namespace.run(['nft', 'list', 'tables']);
        const links = await cluster
          .node(home)
          .namespace.run(['ip', '-brief', 'link', 'show', 'type', 'vxlan']);
        return !/egress/.test(stdout) && links.stdout === '';
      },
      { limit: LIMIT },
    );
    const { seen: sources, done } = await run({ app: 'pay' });
    areServed(done);
    for (const source of sources) assert.ok(isOfPod(source), source);
  });
});
