/**
 * Tenants that have as many EgressPolicies as they may, and edit them all the time, against a
 * controller with a real API server: what becomes of leases of floating addresses, of an agent's
 * stream, of the leadership, and of an administrator's policy meanwhile.
 */

import { once } from 'node:events';
import type { IncomingMessage } from 'node:http';
import { Agent, request as httpsRequest } from 'node:https';
import { createInterface } from 'node:readline';
import { text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { DEFAULT_EGRESS_CONFIG } from '../../apis/egress/config.ts';
import { HEARTBEAT_PROTOCOLS } from '../../apis/heartbeat.ts';
import { NODE_VIEWS_PATH } from '../../apis/stream.ts';
import { type KubeApiClient, kubeApi } from '../../controller/kubeapi/kube-api.ts';
import { loadKubeConfig } from '../../controller/kubeapi/kube-config.ts';
import { startCluster, type TestCluster } from '../cluster/cluster.ts';
import { ControllerProcess } from '../e2e/controller-process.ts';
import { Heartbeats } from '../e2e/heartbeats.ts';
import { agentToken, controllerCa, controllerKubeconfig, install } from '../e2e/installed.ts';
import { nodeReport } from '../fake/node-state.ts';
import { until } from '../kernel/until.ts';
import { rssOfTree } from './memory.ts';

const SERVICE = 'nodewall-controller.nodewall-system.svc';
const GATEWAYS = ['gw-1', 'gw-2'] as const;
const LIMIT = { limit: 120_000 };
/** Milliseconds between the heartbeats of a node, and the longest wait for an answer. */
const BEAT = 200;
const PATIENCE = 4_000;
const POLICIES = '/apis/nodewall.io/v1alpha1/namespaces';

interface TenantsOptions {
  readonly tenants: number;
  readonly podsOfEach: number;
}

/** ConfigMaps cost the API server as much, and nodewall nothing. */
type Edited = 'egresspolicies' | 'configmaps';

/** The counts of some time. */
export interface Seen {
  readonly edits: number;
  readonly heartbeats: number;
  readonly unanswered: readonly string[];
  readonly leasesLost: number;
  readonly streamsEnded: number;
  /** Milliseconds: the longest wait for a heartbeat's answer; of the controller's own thread. */
  readonly longestHeartbeat: number;
  readonly longestAnswer: number;
  /** Milliseconds from the return of the change to the node's stream, sorted. */
  readonly administrator: readonly number[];
  /** Bytes of the controller and its processes, at the end. */
  readonly memory: number;
}

export class TenantBed {
  readonly #options: TenantsOptions;
  readonly #api: KubeApiClient;
  readonly #cluster: TestCluster;
  readonly #tokens = new Map<string, string>();
  #controller: ControllerProcess | null = null;
  #ca = '';
  readonly #beating: Heartbeats[] = [];
  readonly #agents: Agent[] = [];
  #stream: IncomingMessage | null = null;
  #arrived = new Map<number, number>();
  #generation = 0;
  #counts = noCounts();
  #isOver = false;

  private constructor(options: TenantsOptions, cluster: TestCluster, api: KubeApiClient) {
    this.#options = options;
    this.#cluster = cluster;
    this.#api = api;
  }

  static async start(options: TenantsOptions): Promise<TenantBed> {
    const cluster = await startCluster();
    const bed = new TenantBed(options, cluster, kubeApi(await loadKubeConfig(cluster.kubeconfig)));
    try {
      await bed.#prepare();
      return bed;
    } catch (error) {
      await bed.close();
      throw error;
    }
  }

  async close(): Promise<void> {
    this.#isOver = true;
    await Promise.all(this.#beating.map((one) => one.stop()));
    for (const agent of this.#agents) agent.destroy();
    this.#stream?.destroy();
    await this.#controller?.stop('SIGKILL');
    this.#api.close();
    await this.#cluster.close();
  }

  /** The lines that the controller wrote so far. */
  get log(): readonly string[] {
    return this.#controller?.log ?? [];
  }

  /** Each tenant has as much as it may, and as many ConfigMaps of the same size. */
  async fill(): Promise<void> {
    const { policies } = DEFAULT_EGRESS_CONFIG.namespaceLimits;
    for (const namespace of this.#namespaces()) {
      for (let first = 0; first < policies; first += 10)
        await Promise.all(Array.from({ length: 10 }, (_, i) => this.#create(namespace, first + i)));
    }
  }

  /** @param edited the objects that each tenant edits meanwhile, one after the other */
  async watch(milliseconds: number, edited: Edited | null): Promise<Seen> {
    this.#counts = noCounts();
    const over = new AbortController();
    const edits = edited === null ? [] : this.#namespaces();
    const tenants = edits.map((namespace) => this.#edit(namespace, edited ?? 'configmaps', over.signal));
    const asking = this.#askThread(over.signal);
    const administrator: number[] = [];
    const end = performance.now() + milliseconds;
    while (performance.now() < end) administrator.push(await this.#administer());
    over.abort();
    await Promise.all([...tenants, asking]);
    return {
      ...this.#counts,
      administrator: administrator.sort((a, b) => a - b),
      memory: rssOfTree(this.#controller?.pid ?? 0),
    };
  }

  #namespaces(): string[] {
    return Array.from({ length: this.#options.tenants }, (_, i) => `tenant-${i}`);
  }

  async #prepare(): Promise<void> {
    const cluster = this.#cluster;
    await install(cluster);
    for (const [i, name] of [...GATEWAYS, 'worker'].entries()) {
      const labels = `{gateway: "${name !== 'worker'}"}`;
      await cluster.apply(`{apiVersion: v1, kind: Node, metadata: {name: ${name}, labels: ${labels}}}`);
      await cluster.patchStatus([`node/${name}`], {
        addresses: [{ type: 'InternalIP', address: `10.0.0.${i + 1}` }],
        conditions: [{ type: 'Ready', status: 'True' }],
      });
      this.#tokens.set(name, await agentToken(cluster, name));
    }
    await cluster.apply(OWN);
    for (const [i, namespace] of this.#namespaces().entries()) await this.#fillNamespace(namespace, i);
    await this.#startController();
    for (const node of GATEWAYS) await this.#report(node);
    for (const node of GATEWAYS) this.#beat(node);
    await until('a node has the floating address', async () => this.#owners() === 1, {
      ...LIMIT,
      detail: () => this.log.slice(-30).join('\n'),
    });
    void this.#follow();
    void this.#watchLeases();
    await this.#administer();
  }

  async #fillNamespace(namespace: string, index: number): Promise<void> {
    await this.#cluster.apply(`{apiVersion: v1, kind: Namespace, metadata: {name: ${namespace}}}`);
    for (let i = 0; i < this.#options.podsOfEach; i++) {
      const spec = { nodeName: i % 2 ? 'worker' : 'gw-1', containers: [{ name: 'c', image: 'none' }] };
      const path = `/api/v1/namespaces/${namespace}/pods`;
      const metadata = { name: `p${i}`, namespace };
      const body = { apiVersion: 'v1', kind: 'Pod', metadata, spec };
      await this.#api.request({ method: 'POST', path, body });
      const ip = `10.244.${index}.${i + 1}`;
      const status = { phase: 'Running', podIP: ip, podIPs: [{ ip }] };
      await this.#api.request({ method: 'PATCH', path: `${path}/p${i}/status`, body: { status } });
    }
  }

  async #startController(): Promise<void> {
    const cluster = this.#cluster;
    this.#controller = await ControllerProcess.start({
      kubeconfig: await controllerKubeconfig(cluster),
      options: ['--feature-gates', 'NodeNetworkPolicy=true,EgressGateway=true'],
    });
    await this.#controller.untilLeading(LIMIT.limit);
    this.#ca = await controllerCa(cluster);
  }

  async #ask(node: string, sent: Asked): Promise<IncomingMessage> {
    const { path, method = 'GET', body, agent = false } = sent;
    const headers = { authorization: `Bearer ${this.#tokens.get(node)}`, 'content-type': 'application/json' };
    const place = { host: '127.0.0.1', port: this.#controller?.port, ca: this.#ca, servername: SERVICE };
    const signal = sent.signal === undefined ? {} : { signal: sent.signal };
    const outgoing = httpsRequest({
      ...place,
      ...signal,
      agent,
      headers,
      method,
      path: `${NODE_VIEWS_PATH}${path}`,
    });
    outgoing.end(body === undefined ? undefined : JSON.stringify(body));
    const [answer] = await once(outgoing, 'response');
    return answer;
  }

  async #report(node: string): Promise<void> {
    const { metadata } = JSON.parse(await text(await this.#ask(node, { path: `/${node}` })));
    const body = nodeReport(node, metadata.resourceVersion, {
      policies: 0,
      features: ['established', 'egress'],
      time: new Date().toISOString(),
    });
    (await this.#ask(node, { path: `/${node}/status`, method: 'PUT', body })).resume();
  }

  /** As an agent's thread of leases does: on a connection of its own. */
  #beat(node: string): void {
    const agent = new Agent({ keepAlive: true, maxSockets: 1, ALPNProtocols: [...HEARTBEAT_PROTOCOLS] });
    this.#agents.push(agent);
    const beating = new Heartbeats({
      node,
      gateway: 'pool',
      post: async (body) => {
        const begun = performance.now();
        const signal = AbortSignal.timeout(PATIENCE);
        const asked = { path: `/${node}/lease`, method: 'POST', body, agent, signal } as const;
        const answer = await this.#ask(node, asked).catch(async (error: Error) => {
          if (!this.#isOver) this.#counts.unanswered.push(`${node}: ${error.message}`);
          return await this.#ask(node, { ...asked, signal: AbortSignal.timeout(PATIENCE) });
        });
        this.#counts.heartbeats++;
        this.#counts.longestHeartbeat = Math.max(this.#counts.longestHeartbeat, performance.now() - begun);
        return answer;
      },
    });
    this.#beating.push(beating);
    beating.start(BEAT);
  }

  #owners(): number {
    return this.#beating.filter((one) => one.left(ADDRESS) > 0).length;
  }

  async #watchLeases(): Promise<void> {
    for (let had = true; !this.#isOver; ) {
      await sleep(20);
      const has = this.#owners() > 0;
      if (had && !has && !this.#isOver) this.#counts.leasesLost++;
      had = has;
    }
  }

  /** The stream of a node's agent. */
  async #follow(): Promise<void> {
    while (!this.#isOver) {
      const path = '?watch=true&fieldSelector=metadata.name%3Dworker&features=egress';
      const answer = await this.#ask('worker', { path }).catch(() => null);
      if (answer?.statusCode === 200) {
        this.#stream = answer;
        await this.#read(answer).catch(() => {});
      }
      if (!this.#isOver) this.#counts.streamsEnded++;
      await sleep(50);
    }
  }

  async #read(answer: IncomingMessage): Promise<void> {
    for await (const line of createInterface({ input: answer })) {
      if (!line.includes('"administrator"')) continue;
      const generation = Number(/"generation":(\d+)/.exec(line)?.[1]);
      if (!this.#arrived.has(generation)) this.#arrived.set(generation, performance.now());
    }
  }

  /** An administrator changes a policy; milliseconds until the node has it. */
  async #administer(): Promise<number> {
    const path = '/apis/nodewall.io/v1alpha1/clusternetworkpolicies/administrator';
    const body = {
      apiVersion: 'nodewall.io/v1alpha1',
      kind: 'ClusterNetworkPolicy',
      metadata: { name: 'administrator' },
      spec: {
        priority: 5,
        appliedTo: [{ nodeSelector: {} }],
        ingress: [{ name: 'r', action: 'Drop', from: [{ ipBlock: { cidr: randomNetwork() } }] }],
      },
    };
    const query = { fieldManager: 'test', force: 'true' };
    const begun = performance.now();
    const stored = await this.#api.request<{ metadata: { generation: number } }>({
      method: 'PATCH',
      path,
      query,
      body,
      isApply: true,
      timeout: 60_000,
    });
    this.#generation = stored.metadata.generation;
    const { detail } = { detail: () => this.log.slice(-20).join('\n') };
    await until('the node has it', async () => this.#arrived.has(this.#generation), { ...LIMIT, detail });
    return (this.#arrived.get(this.#generation) ?? Number.NaN) - begun;
  }

  /** The answers of the thread that compiles. */
  async #askThread(over: AbortSignal): Promise<void> {
    while (!over.aborted) {
      const begun = performance.now();
      (await this.#ask('worker', { path: '/worker/none' }).catch(() => null))?.resume();
      this.#counts.longestAnswer = Math.max(this.#counts.longestAnswer, performance.now() - begun);
      await sleep(100);
    }
  }

  async #create(namespace: string, index: number): Promise<void> {
    const path = `${POLICIES}/${namespace}/egresspolicies`;
    const metadata = { name: `p${index}`, namespace };
    const body = { apiVersion: 'nodewall.io/v1alpha1', kind: 'EgressPolicy', metadata, spec: specOf(index) };
    const control = { apiVersion: 'v1', kind: 'ConfigMap', metadata, data: { to: networks().join() } };
    await this.#api.request({ method: 'POST', path, body, timeout: 60_000 });
    const other = `/api/v1/namespaces/${namespace}/configmaps`;
    await this.#api.request({ method: 'POST', path: other, body: control, timeout: 60_000 });
  }

  async #edit(namespace: string, edited: Edited, over: AbortSignal): Promise<void> {
    const isPolicy = edited === 'egresspolicies';
    const within = `${isPolicy ? POLICIES : '/api/v1/namespaces'}/${namespace}/${edited}`;
    for (let i = 0; !over.aborted; i = (i + 7) % DEFAULT_EGRESS_CONFIG.namespaceLimits.policies) {
      const path = `${within}/p${i}`;
      const body = isPolicy ? { spec: { to: networks() } } : { data: { to: networks().join() } };
      await this.#api.request({ method: 'PATCH', path, body, timeout: 60_000 });
      this.#counts.edits++;
    }
  }
}

interface Asked {
  readonly path: string;
  readonly method?: 'GET' | 'PUT' | 'POST';
  readonly body?: object;
  readonly agent?: Agent | false;
  readonly signal?: AbortSignal;
}

function noCounts() {
  return {
    edits: 0,
    heartbeats: 0,
    leasesLost: 0,
    streamsEnded: 0,
    longestHeartbeat: 0,
    longestAnswer: 0,
    unanswered: [] as string[],
  };
}

/** Seconds: a machine with much other work may not let the test send for two. */
const LEASE = 8;

const ADDRESS = '203.0.113.1';
/** The administrator's gateways, and a policy that needs the floating address. */
const OWN = `
{apiVersion: v1, kind: Namespace, metadata: {name: shop}}
---
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop, labels: {app: web}}
spec: {nodeName: worker, containers: [{name: c, image: none}]}
---
apiVersion: nodewall.io/v1alpha1
kind: EgressGateway
metadata: {name: pool}
spec:
  nodeSelector: {matchLabels: {gateway: "true"}}
  addresses: {pools: [{ranges: [${ADDRESS}]}]}
  failover: {leaseSeconds: ${LEASE}}
  allowedNamespaces: {}
---
apiVersion: nodewall.io/v1alpha1
kind: EgressGateway
metadata: {name: nodes}
spec: {nodeSelector: {matchLabels: {gateway: "true"}}, allowedNamespaces: {}}
---
apiVersion: nodewall.io/v1alpha1
kind: EgressPolicy
metadata: {name: web, namespace: shop}
spec: {gateway: pool, appliedTo: [{podSelector: {matchLabels: {app: web}}}]}
`;

function specOf(index: number): object {
  return { priority: index, appliedTo: [{ podSelector: {} }], gateway: 'nodes', to: networks() };
}

/** As many as each of a tenant's policies may have, if all have the same number. */
function networks(): string[] {
  const { policies, networks: most } = DEFAULT_EGRESS_CONFIG.namespaceLimits;
  return Array.from({ length: Math.floor(most / policies) }, randomNetwork);
}

function randomNetwork(): string {
  const one = (most: number): number => Math.floor(Math.random() * most);
  return `${11 + one(80)}.${one(256)}.${one(256)}.0/24`;
}
