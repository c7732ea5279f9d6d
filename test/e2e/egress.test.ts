import assert from 'node:assert/strict';
import { once } from 'node:events';
import { request as httpsRequest } from 'node:https';
import { createInterface } from 'node:readline';
import { text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { NODE_VIEWS_PATH, type StreamMessage } from '../../apis/stream.ts';
import type {
  WrittenGatewayStatus,
  WrittenPolicyStatus,
} from '../../controller/egress/status/egress-status.ts';
import { nodewall } from '../cli/command.ts';
import { startCluster, type TestCluster } from '../cluster/cluster.ts';
import { freePorts } from '../cluster/daemon.ts';
import { nodeReport } from '../fake/node-state.ts';
import { until } from '../kernel/until.ts';
import { ControllerProcess } from './controller-process.ts';
import { Heartbeats } from './heartbeats.ts';
import { agentToken, controllerCa, controllerKubeconfig, install } from './installed.ts';

const NODES = { n1: '192.0.2.1', gw1: '192.0.2.11', gw2: '192.0.2.12' } as const;
type NodeName = keyof typeof NODES;
const SERVICE = 'nodewall-controller.nodewall-system.svc';
const GATEWAY = `
apiVersion: nodewall.io/v1alpha1
kind: EgressGateway
metadata: {name: partners}
spec: {nodeSelector: {matchLabels: {gateway: "true"}}, source: Node, allowedNamespaces: {}}
`;
const POOL = `
apiVersion: nodewall.io/v1alpha1
kind: EgressGateway
metadata: {name: pool}
spec:
  nodeSelector: {matchLabels: {gateway: "true"}}
  addresses: {pools: [{ranges: [203.0.113.0/28]}]}
  allowedNamespaces: {}
`;
const POLICY = (name: string, gateway: string) => `
apiVersion: nodewall.io/v1alpha1
kind: EgressPolicy
metadata: {name: ${name}, namespace: shop}
spec: {appliedTo: [{podSelector: {matchLabels: {app: ${name}}}}], gateway: ${gateway}}
`;
describe('egress gateways in the control plane, on a real API server', function () {
  this.timeout(120_000);
  let cluster: TestCluster;
  let kubeconfig: string;
  let ca: string;
  let ports: readonly number[];
  const tokens = new Map<string, string>();
  const running: ControllerProcess[] = [];

  before(async function () {
    this.timeout(1_800_000);
    cluster = await startCluster();
    ports = await freePorts(2);
    await install(cluster);
    for (const [name, address] of Object.entries(NODES)) {
      const labels = `{gateway: "${name.startsWith('gw')}"}`;
      await cluster.apply(`{apiVersion: v1, kind: Node, metadata: {name: ${name}, labels: ${labels}}}`);
      await cluster.patchStatus([`node/${name}`], {
        addresses: [{ type: 'InternalIP', address }],
        conditions: [{ type: 'Ready', status: 'True' }],
      });
      tokens.set(name, await agentToken(cluster, name));
    }
    await cluster.apply('{apiVersion: v1, kind: Namespace, metadata: {name: shop}}');
    kubeconfig = await controllerKubeconfig(cluster);
    await pod('web-1', 'web', '10.1.0.1');
  });

  after(async () => {
    for (const one of running) await one.stop('SIGKILL');
    await cluster?.close();
  });

  async function pod(name: string, app: string, address: string): Promise<void> {
    await cluster.apply(`
apiVersion: v1
kind: Pod
metadata: {name: ${name}, namespace: shop, labels: {app: ${app}}}
spec: {nodeName: n1, containers: [{name: c, image: none}]}
`);
    await cluster.patchStatus([`pod/${name}`, '--namespace=shop'], {
      phase: 'Running',
      podIP: address,
      podIPs: [{ ip: address }],
    });
  }

  async function start(at: 0 | 1, gate: 'on' | 'off' = 'on'): Promise<ControllerProcess> {
    const [port = 0, peer = 0] = at === 0 ? ports : ports.toReversed();
    const gates = `--feature-gates=NodeNetworkPolicy=true,EgressGateway=${gate === 'on'}`;
    const options = { kubeconfig, port, peers: [peer], options: [gates] };
    const controller = await ControllerProcess.start(options);
    running.push(controller);
    await controller.untilReady();
    ca = await controllerCa(cluster);
    return controller;
  }

  async function ask(
    { port }: ControllerProcess,
    node: NodeName,
    path: string,
    method = 'GET',
    body?: object,
  ) {
    const request = httpsRequest({
      host: '127.0.0.1',
      port,
      path: `${NODE_VIEWS_PATH}${path}`,
      method,
      ca,
      servername: SERVICE,
      agent: false,
      headers: { authorization: `Bearer ${tokens.get(node)}`, 'content-type': 'application/json' },
    });
    request.end(body === undefined ? undefined : JSON.stringify(body));
    const [response] = await once(request, 'response');
    return response;
  }

  /** The part `egress` of a node's view. */
  async function view(controller: ControllerProcess, node: NodeName) {
    const answer = JSON.parse(await text(await ask(controller, node, `/${node}`)));
    return answer.view?.egress ?? null;
  }

  async function report(controller: ControllerProcess, node: NodeName): Promise<void> {
    const { metadata } = JSON.parse(await text(await ask(controller, node, `/${node}`)));
    const said = nodeReport(node, metadata.resourceVersion, {
      policies: 0,
      features: ['established', 'egress'],
      time: new Date().toISOString(),
    });
    const response = await ask(controller, node, `/${node}/status`, 'PUT', said);
    assert.equal(response.statusCode, 204, await text(response));
  }

  /** The messages of a watch, as they come. */
  async function watch(controller: ControllerProcess, query: string) {
    const selector = `?watch=true&fieldSelector=metadata.name%3Dn1${query}`;
    const response = await ask(controller, 'n1', selector);
    assert.equal(response.statusCode, 200);
    const messages: StreamMessage[] = [];
    createInterface({ input: response }).on('line', (line) => void messages.push(JSON.parse(line)));
    await until('the whole view', async () => messages.at(-1)?.type === 'bookmark');
    return { messages, close: () => void response.destroy() };
  }

  const gateway = async (name: string) =>
    (await cluster.get<{ status?: WrittenGatewayStatus }>('egressgateways.nodewall.io', name)).status;
  const policy = async (name: string) =>
    (
      await cluster.get<{ status?: WrittenPolicyStatus }>(
        'egresspolicies.nodewall.io',
        name,
        '--namespace=shop',
      )
    ).status;
  const conditions = (status: WrittenGatewayStatus | WrittenPolicyStatus | undefined): string =>
    (status?.conditions ?? []).map(({ type, status: is, reason }) => `${type}=${is}/${reason}`).join(' ');

  it('gives a policy its gateway, writes the statuses, and sends each node its part', async () => {
    const one = await start(0);
    await one.untilLeading(40_000);
    for (const manifest of [GATEWAY, POLICY('web', 'partners')]) await cluster.apply(manifest);
    for (const node of ['gw1', 'gw2', 'n1'] as const) await report(one, node);
    await until('the gateway has an owner', async () => (await gateway('partners'))?.slots.length === 1);
    const status = await gateway('partners');
    assert.deepEqual(
      status?.nodes.map(({ name, ready }) => [name, ready]),
      [
        ['gw1', true],
        ['gw2', true],
      ],
    );
    assert.equal(conditions(status), 'Accepted=True/Valid Ready=True/NodesReady');
    const owner = (status?.slots[0]?.node ?? '') as 'gw1' | 'gw2';
    await until('the policy has its status', async () => (await policy('web'))?.owners[0] === owner);
    const found = await policy('web');
    assert.deepEqual([found?.addresses, found?.pods, found?.desiredNodesRealized], [[NODES[owner]], 1, 1]);
    await report(one, 'n1');
    await until(
      'the policy is realized',
      async () =>
        conditions(await policy('web')) ===
        'Accepted=True/Valid AddressAllocated=True/Allocated Realized=True/Realized Ready=True/Realized',
    );
    const source = await view(one, 'n1');
    assert.deepEqual(Object.keys(source.sources), ['10.1.0.1']);
    assert.ok(JSON.stringify(source.slots).includes(owner));
    assert.deepEqual(Object.keys(source.arrivals), []);
    const taken = await view(one, owner);
    assert.deepEqual([Object.keys(taken.sources), Object.keys(taken.arrivals)], [[], ['10.1.0.1']]);
    assert.ok(source.inside.includes('192.0.2.11'));
  });

  it('sends a pod that starts as one entry, and only to whom it concerns', async () => {
    const [one] = running;
    assert.ok(one);
    const stream = await watch(one, '&features=egress');
    const older = await watch(one, '');
    const before = stream.messages.length;
    await pod('web-2', 'web', '10.1.0.2');
    const entries = (): unknown[] =>
      stream.messages
        .slice(before)
        .flatMap((message) =>
          message.type === 'egressPatch' && message.part === 'sources' ? [message] : [],
        );
    await until('the entry', async () => entries().length > 0);
    assert.equal(entries().length, 1, JSON.stringify(entries()));
    assert.match(JSON.stringify(entries()), /"part":"sources","set":\{"10\.1\.0\.2":"[0-9a-f]+"\}/);
    assert.ok(!JSON.stringify(older.messages).includes('egress'));
    stream.close();
    older.close();
  });

  it('deals out floating addresses, which another leader keeps', async () => {
    const [one] = running;
    assert.ok(one);
    for (const manifest of [POOL, POLICY('app', 'pool')]) await cluster.apply(manifest);
    await until('the policy has an address', async () => (await policy('app'))?.addresses.length === 1);
    await until('the gateway has it too', async () => {
      const slots = (await gateway('pool'))?.slots ?? [];
      return slots.some(({ addresses }) => addresses.length === 1);
    });
    const statuses = async () => {
      const found = [
        await gateway('pool'),
        await gateway('partners'),
        await policy('app'),
        await policy('web'),
      ];
      return JSON.stringify(found);
    };
    await report(one, 'n1');
    await until('the statuses are of all pods and addresses', async () => {
      const found = await statuses();
      return found.includes('"total":"14","used":1') && found.includes('"pods":2');
    });
    const before = await statuses();
    const two = await start(1);
    await one.stop('SIGTERM');
    await two.untilLeading(40_000);
    // Long enough for a write of each, also before it has heard of the agents.
    await cluster.apply(POLICY('late', 'pool'));
    await until('it writes statuses', async () => (await policy('late'))?.addresses.length === 1);
    assert.equal(await statuses(), before);
    for (const node of ['gw1', 'gw2', 'n1'] as const) await report(two, node);
    await cluster.apply(POLICY('later', 'pool'));
    await until('it writes statuses', async () => (await policy('later'))?.addresses.length === 1);
    assert.equal(await statuses(), before);
    const source = await view(two, 'n1');
    assert.deepEqual(Object.keys(source.sources), ['10.1.0.1', '10.1.0.2']);
  });

  it('moves a gateway of source Node away from a cordoned node', async () => {
    const two = running.at(-1);
    assert.ok(two);
    const owner = (await gateway('partners'))?.slots[0]?.node ?? '';
    await cluster.kubectl(['cordon', owner]);
    await until('another node has it', async () => (await gateway('partners'))?.slots[0]?.node !== owner);
    const status = await gateway('partners');
    assert.equal(status?.slots[0]?.epoch, 2);
    assert.equal(status?.nodes.find(({ name }) => name === owner)?.reason, 'Cordoned');
    await until(
      'its view says so',
      async () => !JSON.stringify((await view(two, 'n1')).slots).includes(owner),
    );
    await cluster.kubectl(['uncordon', owner]);
    await until(
      'it is ready again',
      async () => (await gateway('partners'))?.nodes.every(({ ready }) => ready) === true,
    );
    assert.notEqual((await gateway('partners'))?.slots[0]?.node, owner);
  });

  it('nodewall egress drain moves what a node serves, and waits for it', async () => {
    const leader = running.at(-1);
    assert.ok(leader);
    // As an agent's name all its gateways: where one is not named, what was known of it last stays,
    // AgentSilent after a pause of this process for example.
    const gateways = (['gw1', 'gw2'] as const).map(
      (node) =>
        new Heartbeats({
          node,
          gateway: 'pool',
          others: ['partners'],
          post: (request) => ask(leader, node, `/${node}/lease`, 'POST', request),
        }),
    );
    for (const one of gateways) one.start(100);
    const isReady = async (name: string) => (await gateway(name))?.nodes.every(({ ready }) => ready) === true;
    await until('both are ready', () => isReady('pool'));
    const owner = (await gateway('partners'))?.slots[0]?.node ?? '';
    const egress = (...args: readonly string[]) =>
      nodewall('egress', ...args, '--kubeconfig', cluster.kubeconfig, '-o', 'json');
    const { status, stdout, stderr } = await egress('drain', owner, '--timeout', '60');
    assert.equal(status, 0, stderr);
    const { slots, left } = JSON.parse(stdout);
    assert.ok(slots.includes('partners/0'), stdout);
    assert.deepEqual(left, []);
    const shown = JSON.parse((await egress('status')).stdout);
    const { nodes, slots: moved } = shown.gateways.find(({ name }: { name: string }) => name === 'partners');
    assert.notEqual(moved[0].node, owner);
    const { ready, reason } = nodes.find(({ name }: { name: string }) => name === owner);
    assert.deepEqual([ready, reason], [false, 'Draining']);
    assert.equal((await egress('drain', owner, '--undo')).status, 0);
    await until('it is ready again', () => isReady('pool'));
    for (const one of gateways) await one.stop();
  });

  it('leases floating addresses to their owner, through any controller, and moves them when the lease ends', async () => {
    const leader = running.at(-1);
    assert.ok(leader);
    const follower = await start(0);
    const reached = { gw1: follower, gw2: leader };
    const of = (node: 'gw1' | 'gw2') =>
      new Heartbeats({
        node,
        gateway: 'pool',
        post: (request) => ask(reached[node], node, `/${node}/lease`, 'POST', request),
      });
    const gateways = { gw1: of('gw1'), gw2: of('gw2') };
    for (const one of Object.values(gateways)) one.start(100);
    const [address = ''] = (await policy('app'))?.addresses ?? [];
    const owners = () =>
      Object.entries(gateways).flatMap(([node, one]) => (one.left(address) > 0 ? [node] : []));
    await until('a node has the address', async () => owners().length === 1);
    const [owner = ''] = owners() as ('gw1' | 'gw2')[];
    const [lost, next] = owner === 'gw1' ? [gateways.gw1, gateways.gw2] : [gateways.gw2, gateways.gw1];
    const begun = performance.now();
    await lost.stop();
    await next.stop();
    next.start(25);
    while (next.left(address) === 0 && performance.now() < begun + 60_000) {
      assert.ok(owners().length <= 1, 'two nodes have it');
      await sleep(5);
    }
    assert.equal(owners().join(), owner === 'gw1' ? 'gw2' : 'gw1', leader.log.join('\n'));
    const metrics = await leader.metrics();
    assert.match(metrics, /^nodewall_controller_egress_slot_moves_total\{reason="AgentSilent"\} [1-9]/m);
    assert.match(metrics, /^nodewall_controller_egress_leased_slots 1$/m);
    assert.ok(leader.log.some((line) => line.includes('floating addresses move to another node')));
    // A leader that stops hands over before the lease ends, which is longer here than another one
    // needs to start leading on a busy machine.
    const lease = 10_000;
    await cluster.apply(
      POOL.replace('allowedNamespaces', 'failover: {leaseSeconds: 10}\n  allowedNamespaces'),
    );
    await until('the lease is longer', async () => next.left(address) > lease / 2);
    reached.gw1 = follower;
    reached.gw2 = follower;
    await until('a node has the address through the follower', async () => next.left(address) > lease - 500);
    let isLost = false;
    const look = setInterval(() => {
      isLost ||= next.left(address) === 0;
    }, 5);
    await leader.stop('SIGTERM');
    await follower.untilLeading(40_000);
    const before = next.left(address);
    await until('the new leader extends the lease', async () => isLost || next.left(address) > before);
    clearInterval(look);
    assert.ok(!isLost, [...leader.log, ...follower.log].join('\n'));
    await next.stop();
  });

  it('with the gate off, no node has any of it', async () => {
    await Promise.all(running.map((one) => one.stop('SIGKILL')));
    const off = await start(0, 'off');
    assert.equal(await view(off, 'n1'), null);
    assert.ok(!(await off.metrics()).includes('egress'));
  });
});
