import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { request as httpsRequest, type RequestOptions } from 'node:https';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { text } from 'node:stream/consumers';
import type { NodeReport } from '../../../apis/node-report.ts';
import type { PolicyStatus } from '../../../apis/policy-status.ts';
import { NODE_VIEWS_PATH, type StreamMessage } from '../../../apis/stream.ts';
import { nodewall } from '../../cli/command.ts';
import { removeAll, usersYaml } from '../../cluster/admin-api.ts';
import type { TestCluster } from '../../cluster/cluster.ts';
import { freePorts } from '../../cluster/daemon.ts';
import { nodeReport } from '../../fake/node-state.ts';
import { until } from '../../kernel/until.ts';
import { NODEWALL } from '../../program.ts';
import { ControllerProcess, withAllRights, withoutRight } from '../controller-process.ts';
import { agentToken, controllerCa, controllerKubeconfig } from '../installed.ts';
import { apiServer } from '../labs.ts';

const SERVICE = 'nodewall-controller.nodewall-system.svc';

/** The part of {@link ControllerProcess} that requests need. */
interface Served {
  readonly port: number;
}

/**
 * What the agent of a node asks controllers on loopback, by the name that their certificate is for.
 */
class AgentRequests {
  /** Of the controllers' certificates, PEM: once the first one has made it. */
  ca = '';
  readonly watch: string;
  readonly #node: string;
  readonly #token: string;

  /** @param token of the agents' account, bound to the Node */
  constructor(node: string, token: string) {
    this.#node = node;
    this.#token = token;
    this.watch = `${NODE_VIEWS_PATH}?watch=true&fieldSelector=metadata.name%3D${node}`;
  }

  async ask({ port }: Served, path: string, more: RequestOptions = {}, body?: object) {
    const request = httpsRequest({
      host: '127.0.0.1',
      port,
      path,
      ca: this.ca,
      servername: SERVICE,
      agent: false,
      ...more,
      headers: {
        authorization: `Bearer ${this.#token}`,
        'content-type': 'application/json',
        ...more.headers,
      },
    });
    request.end(body === undefined ? undefined : JSON.stringify(body));
    const [response] = await once(request, 'response');
    return response;
  }

  /** The first whole view that the node is told. */
  async view(controller: Served): Promise<StreamMessage[]> {
    const response = await this.ask(controller, this.watch);
    assert.equal(response.statusCode, 200);
    const messages: StreamMessage[] = [];
    for await (const line of createInterface({ input: response })) {
      messages.push(JSON.parse(line));
      if (messages.at(-1)?.type === 'bookmark') break;
    }
    response.destroy();
    return messages;
  }

  /** That its present view is enforced, but for these rules. */
  async report(controller: Served, failing: NodeReport['failing'] = []): Promise<void> {
    const { revision = '' } = (await this.view(controller)).at(-1) ?? {};
    const said = nodeReport(this.#node, revision, { failing, time: new Date().toISOString() });
    const path = `${NODE_VIEWS_PATH}/${this.#node}/status`;
    const response = await this.ask(controller, path, { method: 'PUT' }, said);
    assert.equal(response.statusCode, 204, await text(response));
  }
}

const ROOT = join(import.meta.dirname, '../../..');
const FILES = ['crds/tier', 'crds/clustergroup', 'crds/clusternetworkpolicy', 'rbac'];
const NODE = (name: string) =>
  `{apiVersion: v1, kind: Node, metadata: {name: ${name}, labels: {role: ${name}}}}`;
const POLICY = (priority: number, ingress: string) => `
apiVersion: nodewall.io/v1alpha1
kind: ClusterNetworkPolicy
metadata: {name: ssh}
spec:
  priority: ${priority}
  appliedTo: [{nodeSelector: {matchLabels: {role: cp-1}}}]
  ingress: [${ingress}]
`;
const DROP = '{name: drop-ssh, action: Drop, ports: [{protocol: TCP, port: 22}]}';
const GATE = (enabled: boolean) => `
apiVersion: v1
kind: ConfigMap
metadata: {name: nodewall-config, namespace: nodewall-system}
data: {config.yaml: "featureGates: {NodeNetworkPolicy: ${enabled}}"}
`;
const SCRAPER = usersYaml({ prometheus: ['nodewall-metrics-reader'] });

interface ApiServiceObject {
  readonly metadata: { readonly name: string };
  readonly spec: { readonly caBundle?: string };
}

interface LeaseObject {
  readonly metadata: { readonly annotations?: Readonly<Record<string, string>> };
  readonly spec: { readonly holderIdentity?: string };
}

/** Starts and ends its own, on a cluster without objects of nodewall; in the end none runs. */
describe('nodewall controller, on a real API server', function () {
  this.timeout(120_000);
  const begun = apiServer.use();
  let cluster: TestCluster;
  let kubeconfig: string;
  /** As the agent on cp-1. */
  let agent: AgentRequests;
  const running: ControllerProcess[] = [];
  let ports: readonly number[];

  before(async () => {
    cluster = begun();
    ports = await freePorts(2);
    for (const name of FILES) await cluster.apply(await readFile(join(ROOT, `deploy/${name}.yaml`), 'utf8'));
    await cluster.established();
    for (const name of ['cp-1', 'worker-1']) await cluster.apply(NODE(name));
    kubeconfig = await controllerKubeconfig(cluster);
    agent = new AgentRequests('cp-1', await agentToken(cluster, 'cp-1'));
  });

  after(async () => {
    for (const one of running) await one.stop('SIGKILL');
    await removeAll(cluster, 'clusternetworkpolicies.nodewall.io', 'nodes');
  });

  /** On one of two ports, with the other as its peer. */
  async function start(port: number): Promise<ControllerProcess> {
    const peers = ports.filter((other) => other !== port);
    const controller = await ControllerProcess.start({ kubeconfig, port, peers });
    running.push(controller);
    return controller;
  }

  const statusIs = (wanted: (status: PolicyStatus) => boolean): Promise<unknown> => {
    let last: PolicyStatus | undefined;
    return until(
      'the status',
      async () => {
        const { status } = await cluster.get<{ status?: PolicyStatus }>(
          'clusternetworkpolicies.nodewall.io',
          'ssh',
        );
        last = status;
        return status !== undefined && wanted(status);
      },
      { detail: () => `${JSON.stringify(last)}\n${running.map(({ log }) => log.join('\n')).join('\n')}` },
    );
  };

  const holder = async (): Promise<string> =>
    (await cluster.get<LeaseObject>('lease', 'nodewall-controller', '--namespace=nodewall-system')).spec
      .holderIdentity ?? '';

  it('leads, publishes its CA, and serves with a certificate of it', async () => {
    const controller = await start(ports[0] ?? 0);
    await controller.untilReady();
    agent.ca = await controllerCa(cluster);
    await controller.untilLeading();
    assert.match(await holder(), /_[0-9a-f-]{36}$/);
    const messages = await agent.view(controller);
    assert.deepEqual(messages[1]?.type === 'gate' && messages[1].enabled, 'unset');
    const kubernetes = await cluster.get<{ spec: { clusterIP: string } }>('service', 'kubernetes');
    const endpoints = messages.flatMap((one) => (one.type === 'endpoints' ? one.endpoints : []));
    assert.deepEqual(endpoints.find(({ port }) => port === 443)?.addresses, [kubernetes.spec.clusterIP]);
    await until('it registers the aggregated API', async () => {
      const { items } = await cluster.get<{ items: ApiServiceObject[] }>('apiservices');
      const own = items.find(({ metadata }) => metadata.name === 'v1alpha1.controlplane.nodewall.io');
      return Buffer.from(own?.spec.caBundle ?? '', 'base64').toString() === agent.ca;
    });
    assert.equal((await agent.ask(controller, `${NODE_VIEWS_PATH}/worker-1`)).statusCode, 403);
  });

  it('has another one beside it, which serves agents and knows all reports', async () => {
    const [leader] = running;
    assert.ok(leader !== undefined);
    await agent.report(leader);
    const other = await start(ports[1] ?? 0);
    await other.untilReady();
    assert.equal(await other.leads(), false);
    const read = await agent.ask(other, `${NODE_VIEWS_PATH}/cp-1`);
    assert.equal(JSON.parse(await text(read)).status.node, 'cp-1');
    const [here, there] = [await agent.view(leader), await agent.view(other)];
    const contents = (messages: StreamMessage[]) => messages.map(({ revision: _, ...message }) => message);
    assert.deepEqual(contents(there), contents(here));
  });

  it('writes the status of a policy', async () => {
    // The reports of agents that another controller serves count as well.
    const [leader, other] = running;
    assert.ok(leader !== undefined && other !== undefined);
    await cluster.apply(POLICY(1, DROP));
    await statusIs(({ phase }) => phase === 'Disabled');
    await cluster.apply(GATE(true));
    await statusIs(({ phase, desiredNodesRealized }) => phase === 'Pending' && desiredNodesRealized === 1);
    await agent.report(leader);
    await statusIs(({ phase, observedGeneration }) => phase === 'Realized' && observedGeneration === 1);
    // Only its own schema refuses this; that there is no such tier says the compiler's side.
    await cluster.apply(POLICY(2, DROP).replace('priority: 2', 'priority: 2\n  tier: nowhere'));
    await statusIs(({ phase, enforcedGeneration, problems }) => {
      return phase === 'Pending' && enforcedGeneration === 1 && /nowhere/.test(problems?.join() ?? '');
    });
    await cluster.apply(POLICY(3, DROP).replace('priority: 3', 'priority: 3\n  tier: application'));
    await statusIs(({ phase, observedGeneration }) => phase === 'Pending' && observedGeneration === 3);
    const failing = {
      apiGroup: 'nodewall.io',
      policy: 'ssh',
      generation: 3,
      rule: 'drop-ssh',
      reason: 'no memory',
    } as const;
    await agent.report(leader, [failing]);
    await statusIs(
      ({ phase, failingNodes }) => phase === 'Failed' && failingNodes?.[0]?.reason === 'no memory',
    );
    await until('an event on the policy', async () => {
      const { items } = await cluster.get<{ items: { note: string; reason: string }[] }>(
        'events.events.k8s.io',
      );
      return items.some(
        ({ reason, note }) => reason === 'NodesFailed' && /cp-1 \(rule drop-ssh: no memory\)/.test(note),
      );
    });
    await agent.report(other);
    await statusIs(({ phase, conditions }) => phase === 'Realized' && conditions[1]?.status === 'True');
  });

  it('is replaced as leader by the other when it is killed, without a change of rules', async () => {
    const [leader, other] = running;
    assert.ok(leader !== undefined && other !== undefined);
    const before = await holder();
    await leader.stop('SIGKILL');
    await other.untilLeading();
    assert.notEqual(await holder(), before);
    await agent.report(other);
    await cluster.apply(POLICY(4, DROP).replace('priority: 4', 'priority: 4\n  tier: application'));
    await statusIs(({ phase, observedGeneration }) => phase === 'Pending' && observedGeneration === 4);
    await agent.report(other);
    await statusIs(({ phase, observedGeneration }) => phase === 'Realized' && observedGeneration === 4);
  });

  it('serves agents on when another holder takes the Lease, and takes it again when that one stops renewing', async () => {
    const [, last] = running;
    assert.ok(last !== undefined);
    const stream = await agent.ask(last, agent.watch);
    const patch = '--patch={"spec":{"holderIdentity":"somebody"}}';
    const { code, stderr } = await cluster.kubectl([
      'patch',
      'lease',
      'nodewall-controller',
      '--namespace=nodewall-system',
      '--type=merge',
      patch,
    ]);
    assert.equal(code, 0, stderr);
    await until('it does not lead', async () => !(await last.leads()), {
      detail: () => last.log.join('\n'),
    });
    assert.equal(await last.ready(), '200 ok');
    await last.untilLeading();
    assert.equal(stream.destroyed, false);
    stream.destroy();
    assert.ok((await agent.view(last)).some(({ type }) => type === 'rules'));
  });

  it('stores the feature gate in the Lease, for a start without its ConfigMap', async () => {
    const [, last] = running;
    assert.ok(last !== undefined);
    const remembered = async (): Promise<string | undefined> =>
      (await cluster.get<LeaseObject>('lease', 'nodewall-controller', '--namespace=nodewall-system')).metadata
        .annotations?.['nodewall.io/feature-gate'];
    await until('it is remembered', async () => (await remembered()) === 'NodeNetworkPolicy=true');
    const gone = await cluster.kubectl([
      'delete',
      'configmap',
      'nodewall-config',
      '--namespace=nodewall-system',
    ]);
    assert.equal(gone.code, 0, gone.stderr);
    const next = await start(ports[0] ?? 0);
    await next.untilReady();
    assert.equal(await last.stop('SIGTERM'), 0);
    await next.untilLeading();
    const [gate] = (await agent.view(next)).filter(({ type }) => type === 'gate');
    assert.ok(gate?.type === 'gate' && gate.enabled);
    running[1] = next;
  });

  it('releases the Lease on SIGTERM', async () => {
    const [, last] = running;
    assert.ok(last !== undefined);
    assert.equal(await last.stop('SIGTERM'), 0, last.log.join('\n'));
    assert.equal(await holder(), '');
    // It was the last one.
    const apiService = await cluster.kubectl(['get', 'apiservice', 'v1alpha1.controlplane.nodewall.io']);
    assert.match(apiService.stderr, /NotFound/);
    // The test has deleted the gate.
    const isOfGate = (message: string): boolean => /^there is no ConfigMap nodewall-config;/.test(message);
    const faults = last.log
      .map((line) => JSON.parse(line))
      .filter(({ level, message }) => level === 'error' && !isOfGate(message));
    assert.deepEqual(faults, []);
  });

  it('serves its metrics and says which right it lacks from the start, and recovers when it has it', async () => {
    await withoutRight(cluster, 'pods');
    const [port = 0] = await freePorts(1);
    const controller = await start(port);
    // It lists pods of all namespaces, and its own: the one or the other is refused first.
    const lacks =
      /^503 .*: it may not list pods( in namespace nodewall-system)?, which ClusterRole nodewall-controller of deploy\/rbac.yaml/;
    await until('it says what it lacks', async () => lacks.test(await controller.ready()), {
      detail: () => controller.log.join('\n'),
    });
    await cluster.apply(SCRAPER);
    const scraper = await cluster.token('default/prometheus');
    const metrics = async (): Promise<string> => {
      const headers = { authorization: `Bearer ${scraper}` };
      const response = await agent.ask(controller, '/metrics', { headers }).catch(() => null);
      return response === null ? 'nobody listens' : `${response.statusCode} ${await text(response)}`;
    };
    const forbids = (value: 0 | 1) =>
      new RegExp(`^nodewall_controller_watch_forbidden{resource="pods"} ${value}$`, 'm');
    await until('it is scraped', async () => forbids(1).test(await metrics()), {
      detail: () => controller.log.join('\n'),
    });
    assert.match(await metrics(), /^200 /);
    assert.match(await metrics(), /^nodewall_controller_watch_forbidden{resource="nodes"} 0$/m);
    const refused = await agent.ask(controller, agent.watch);
    assert.equal(refused.statusCode, 503, 'agents get nothing from a part of the cluster');

    await withAllRights(cluster);
    await controller.untilReady();
    assert.equal(controller.isRunning(), true);
    assert.match(await metrics(), forbids(0));
    assert.equal((await agent.view(controller))[0]?.type, 'reset');
    assert.equal(await controller.stop('SIGTERM'), 0);
  });

  it('says which right its certificate lacks', async () => {
    const role = ['role', 'nodewall-controller-ca', '--namespace=nodewall-system'];
    assert.equal((await cluster.kubectl(['delete', ...role])).code, 0);
    const [port = 0] = await freePorts(1);
    const controller = await start(port);
    const lacks =
      /^503 .*certificate.*: it may not get secrets in namespace nodewall-system, which Role nodewall-controller-ca/;
    await until('it says what it lacks', async () => lacks.test(await controller.ready()), {
      detail: () => controller.log.join('\n'),
    });
    await withAllRights(cluster);
    await controller.untilReady();
    assert.equal(await controller.stop('SIGTERM'), 0);
  });

  it('names the missing RBAC rule', async () => {
    const nobody = await cluster.kubeconfigFor('nobody', {
      token: await cluster.token('nodewall-system/nodewall-agent'),
    });
    const child = spawn(
      NODEWALL,
      ['controller', '--kubeconfig', nobody, '--listen', '127.0.0.1:0', '--log-format', 'json'],
      {
        stdio: ['ignore', 'ignore', 'pipe'],
      },
    );
    const log: string[] = [];
    createInterface({ input: child.stderr }).on('line', (line) => void log.push(line));
    const ended = once(child, 'exit');
    await until(
      'the missing rule is named',
      async () => /RBAC needs .*secrets.* in namespace nodewall-system/.test(log.join()),
      {
        detail: () => log.join('\n'),
      },
    );
    await until('the API server is quoted', async () => /cannot list resource .*nodes/.test(log.join()), {
      detail: () => log.join('\n'),
    });
    child.kill('SIGTERM');
    assert.deepEqual(await ended, [0, null]);
  });

  it('reports errors before it starts', async () => {
    const [busy = 0] = await freePorts(1);
    const holder = (await import('node:net')).createServer().listen(busy, '127.0.0.1');
    await once(holder, 'listening');
    const taken = await nodewall('controller', '--kubeconfig', kubeconfig, '--listen', `127.0.0.1:${busy}`);
    holder.close();
    assert.deepEqual([taken.status, taken.stderr.split('\n')[0]?.includes('EADDRINUSE')], [3, true]);
    const half = await nodewall('controller', '--kubeconfig', kubeconfig, '--tls-cert-file', 'x');
    assert.equal(half.status, 2);
    assert.equal((await nodewall('controller', '--kubeconfig', '/nowhere')).status, 1);
    assert.equal(
      (await nodewall('controller', '--kubeconfig', kubeconfig, '--feature-gates', 'X=true')).status,
      2,
    );
  });
});
