/**
 * A cluster as clouds run it, imitated: the API server is no Node, and reaches ports 443 and 10250
 * of the machines alone.
 */

import assert from 'node:assert/strict';
import { chmod, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type Authority, createAuthority } from '../cluster/certificates.ts';
import { kubeconfig } from '../cluster/cluster-files.ts';
import { type ClusterOfNodes, type Machine, startClusterOfNodes } from '../cluster/cluster-of-nodes.ts';
import { type RunningAgent, toRunningAgent } from '../kernel/enforced-node.ts';
import { kernelSuite } from '../kernel/kernel-suite.ts';
import { policy, tcp } from '../kernel/manifests.ts';
import { until } from '../kernel/until.ts';
import { NODEWALL } from '../program.ts';
import { ROOT } from '../structure/source-file.ts';
import { API_SERVICE, untilAggregated } from './controller-service.ts';
import { agentToken, install } from './installed.ts';

const LIMIT = 60_000;
const NODE = 'worker-1';
const NAMESPACE = 'nodewall-system';
const ACCOUNT = 'nodewall-controller';
const NAME = `${ACCOUNT}.${NAMESPACE}.svc`;
const PORT = 10250;
/** As GKE's firewall between control plane and nodes; neighbours find each other. */
const PROVIDER = `
table inet provider {
  chain output {
    type filter hook output priority 0; policy drop;
    oifname "lo" accept
    ct state established,related accept
    meta l4proto icmpv6 accept
    tcp dport { 443, ${PORT} } accept
  }
}
`;
const CONFIG = `{controllerPorts: {agents: ${PORT}, webhook: ${PORT}}, guard: {enabled: false}, interfaceGroupFile: ''}`;
const COMPONENTS = join(ROOT, 'deploy/kustomize/components');
const GATE = `
apiVersion: v1
kind: ConfigMap
metadata: {name: nodewall-config, namespace: ${NAMESPACE}}
data: {config.yaml: "featureGates: {NodeNetworkPolicy: true}"}
`;
const service = (address: string): string => `
apiVersion: v1
kind: Service
metadata: {name: ${ACCOUNT}, namespace: ${NAMESPACE}}
spec: {ports: [{name: https, port: 443}, {name: webhook, port: 9443}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: ${ACCOUNT}, namespace: ${NAMESPACE}, labels: {kubernetes.io/service-name: ${ACCOUNT}}}
addressType: IPv4
endpoints: [{addresses: [${address}], conditions: {ready: true}}]
ports: [{name: https, port: ${PORT}, protocol: TCP}, {name: webhook, port: ${PORT}, protocol: TCP}]
`;
/** No CustomResourceDefinition refuses it, and no node could enforce it. */
const WIDER = { cidr: '10.0.0.0/24', except: ['10.0.0.0/8'] };

kernelSuite('a cluster whose API server reaches ports 443 and 10250 alone', function () {
  this.timeout(180_000);
  let bed: ClusterOfNodes;
  let authority: Authority;
  let controller: RunningAgent;
  let agent: RunningAgent;
  let home: Machine;
  const logs = (): string => [controller, agent].map((one) => one?.log().slice(-3000)).join('\n---\n');
  const file = (name: string): string => join(bed.cluster.folder, name);

  async function write(name: string, text: string): Promise<string> {
    await writeFile(file(name), text, { mode: 0o600 });
    return file(name);
  }

  /** With the caBundle, as cert-manager writes it: the certificate is given. */
  async function trustedWebhooks(): Promise<string> {
    const text = await readFile(join(ROOT, 'deploy/kustomize/base/webhooks.yaml'), 'utf8');
    const caBundle = Buffer.from(authority.certificate).toString('base64');
    return text.replaceAll('    clientConfig:\n', `    clientConfig:\n      caBundle: ${caBundle}\n`);
  }

  async function startController(...more: readonly string[]): Promise<void> {
    const config = await write('config.yaml', CONFIG);
    const args = [
      ...['--kubeconfig', file('controller.kubeconfig'), '--config', config, '--log-format', 'json'],
      ...['--tls-cert-file', file('tls.crt'), '--tls-key-file', file('tls.key')],
      ...['--tls-ca-file', file('ca.crt'), '--pod-name', home.name],
      ...[`--listen=:${PORT}`, `--webhook-listen=:${PORT}`, ...more],
    ];
    controller = toRunningAgent(home.namespace.spawn([NODEWALL, 'controller', ...args]));
    const serves = async (): Promise<boolean> => controller.log().includes('serving agents');
    await until('the controller serves', serves, { limit: LIMIT, detail: logs });
  }

  async function startAgent(): Promise<void> {
    const { cluster, address } = bed;
    const args = [
      ...['agent', '--controller', `https://${home.v4}:${PORT}`, '--node', NODE],
      ...['--token-file', await write('token', await agentToken(cluster, NODE)), '--ca-file', file('ca.crt')],
      ...['--state-dir', file('state'), '--config', file('config.yaml'), '--log-format', 'json'],
      ...['--api-server', `https://${address}:${new URL(cluster.server).port}`],
      ...['--api-ca-file', await write('api-ca.crt', cluster.ca)],
    ];
    const apiToken = await cluster.token(`${NAMESPACE}/nodewall-agent`, { boundNode: NODE });
    args.push('--api-token-file', await write('api-token', apiToken));
    agent = toRunningAgent(bed.machine(NODE).namespace.spawn([NODEWALL, ...args]));
  }

  /** kubectl as workstations have it, with the way to the pod left out: `exec` runs it there. */
  async function writeKubectl(): Promise<void> {
    const options = `--kubeconfig ${file('controller.kubeconfig')} --controller https://${home.v4}:${PORT} --token-file ${file('relay-token')}`;
    const text = `#!/bin/sh\nwhile [ "$1" != nodewall ]; do shift; done\nshift\nexec ${NODEWALL} "$@" ${options}\n`;
    await chmod(await write('kubectl', text), 0o755);
  }

  /** A command of a workstation. */
  const nodewall = (...args: readonly string[]) =>
    home.namespace.run(
      [
        'env',
        `PATH=${bed.cluster.folder}:${process.env.PATH}`,
        NODEWALL,
        ...args,
        '--kubeconfig',
        file('admin'),
      ],
      { anyStatus: true },
    );

  const dropping = (name: string, rule: object) => ({
    ...policy(name, {}),
    spec: {
      priority: 5,
      appliedTo: [{ nodeSelector: {} }],
      ingress: [{ name: 'r', action: 'Drop', ...rule }],
    },
  });
  const apply = (object: object) =>
    bed.cluster.kubectl(['apply', '-f', '-'], { stdin: JSON.stringify(object) });
  /** What the API server would say; it stores nothing. */
  async function refusal(): Promise<string> {
    const stdin = JSON.stringify(dropping('wider', { from: [{ ipBlock: WIDER }] }));
    return (await bed.cluster.kubectl(['create', '--dry-run=server', '-f', '-'], { stdin })).stderr;
  }

  async function isEnforced(name: string, port: number): Promise<void> {
    const { code, stderr } = await apply(dropping(name, { ports: [tcp(port)] }));
    assert.equal(code, 0, stderr);
    const argv = ['nft', 'list', 'table', 'inet', 'nodewall'];
    const isThere = async () =>
      (await bed.machine(NODE).namespace.run(argv, { anyStatus: true })).stdout.includes(name);
    await until(`policy ${name} is enforced`, isThere, { limit: LIMIT, detail: logs });
    await phaseIs(name, 'Realized');
  }

  async function phaseIs(name: string, phase: string): Promise<void> {
    const isSo = async () =>
      (await bed.cluster.get<{ status?: { phase?: string } }>('ncnp', name)).status?.phase === phase;
    await until(`${name} is ${phase}`, isSo, { limit: LIMIT, detail: logs });
  }

  before(async function () {
    this.timeout(1_800_000);
    const apiServerFlags = ['--enable-aggregator-routing=true'];
    bed = await startClusterOfNodes({ nodes: { [NODE]: {} }, others: 1, cluster: { apiServerFlags } });
    [home = assert.fail()] = bed.others;
    authority = await createAuthority('controllers');
    const { cluster, address, controlPlane } = bed;
    await controlPlane.run(['nft', '-f', '-'], { stdin: PROVIDER });
    await install(cluster);
    for (const text of [GATE, service(home.v4), await trustedWebhooks()]) await cluster.apply(text);
    const spec = { serviceAccountName: ACCOUNT, containers: [{ name: 'c', image: 'i' }] };
    const pod = { apiVersion: 'v1', kind: 'Pod', metadata: { name: home.name, namespace: NAMESPACE }, spec };
    await cluster.apply(JSON.stringify(pod));
    const podIPs = [home.v4, home.v6].map((ip) => ({ ip }));
    const status = { phase: 'Running', podIP: home.v4, podIPs };
    await cluster.patchStatus([`pod/${home.name}`, `--namespace=${NAMESPACE}`], status);
    const server = `https://${address}:${new URL(cluster.server).port}`;
    const token = await cluster.token(`${NAMESPACE}/${ACCOUNT}`);
    await write('controller.kubeconfig', kubeconfig({ server, ca: cluster.ca, token }));
    const names = [NAME, home.v4];
    const { certificate, key } = await authority.issue({ commonName: 'nodewall', names, usage: 'server' });
    await write('tls.crt', certificate);
    await write('tls.key', key);
    await write('ca.crt', authority.certificate);
    const audiences = ['nodewall-controller'];
    await write('relay-token', await cluster.token(`${NAMESPACE}/${ACCOUNT}`, { audiences }));
    const admin = (await readFile(cluster.kubeconfig, 'utf8')).replaceAll(/https:\/\/[^\s"]+/g, server);
    await write('admin', admin);
    await writeKubectl();
    await startController();
    await startAgent();
  });
  after(async () => {
    await agent?.end('SIGKILL');
    await controller?.end('SIGKILL');
    await bed?.close();
  });

  it('has webhook and aggregated API at one port, and agents there too', async () => {
    await untilAggregated(bed.cluster, { limit: LIMIT, detail: logs });
    const isAsked = async () => /10\.0\.0\.0\/8 is not inside 10\.0\.0\.0\/24/.test(await refusal());
    await until('the webhook is asked', isAsked, { limit: LIMIT, detail: logs });
    await isEnforced('first', 4000);
    const { stdout, stderr } = await nodewall('rules', '--node', NODE);
    assert.match(stdout, /first\/r +Drop/, stderr);
  });

  it('works without both, by policies and a pod, after a restart of the controller', async () => {
    const { cluster } = bed;
    await controller.end('SIGTERM');
    for (const path of ['admission-policies/policies.yaml', 'no-aggregated-api/view-for-controllers.yaml'])
      await cluster.apply(await readFile(join(COMPONENTS, path), 'utf8'));
    const kinds = 'mutatingwebhookconfiguration,validatingwebhookconfiguration';
    assert.equal((await cluster.kubectl(['delete', kinds, 'nodewall'])).code, 0);
    // As the cluster's garbage collector would find it where no controller had removed it.
    await startController('--no-aggregated-api');
    const isGone = async () => (await cluster.kubectl(['get', 'apiservice', API_SERVICE])).code !== 0;
    await until('the APIService is gone', isGone, { limit: LIMIT, detail: logs });
    const isRefused = async () => /an exception must be a CIDR, part of the cidr/.test(await refusal());
    await until('the policies are in force', isRefused, { limit: LIMIT, detail: logs });
    await isEnforced('second', 4001);
  });

  it('says in its status what no policy judges', async () => {
    const waiting = dropping('waiting', { from: [{ group: 'none' }] });
    assert.equal((await apply(waiting)).code, 0);
    await phaseIs('waiting', 'Pending');
    await bed.cluster.remove('ncnp', 'waiting');
  });

  it("has the same documents by the controller's pod, and no console", async () => {
    const status = await nodewall('status', '-o', 'json');
    assert.equal(status.status, 0, status.stderr);
    const { nodes, policies, problems } = JSON.parse(status.stdout);
    assert.deepEqual(
      { nodes, policies, problems },
      { nodes: { Enforced: 1 }, policies: { Realized: 2 }, problems: [] },
    );
    const rules = await nodewall('rules', '--node', NODE);
    assert.match(rules.stdout, /first\/r +Drop(.|\n)*second\/r +Drop/, rules.stderr);
    const flow = { direction: 'ingress', src: home.v4, protocol: 'tcp', dstPort: 4001 };
    const explained = await nodewall('explain', '--node', NODE, '--flow', JSON.stringify(flow));
    assert.match(explained.stdout, /Drop: rule second\/r/, explained.stderr);
    const check = await nodewall('check', '-o', 'json');
    assert.match(check.stdout, /policies of the API server take their place/, check.stderr);
    const console = await nodewall('console');
    assert.equal(console.status, 3);
    assert.match(console.stderr, /the console is served by the aggregated API, which is not registered/);
  });
});
