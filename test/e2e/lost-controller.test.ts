/** Controllers on machines of their own, which are lost, and their Service does not know. */

import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { CONTROLLER_PORT } from '../../apis/control-plane.ts';
import { type Authority, createAuthority } from '../cluster/certificates.ts';
import { kubeconfig } from '../cluster/cluster-files.ts';
import { type ClusterOfNodes, type Machine, startClusterOfNodes } from '../cluster/cluster-of-nodes.ts';
import { type RunningAgent, toRunningAgent } from '../kernel/enforced-node.ts';
import { kernelSuite } from '../kernel/kernel-suite.ts';
import { policy, tcp } from '../kernel/manifests.ts';
import { until } from '../kernel/until.ts';
import { NODEWALL } from '../program.ts';
import { agentToken, install } from './installed.ts';

/** Milliseconds. */
const LIMIT = 45_000;
const NODE = 'worker-1';
const NAMESPACE = 'nodewall-system';
const ACCOUNT = 'nodewall-controller';
const NAME = `${ACCOUNT}.${NAMESPACE}.svc`;
const GATE = `
apiVersion: v1
kind: ConfigMap
metadata: {name: nodewall-config, namespace: ${NAMESPACE}}
data: {config.yaml: "featureGates: {NodeNetworkPolicy: true}"}
`;
/** Nothing comes in or goes out: the machine has no power. */
const LOST = `
table inet lost {
  chain input { type filter hook input priority -300; policy drop; }
  chain output { type filter hook output priority -300; policy drop; }
}
`;

kernelSuite('an agent whose controller is lost with its machine', function () {
  this.timeout(120_000);
  let bed: ClusterOfNodes;
  let authority: Authority;
  const running: RunningAgent[] = [];
  let agent: RunningAgent;

  const file = (name: string): string => join(bed.cluster.folder, name);
  const logs = (): string => running.map((one) => one.log().slice(-3000)).join('\n---\n');

  async function write(name: string, text: string): Promise<string> {
    await writeFile(file(name), text, { mode: 0o600 });
    return file(name);
  }

  async function startController({ name, namespace, v4, v6 }: Machine): Promise<void> {
    const { cluster, address } = bed;
    const metadata = { name, namespace: NAMESPACE };
    const spec = { serviceAccountName: ACCOUNT, containers: [{ name: 'c', image: 'i' }] };
    await cluster.apply(JSON.stringify({ apiVersion: 'v1', kind: 'Pod', metadata, spec }));
    const podIPs = [v4, v6].map((ip) => ({ ip }));
    const status = { phase: 'Running', podIP: v4, podIPs };
    await cluster.patchStatus([`pod/${name}`, `--namespace=${NAMESPACE}`], status);
    const server = `https://${address}:${new URL(cluster.server).port}`;
    const token = await cluster.token(`${NAMESPACE}/${ACCOUNT}`);
    const names = [NAME, address];
    const { certificate, key } = await authority.issue({ commonName: 'nodewall', names, usage: 'server' });
    const args = [
      ...['--kubeconfig', await write(`${name}.kubeconfig`, kubeconfig({ server, ca: cluster.ca, token }))],
      ...['--tls-cert-file', await write(`${name}.crt`, certificate)],
      ...['--tls-key-file', await write(`${name}.key`, key)],
      ...['--tls-ca-file', await write('ca.crt', authority.certificate)],
      ...['--pod-name', name, '--log-format', 'json'],
    ];
    running.push(toRunningAgent(namespace.spawn([NODEWALL, 'controller', ...args])));
  }

  /** As kube-proxy does, which learns of the loss later than the test lasts. */
  async function sendServiceTo({ v4 }: Machine): Promise<void> {
    const rule = `ip daddr ${bed.address} tcp dport 443 dnat ip to ${v4}:${CONTROLLER_PORT}`;
    const chain = `chain prerouting { type nat hook prerouting priority dstnat; ${rule}; }`;
    await bed.controlPlane.run(['nft', '-f', '-'], { stdin: `table inet service { ${chain}\n }` });
  }

  async function startAgent(): Promise<void> {
    const token = await agentToken(bed.cluster, NODE);
    const apiToken = await bed.cluster.token(`${NAMESPACE}/nodewall-agent`, { boundNode: NODE });
    const server = `https://${bed.address}:${new URL(bed.cluster.server).port}`;
    const config = "{guard: {enabled: false}, interfaceGroupFile: ''}";
    const args = [
      ...['agent', '--controller', `https://${bed.address}:443`, '--node', NODE],
      ...['--token-file', await write('token', token), '--ca-file', file('ca.crt')],
      ...['--state-dir', file('state'), '--config', await write('agent.yaml', config)],
      ...['--api-server', server, '--api-ca-file', await write('api-ca.crt', bed.cluster.ca)],
      ...['--api-token-file', await write('api-token', apiToken), '--log-format', 'json'],
    ];
    agent = toRunningAgent(bed.machine(NODE).namespace.spawn([NODEWALL, ...args]));
    running.push(agent);
  }

  /** How much of the agent's log was there before the last loss. */
  let mark = 0;

  /** Cuts a machine off. */
  async function lose({ namespace }: Machine): Promise<void> {
    mark = agent.log().length;
    await namespace.run(['nft', '-f', '-'], { stdin: LOST });
  }

  /** The address of the controller that the agent has said since then that it follows. */
  async function followed(): Promise<string> {
    const line = (): string | undefined => {
      const lines = agent.log().slice(mark).split('\n');
      return lines.find((one) => /"(following the controller|the controller answers again)"/.test(one));
    };
    await until('it follows a controller', async () => line() !== undefined, { limit: LIMIT, detail: logs });
    return JSON.parse(line() ?? '').address;
  }

  async function enforces(name: string): Promise<void> {
    const rule = { name: 'close', action: 'Drop', ports: [tcp(4000)] };
    const spec = { priority: 5, appliedTo: [{ nodeSelector: {} }], ingress: [rule] };
    await bed.cluster.apply(JSON.stringify({ ...policy(name, {}), spec }));
    const argv = ['nft', 'list', 'table', 'inet', 'nodewall'];
    const isThere = async () =>
      (await bed.machine(NODE).namespace.run(argv, { anyStatus: true })).stdout.includes(name);
    await until(`policy ${name} is enforced`, isThere, { limit: LIMIT, detail: logs });
  }

  before(async function () {
    this.timeout(1_800_000);
    bed = await startClusterOfNodes({ nodes: { [NODE]: {} }, others: 3 });
    authority = await createAuthority('controllers');
    const { cluster } = bed;
    await install(cluster);
    await cluster.apply(GATE);
    for (const machine of bed.others.slice(0, 2)) await startController(machine);
    const serve = async () => running.every((one) => one.log().includes('serving agents'));
    await until('the controllers serve', serve, { limit: LIMIT, detail: logs });
    const [first = assert.fail()] = bed.others;
    await sendServiceTo(first);
    await startAgent();
  });
  after(async () => {
    for (const one of running) await one.end('SIGKILL');
    await bed?.close();
  });

  it('follows the one that the Service gives it', async () => {
    // It may have begun before the controller had the reports of the other one.
    assert.equal(await followed(), `${bed.address}:443`);
    await enforces('before');
  });

  it('finds that it is silent, passes by the Service, and follows the other one', async () => {
    const [first = assert.fail(), second = assert.fail()] = bed.others;
    await lose(first);
    const address = await followed();
    const own = [`${second.v4}:${CONTROLLER_PORT}`, `[${second.v6}]:${CONTROLLER_PORT}`];
    assert.ok(own.includes(address), address);
    await enforces('after');
  });

  it('finds a new one that only the API server names, when all that it knew are lost', async () => {
    const [, second = assert.fail(), third = assert.fail()] = bed.others;
    await lose(second);
    await startController(third);
    const address = await followed();
    const own = [`${third.v4}:${CONTROLLER_PORT}`, `[${third.v6}]:${CONTROLLER_PORT}`];
    assert.ok(own.includes(address), address);
    await enforces('anew');
  });
});
