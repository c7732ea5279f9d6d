/**
 * Where the stories of a whole cluster play: a real API server, controllers as processes, an agent
 * on each node, packets, kubectl.
 */

import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { PolicyStatus } from '../../apis/policy-status.ts';
import type { Finished } from '../../build/programs/command.ts';
import { removeAll, webhooksAt } from '../cluster/admin-api.ts';
import type { TestCluster } from '../cluster/cluster.ts';
import { type ClusterOfNodes, type Machine, startClusterOfNodes } from '../cluster/cluster-of-nodes.ts';
import { policy, tcp } from '../kernel/manifests.ts';
import { toStableText } from '../kernel/ruleset-text.ts';
import { until } from '../kernel/until.ts';
import { WarmNodewall } from '../kernel/warm.ts';
import { createNamespace, type Namespace } from '../netns/namespace.ts';
import { ROOT } from '../structure/source-file.ts';
import { install } from './installed.ts';
import { type Agent, StoryAgents, type StoryAgentsOptions } from './story-agents.ts';
import {
  type Replica,
  StoryControllers,
  type StoryControllersOptions,
  WEBHOOK_PORT,
} from './story-controllers.ts';
import { type Reached, StoryPackets } from './story-packets.ts';

/**
 * Milliseconds, of what a controller or an agent brings about; an agent that was refused for long
 * tries again after 30 s.
 */
const LIMIT = 45_000;
const POLICIES = 'clusternetworkpolicies.nodewall.io';

const GATE = (enabled: boolean): string => `
apiVersion: v1
kind: ConfigMap
metadata: {name: nodewall-config, namespace: nodewall-system}
data: {config.yaml: "featureGates: {NodeNetworkPolicy: ${enabled}}"${enabled ? '' : ', switch-off: now'}}
`;

interface StoryOptions extends StoryControllersOptions, StoryAgentsOptions {
  /** How many workers, worker-1 and so on; default 2. */
  readonly workers?: number;
  readonly apiServerFlags?: readonly string[];
}

/** A policy that drops a TCP port on workers. */
export function closed(name: string, port: number, spec: object = {}): object {
  const ingress = [{ name: 'close', action: 'Drop', ports: [tcp(port)] }];
  const appliedTo = [{ nodeSelector: { matchLabels: { role: 'worker' } } }];
  return { ...policy(name, {}), spec: { priority: 5, appliedTo, ingress, ...spec } };
}

/** What a status says of a policy that is enforced on so many nodes, all of them. */
export function realized(nodes: number): Partial<PolicyStatus> {
  const phase = nodes === 0 ? 'NoNodes' : 'Realized';
  return { phase, currentNodesRealized: nodes, desiredNodesRealized: nodes };
}

/** A cluster with controllers and agents, and what tests do with it. */
export interface Story extends ClusterOfNodes {
  readonly replicas: readonly Replica[];
  readonly agents: Readonly<Record<string, Agent>>;
  /** kubectl, which must succeed. */
  kubectl(...args: readonly string[]): Promise<string>;
  /** kubectl apply, whatever comes of it. */
  apply(...manifests: readonly object[]): Promise<Finished>;
  /** The same without kubectl, which takes longer to start; it must succeed. */
  applied(...manifests: readonly object[]): Promise<void>;
  /** Starts one more controller, of another release if its folder is given. */
  addReplica(release?: string): Promise<Replica>;
  /** Applies the CRDs and permissions of a release. */
  applyRelease(release: string): Promise<void>;
  /**
   * Waits until every replica is ready and one leads, which it gives; sends agents and webhooks to
   * any of them.
   */
  routed(): Promise<Replica>;
  /** Waits until the port is seen so from there. */
  sees(from: string, to: string, port: number, wanted: Reached): Promise<void>;
  /**
   * Waits until a connection from a machine to an IPv4 address ends so: answered, silence, or an
   * errno.
   */
  gets(from: string, address: string, port: number, outcome: string): Promise<void>;
  /** Floods a port of a node from outside that must be closed throughout. */
  withoutLeaks(to: string, port: number, action: () => Promise<void>): Promise<void>;
  /** Removes all policies, and waits until no node has a rule of them. */
  withoutPolicies(): Promise<void>;
  status(policy: string): Promise<PolicyStatus | undefined>;
  /** Waits until the status is of the policy's present version, and so. */
  statusIs(
    policy: string,
    wanted: Partial<PolicyStatus> | ((status: PolicyStatus) => boolean),
    /** Milliseconds. */
    limit?: number,
  ): Promise<void>;
  /** A pod with the addresses of a machine, or others. */
  pod(
    name: string,
    labels: Readonly<Record<string, string>>,
    addresses: readonly string[],
    namespace?: string,
  ): Promise<void>;
  setGate(enabled: boolean): Promise<void>;
  addAgent(machine: Machine): Promise<Agent>;
  /** Ends it, and removes its rules. */
  removeAgent(name: string): Promise<void>;
  /** Waits until each agent's table is what `nodewall compile` makes of the cluster's objects. */
  sameBytes(limit?: number): Promise<void>;
}

/**
 * cp-1, worker-1 and worker-2 with agents; other0 and other1 without. Gate on. Takes about 10 s.
 */
export async function startStory(options: StoryOptions = {}): Promise<Story> {
  const workers = Array.from({ length: options.workers ?? 2 }, (_, i) => [
    `worker-${i + 1}`,
    { role: 'worker' },
  ]);
  const bed = await startClusterOfNodes({
    nodes: { 'cp-1': { role: 'control' }, ...Object.fromEntries(workers) },
    others: 3,
    cluster: { apiServerFlags: options.apiServerFlags ?? [] },
  });
  const story = new StoryBed(bed, options);
  try {
    await story.start();
  } catch (error) {
    await story.close();
    throw error;
  }
  return story.story();
}

/** The parts of a story, which `story` gives as one object of functions. */
class StoryBed {
  readonly #bed: ClusterOfNodes;
  readonly #options: StoryOptions;
  readonly #controllers: StoryControllers;
  readonly #agents: StoryAgents;
  readonly #packets: StoryPackets;
  readonly #standAlone: StandAloneCompile;

  constructor(bed: ClusterOfNodes, options: StoryOptions) {
    const logs = (): string => this.#logs();
    this.#bed = bed;
    this.#options = options;
    this.#controllers = new StoryControllers(bed, options, logs);
    this.#agents = new StoryAgents(bed, options, logs);
    this.#packets = new StoryPackets(bed, logs);
    this.#standAlone = new StandAloneCompile(bed.cluster, this.#agents.config);
  }

  async start(): Promise<void> {
    const { cluster, address, nodes } = this.#bed;
    const { release = ROOT, replicas = 1 } = this.#options;
    await this.#agents.writeConfig();
    await install(cluster, release);
    await cluster.apply(GATE(true));
    await cluster.apply(await webhooksAt(`https://${address}:${WEBHOOK_PORT}`));
    for (let i = 0; i < replicas; i++) {
      await this.#controllers.add();
      await this.#controllers.routed();
    }
    for (const machine of nodes) await this.#agents.add(machine);
    for (const { machine, rules } of Object.values(this.#agents.agents))
      await this.#until(`rules on ${machine.name}`, async () => (await rules()) !== '');
  }

  async close(): Promise<void> {
    await this.#agents.end();
    await this.#controllers.end();
    await this.#standAlone.close();
    await this.#bed.close();
  }

  story(): Story {
    const [controllers, agents, packets, { cluster }] = [
      this.#controllers,
      this.#agents,
      this.#packets,
      this.#bed,
    ];
    return {
      ...this.#bed,
      close: () => this.close(),
      replicas: controllers.replicas,
      agents: agents.agents,
      kubectl: (...args) => this.#kubectl(args),
      apply: (...manifests) => cluster.kubectl(['apply', '-f', '-'], { stdin: documents(manifests) }),
      applied: (...manifests) => this.#applied(manifests),
      addReplica: (release) => controllers.add(release),
      applyRelease: (release) => install(cluster, release),
      routed: () => controllers.routed(),
      sees: (from, to, port, wanted) => packets.sees(from, to, port, wanted),
      gets: (from, to, port, wanted) => packets.gets(from, to, port, wanted),
      withoutLeaks: (to, port, action) => packets.withoutLeaks(to, port, action),
      withoutPolicies: () => this.#withoutPolicies(),
      status: async (name) => (await this.#policy(name)).status,
      statusIs: (name, wanted, limit) => this.#statusIs(name, wanted, limit),
      pod: (name, labels, addresses, namespace) => this.#pod(name, labels, addresses, namespace),
      setGate: (enabled) => cluster.apply(GATE(enabled)),
      addAgent: (machine) => agents.add(machine),
      removeAgent: (name) => agents.remove(name),
      sameBytes: (limit) => this.#sameBytes(limit),
    };
  }

  /** The latest lines of all processes. */
  #logs(): string {
    return [...this.#controllers.replicas, ...Object.values(this.#agents.agents)]
      .map(({ log }) => log().slice(-3000))
      .join('\n---\n');
  }

  #until(what: string, isSo: () => Promise<boolean>, limit = LIMIT, detail = () => ''): Promise<unknown> {
    return until(what, isSo, { limit, detail: () => `${detail()}\n${this.#logs()}` });
  }

  async #kubectl(args: readonly string[]): Promise<string> {
    const { code, stdout, stderr } = await this.#bed.cluster.kubectl(args);
    assert.equal(code, 0, `kubectl ${args.join(' ')}: ${stderr}`);
    return stdout;
  }

  async #applied(manifests: readonly object[]): Promise<void> {
    await this.#bed.cluster.apply(documents(manifests), { force: true });
  }

  #policy(name: string): Promise<PolicyObject> {
    return this.#bed.cluster.get<PolicyObject>(POLICIES, name);
  }

  async #withoutPolicies(): Promise<void> {
    const { cluster } = this.#bed;
    const { items } = await cluster.get<{ items: { metadata: { name: string } }[] }>(POLICIES);
    const names = items.map(({ metadata }) => metadata.name);
    await removeAll(cluster, POLICIES);
    for (const { machine, isRunning, rules } of Object.values(this.#agents.agents)) {
      const isFree = async (): Promise<boolean> => {
        const text = await rules();
        return names.every((name) => !text.includes(`-${name}-`));
      };
      if (isRunning()) await this.#until(`no rules on ${machine.name}`, isFree);
    }
  }

  async #statusIs(
    name: string,
    wanted: Partial<PolicyStatus> | ((status: PolicyStatus) => boolean),
    limit = 2 * LIMIT,
  ): Promise<void> {
    const isSo =
      typeof wanted === 'function'
        ? wanted
        : (now: PolicyStatus) =>
            Object.entries(wanted).every(([key, value]) => now[key as keyof PolicyStatus] === value);
    let last: PolicyObject | undefined;
    await this.#until(
      `status of ${name} ${typeof wanted === 'function' ? wanted : JSON.stringify(wanted)}`,
      async () => {
        last = await this.#policy(name);
        const { metadata, status } = last;
        return status !== undefined && status.observedGeneration === metadata.generation && isSo(status);
      },
      limit,
      () => JSON.stringify(last),
    );
  }

  async #pod(
    name: string,
    labels: Readonly<Record<string, string>>,
    addresses: readonly string[],
    namespace = 'default',
  ): Promise<void> {
    const metadata = { name, namespace, labels };
    const spec = { terminationGracePeriodSeconds: 0, containers: [{ name: 'c', image: 'i' }] };
    await this.#applied([{ apiVersion: 'v1', kind: 'Pod', metadata, spec }]);
    await this.#bed.cluster.patchStatus([`pod/${name}`, `--namespace=${namespace}`], {
      phase: 'Running',
      podIP: addresses[0],
      podIPs: addresses.map((ip) => ({ ip })),
    });
  }

  async #sameBytes(limit = LIMIT): Promise<void> {
    const { agents } = this.#agents;
    const names = Object.keys(agents);
    let different = '';
    await this.#until(
      'agents hold what a stand-alone compile makes',
      async () => {
        const wanted = await this.#standAlone.tables(names);
        different = '';
        for (const name of names) {
          const held = (await agents[name]?.rules()) ?? '';
          if (held !== wanted.get(name)) different += `${name}\n${held}\n=== compiled\n${wanted.get(name)}\n`;
        }
        return different === '';
      },
      limit,
      () => different,
    );
  }
}

interface PolicyObject {
  readonly metadata: { readonly generation: number };
  readonly status?: PolicyStatus;
}

function documents(manifests: readonly object[]): string {
  return manifests.map((one) => JSON.stringify(one)).join('\n---\n');
}

const KINDS = [
  ...['nodes', 'pods', 'namespaces', 'services', 'endpointslices', 'clusternetworkpolicies.nodewall.io'],
  ...['clustergroups.nodewall.io', 'tiers.nodewall.io'],
].join();

/** The tables that a stand-alone node has which knows the objects of a cluster. */
class StandAloneCompile {
  readonly #cluster: TestCluster;
  /** Path of the agents' configuration. */
  readonly #config: string;
  /** Where the kernel takes each table, and gives it back as it lists tables. */
  #scratch: Namespace | undefined;
  #nodewall: WarmNodewall | undefined;
  #objects = '';
  #tables = new Map<string, string>();

  constructor(cluster: TestCluster, config: string) {
    this.#cluster = cluster;
    this.#config = config;
  }

  /** By node, as ruleset-text.ts gives it. */
  async tables(nodes: readonly string[]): Promise<ReadonlyMap<string, string>> {
    const objects = JSON.stringify(await this.#cluster.get<object>(KINDS, '--all-namespaces'));
    if (this.#objects === objects && nodes.every((node) => this.#tables.has(node))) return this.#tables;
    const path = join(this.#cluster.folder, 'objects.json');
    await writeFile(path, JSON.stringify({ apiVersion: 'v1', kind: 'List', ...JSON.parse(objects) }));
    const tables = new Map<string, string>();
    for (const node of nodes) tables.set(node, await this.#table(path, node));
    this.#objects = objects;
    this.#tables = tables;
    return tables;
  }

  async close(): Promise<void> {
    await this.#nodewall?.close();
    await this.#scratch?.close();
  }

  async #table(path: string, node: string): Promise<string> {
    this.#scratch ??= await createNamespace('compiled');
    this.#nodewall ??= new WarmNodewall(this.#scratch);
    const args = ['--manifests', path, '--node', node, '--config', this.#config, '-o', 'nft'];
    const { stdout: text } = await this.#nodewall.run('compile', ...args);
    const stdin = `table inet nodewall\ndelete table inet nodewall\n${text}`;
    await this.#scratch.run(['nft', '-f', '-'], { stdin });
    const listed = await this.#scratch.run(['nft', '-s', 'list', 'table', 'inet', 'nodewall']);
    return toStableText(listed.stdout);
  }
}
