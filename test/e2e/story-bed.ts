/**
 * Where the stories of a whole cluster play: a real API server, controllers as processes, an agent
 * on each node, packets, kubectl.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { globSync } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import { request } from 'node:http';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { stringify } from 'yaml';
import type { PolicyStatus } from '../../apis/policy-status.ts';
import { type ClusterOfNodes, type Machine, startClusterOfNodes } from '../cluster/cluster-of-nodes.ts';
import type { Finished } from '../cluster/command.ts';
import { kubeconfig } from '../cluster/kubeconfig.ts';
import { removeAll } from '../cluster/remove-all.ts';
import { webhooksAt } from '../cluster/webhooks.ts';
import { type RunningAgent, toRunningAgent } from '../kernel/enforced-node.ts';
import { leakedDuring } from '../kernel/flood.ts';
import { policy, tcp } from '../kernel/manifests.ts';
import { createParty, type Party } from '../kernel/passed-by-party.ts';
import { toStableText } from '../kernel/ruleset-text.ts';
import { until } from '../kernel/until.ts';
import { WarmNodewall } from '../kernel/warm.ts';
import { relay } from '../netns/relay.ts';
import { NODEWALL } from '../program.ts';
import { ROOT } from '../structure/source-file.ts';
import { StandAloneCompile } from './stand-alone-compile.ts';

/** Where agents find whichever controller serves: what a Service is in a cluster. */
export const SERVICE_PORT = 8443;
const WEBHOOK_PORT = 9443;
/** The first replica's; each has three: agents, webhook, health. */
const FIRST_PORT = 9001;
const PORTS_OF_REPLICA = 10;
/** In a story with several. */
const MOST_REPLICAS = 4;
/** Nobody's rule is about it: it tells a closed port from a machine that is slow. */
const CONTROL_PORT = 7;
/** Machines answer here. */
export const PORTS = [CONTROL_PORT, 22, 80, 443, 8080] as const;
/** Milliseconds until no answer is silence, if the control port answered meanwhile. */
const PATIENCE = 400;
/**
 * Of what a controller or an agent brings about; an agent that was refused for long tries again
 * after 30 s.
 */
const LIMIT = 45_000;
const POLICIES = 'clusternetworkpolicies.nodewall.io';
/** What stays of anti-spoofing where the last rule is gone (unused-base-chains.ts). */
const UNUSED = /\tchain forward \{\n\t\ttype filter hook forward priority filter; policy accept;\n\t\}\n/;

const GATE = (enabled: boolean): string => `
apiVersion: v1
kind: ConfigMap
metadata: {name: nodewall-config, namespace: nodewall-system}
data: {config.yaml: "featureGates: {NodeNetworkPolicy: ${enabled}}"${enabled ? '' : ', switch-off: now'}}
`;

/** As a caller of both families sees a port. */
export type Reached = 'open' | 'closed' | 'refused';

export interface Replica {
  readonly log: () => string;
  /** Status and text of /readyz. */
  ready(): Promise<string>;
  metrics(): Promise<string>;
  isRunning(): boolean;
  end(signal: 'SIGTERM' | 'SIGKILL'): Promise<void>;
}

export interface Agent {
  readonly machine: Machine;
  readonly tokenFile: string;
  readonly log: () => string;
  /**
   * Waits until it says something that it hadn't said at the last start or the last time this was
   * asked.
   */
  says(text: string): Promise<void>;
  start(...options: readonly string[]): void;
  isRunning(): boolean;
  end(signal: 'SIGTERM' | 'SIGKILL'): Promise<void>;
  /** Ends it, and starts that of another release (its folder) in its place. */
  replace(release: string): Promise<void>;
  /** A command line of `nodewall` on its machine, with its state directory; must end with 0. */
  run(...args: readonly string[]): Promise<void>;
  /** Writes a token into its file, by default a new one that is bound to its Node. */
  setToken(token?: string): Promise<void>;
  /** Its table without counters and handles; '' when there is none. */
  rules(): Promise<string>;
}

export interface StoryOptions {
  /**
   * URL of the API server as the first controllers see it, and whom its certificate is from;
   * default: the real one.
   */
  readonly apiServer?: (bed: ClusterOfNodes) => Promise<Origin>;
  /** Of the controller as agents see it. */
  readonly controller?: (bed: ClusterOfNodes, origin: Origin) => Promise<Origin>;
  readonly controllerOptions?: readonly string[];
  readonly replicas?: number;
  /** How many workers, worker-1 and so on; default 2. */
  readonly workers?: number;
  readonly apiServerFlags?: readonly string[];
  /** The folder of the first programs and CRDs; default: this checkout. */
  readonly release?: string;
  /** Agents ask the API server themselves: for the controller's CA too. */
  readonly asksApiServer?: boolean;
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

function programOf(release: string): string {
  return release === ROOT ? NODEWALL : join(release, 'bin/nodewall');
}

interface Origin {
  readonly server: string;
  /** PEM. */
  readonly ca: string;
}

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
  const { cluster, controlPlane, address } = bed;
  const ending: (() => Promise<void>)[] = [() => bed.close()];
  const close = async (): Promise<void> => {
    for (const end of ending.splice(0).reverse()) await end();
  };
  const replicas: Replica[] = [];
  const agents: Record<string, Agent> = {};
  const parties = new Map<string, Promise<Party>>();

  async function kubectl(...args: readonly string[]): Promise<string> {
    const { code, stdout, stderr } = await cluster.kubectl(args);
    assert.equal(code, 0, `kubectl ${args.join(' ')}: ${stderr}`);
    return stdout;
  }

  function party({ name, namespace, v4, v6 }: Machine): Promise<Party> {
    const listening = async (): Promise<Party> => {
      const one = createParty(namespace);
      await Promise.all([one.listen(v4, PORTS), one.listen(v6, PORTS)]);
      return one;
    };
    const found = parties.get(name) ?? listening();
    parties.set(name, found);
    return found;
  }

  /**
   * Both families must agree; null while they don't, or where a port that is open doesn't answer in
   * time.
   */
  async function reach(from: Machine, to: Machine, port: number): Promise<Reached | null> {
    const [caller] = await Promise.all([party(from), party(to)]);
    const ask = (family: 4 | 6, to_: number): Promise<string> =>
      caller
        .call({
          protocol: 'tcp',
          family,
          src: family === 4 ? from.v4 : from.v6,
          dst: family === 4 ? to.v4 : to.v6,
          port: to_,
          patience: PATIENCE,
        })
        .then(({ outcome }) => outcome);
    const [first, second, ...control] = await Promise.all([
      ask(4, port),
      ask(6, port),
      ask(4, CONTROL_PORT),
      ask(6, CONTROL_PORT),
    ]);
    if (first !== second || control.some((outcome) => outcome !== 'answered')) return null;
    return first === 'answered' ? 'open' : first === 'silence' ? 'closed' : 'refused';
  }

  const logs = (): string =>
    [...replicas, ...Object.values(agents)].map(({ log }) => log().slice(-3000)).join('\n---\n');

  /** Status and text; '' where nobody answers. */
  async function get(socketPath: string, path: string): Promise<string> {
    try {
      const [response] = await once(request({ socketPath, path, agent: false }).end(), 'response');
      return `${response.statusCode} ${(await text(response)).trim()}`;
    } catch {
      return '';
    }
  }

  /** The ports of all other replicas that there may be. */
  const peersOf = (port: number): number[] => {
    const most = (options.replicas ?? 1) > 1 || options.release !== undefined ? MOST_REPLICAS : 1;
    return Array.from({ length: most }, (_, i) => FIRST_PORT + PORTS_OF_REPLICA * i).filter(
      (other) => other !== port,
    );
  };

  async function addReplica(release = options.release ?? ROOT): Promise<Replica> {
    const port = FIRST_PORT + PORTS_OF_REPLICA * replicas.length;
    const api = (await options.apiServer?.(bed)) ?? { server: cluster.server, ca: cluster.ca };
    const token = await cluster.token('nodewall-system/nodewall-controller');
    const path = join(cluster.folder, `controller-${port}.kubeconfig`);
    await writeFile(path, kubeconfig({ ...api, token }), { mode: 0o600 });
    const args = [
      ...['--kubeconfig', path, '--listen', `${address}:${port}`, '--log-format', 'json'],
      ...['--webhook-listen', `${address}:${port + 1}`, '--metrics-listen', `127.0.0.1:${port + 2}`],
      // Earlier releases have no such option.
      ...(release === ROOT ? peersOf(port) : []).map((peer) => `--peer=${address}:${peer}`),
      ...(options.controllerOptions ?? []),
    ];
    const running = toRunningAgent(controlPlane.spawn([programOf(release), 'controller', ...args]));
    const health = join(cluster.folder, `health-${port}.socket`);
    await relay(controlPlane, { path: health }, { host: '127.0.0.1', port: port + 2 });
    const replica: Replica = {
      log: running.log,
      isRunning: running.isRunning,
      end: running.end,
      ready: () => get(health, '/readyz'),
      metrics: () => get(health, '/metrics'),
    };
    replicas.push(replica);
    return replica;
  }

  async function applyRelease(release: string): Promise<void> {
    for (const path of [...globSync('deploy/crds/*.yaml', { cwd: release }), 'deploy/rbac.yaml'])
      await cluster.apply(await readFile(join(release, path), 'utf8'));
    await cluster.established();
  }

  async function leads(one: Replica): Promise<boolean> {
    return one.isRunning() && /^nodewall_controller_leader 1$/m.test(await one.metrics());
  }

  async function routed(): Promise<Replica> {
    let ready: number[] = [];
    let leading = -1;
    await until(
      'a controller leads',
      async () => {
        const all = [...replicas.keys()];
        const isReady = await Promise.all(
          replicas.map(async (one) => one.isRunning() && (await one.ready()) === '200 ok'),
        );
        ready = all.filter((i) => isReady[i]);
        leading = (await Promise.all(replicas.map(leads))).indexOf(true);
        return leading !== -1 && replicas.every((one, i) => isReady[i] || !one.isRunning());
      },
      { limit: 2 * LIMIT, detail: logs },
    );
    // As a Service does: each connection goes to any replica that is ready.
    const balanced = (offset: number): string => {
      const targets = ready.map((i, at) => `${at} : ${FIRST_PORT + PORTS_OF_REPLICA * i + offset}`);
      return `dnat ip to ${address} : numgen random mod ${ready.length} map { ${targets.join(', ')} }`;
    };
    const there = `ip daddr ${address} tcp dport`;
    const rules = `${there} ${SERVICE_PORT} ${balanced(0)}; ${there} ${WEBHOOK_PORT} ${balanced(1)}`;
    const stdin = `table inet service\ndelete table inet service\ntable inet service {
  chain prerouting { type nat hook prerouting priority dstnat; ${rules}; }
  chain output { type nat hook output priority -100; ${rules}; }
}\n`;
    await controlPlane.run(['nft', '-f', '-'], { stdin });
    return replicas[leading] ?? assert.fail();
  }

  async function apiOptions(file: (kind: string) => string): Promise<string[]> {
    await writeFile(file('api-ca'), cluster.ca);
    const token = await cluster.token('nodewall-system/nodewall-agent');
    await writeFile(file('api-token'), token, { mode: 0o600 });
    const server = `https://${address}:${new URL(cluster.server).port}`;
    return [
      ...['--api-server', server, '--api-token-file', file('api-token')],
      ...['--api-ca-file', file('api-ca')],
    ];
  }

  async function addAgent(machine: Machine): Promise<Agent> {
    const { name, namespace } = machine;
    const file = (kind: string): string => join(cluster.folder, `${name}.${kind}`);
    const { data } = await cluster.get<{ data: Record<string, string> }>(
      'configmap',
      'nodewall-ca',
      '--namespace=nodewall-system',
    );
    const real = { server: `https://${address}:${SERVICE_PORT}`, ca: data['ca.crt'] ?? '' };
    const origin = (await options.controller?.(bed, real)) ?? real;
    await writeFile(file('ca'), origin.ca);
    const trusts = options.asksApiServer === true ? await apiOptions(file) : ['--ca-file', file('ca')];
    const args = [
      ...['agent', '--controller', origin.server, '--node', name, '--state-dir', file('state')],
      ...['--token-file', file('token'), ...trusts, '--config', agentConfig, '--log-format', 'json'],
    ];
    let past = '';
    let heard = 0;
    let running: RunningAgent | null = null;
    let program = programOf(options.release ?? ROOT);
    const commands = new WarmNodewall(namespace);
    const log = (): string => past + (running?.log() ?? '');
    const agent: Agent = {
      machine,
      tokenFile: file('token'),
      log,
      async says(text) {
        const isSaid = async (): Promise<boolean> => log().includes(text, heard);
        await until(`${name} says ${text}`, isSaid, { limit: 2 * LIMIT, detail: logs });
        heard = log().length;
      },
      start(...more) {
        past = log();
        heard = past.length;
        const config = program === NODEWALL ? ['--config', unguarded] : [];
        running = toRunningAgent(namespace.spawn([program, ...args, ...config, ...more]));
      },
      isRunning: () => running?.isRunning() === true,
      end: async (signal) => void (await running?.end(signal)),
      async replace(release) {
        await agent.end('SIGTERM');
        program = programOf(release);
        agent.start();
      },
      async run(...more) {
        await commands.run(...more, '--state-dir', file('state'));
      },
      async setToken(token) {
        const bound = { boundNode: name, audiences: ['nodewall-controller'] };
        const written = token ?? (await cluster.token('nodewall-system/nodewall-agent', bound));
        await writeFile(file('token'), written, { mode: 0o600 });
      },
      async rules() {
        const argv = ['nft', '-s', 'list', 'table', 'inet', 'nodewall'];
        const { status, stdout } = await namespace.run(argv, { anyStatus: true });
        return status === 0 ? toStableText(stdout.replace(UNUSED, '')) : '';
      },
    };
    agents[name] = agent;
    await agent.setToken();
    agent.start();
    ending.push(async () => {
      await commands.close();
      await agent.end('SIGKILL');
    });
    return agent;
  }

  const status = async (name: string): Promise<PolicyStatus | undefined> =>
    (await cluster.get<{ status?: PolicyStatus }>(POLICIES, name)).status;

  const documents = (manifests: readonly object[]): string =>
    manifests.map((one) => JSON.stringify(one)).join('\n---\n');
  const apply = (...manifests: readonly object[]): Promise<Finished> =>
    cluster.kubectl(['apply', '-f', '-'], { stdin: documents(manifests) });
  const applied = (...manifests: readonly object[]): Promise<void> =>
    cluster.apply(documents(manifests), { force: true });

  const story: Story = {
    ...bed,
    close,
    replicas,
    agents,
    kubectl,
    addReplica,
    applyRelease,
    routed,
    addAgent,
    async removeAgent(name) {
      await agents[name]?.end('SIGTERM');
      await bed.machine(name).namespace.run(['nft', 'delete', 'table', 'inet', 'nodewall']);
      delete agents[name];
    },
    status,
    apply,
    applied,
    async sees(from, to, port, wanted) {
      const [caller, called] = [bed.machine(from), bed.machine(to)];
      let last: Reached | null = null;
      await until(
        `${from} sees port ${port} of ${to} ${wanted}`,
        async () => {
          last = await reach(caller, called, port);
          return last === wanted;
        },
        { limit: LIMIT, detail: () => `last: ${last}\n${logs()}` },
      );
    },
    async gets(from, dst, port, wanted) {
      await Promise.all([...bed.nodes, ...bed.others].map(party));
      const { v4: src } = bed.machine(from);
      const caller = await party(bed.machine(from));
      let last = '';
      await until(
        `${from} at ${dst}:${port}: ${wanted}`,
        async () => {
          const call = { protocol: 'tcp', family: 4, src, dst, port, patience: 2 * PATIENCE } as const;
          last = (await caller.call(call)).outcome;
          return last === wanted;
        },
        { limit: LIMIT, detail: () => `last: ${last}\n${logs()}` },
      );
    },
    async withoutLeaks(to, port, action) {
      const { namespace: node, ...called } = bed.machine(to);
      const { namespace: client, ...caller } = bed.machine('other1');
      const clientAddresses = [{ ...caller, client: 0, group: 0 }];
      const plan = { nodeAddresses: [called], clientAddresses, multicastGroups: [] };
      const target = { protocol: 'tcp', port, family: 4, rate: 500 } as const;
      const { sent, leaked } = await leakedDuring({ node, clients: [client], plan }, target, action);
      assert.ok(sent > 500, `only ${sent} packets`);
      assert.equal(leaked, 0, `leaked ${leaked} of ${sent}`);
    },
    async withoutPolicies() {
      const { items } = await cluster.get<{ items: { metadata: { name: string } }[] }>(POLICIES);
      const names = items.map(({ metadata }) => metadata.name);
      await removeAll(cluster, POLICIES);
      for (const { machine, isRunning, rules } of Object.values(agents)) {
        const isFree = async (): Promise<boolean> => {
          const text = await rules();
          return names.every((name) => !text.includes(`-${name}-`));
        };
        if (isRunning()) await until(`no rules on ${machine.name}`, isFree, { limit: LIMIT, detail: logs });
      }
    },
    async statusIs(name, wanted, limit = 2 * LIMIT) {
      const isSo =
        typeof wanted === 'function'
          ? wanted
          : (now: PolicyStatus) =>
              Object.entries(wanted).every(([key, value]) => now[key as keyof PolicyStatus] === value);
      let last: unknown;
      await until(
        `status of ${name} ${typeof wanted === 'function' ? wanted : JSON.stringify(wanted)}`,
        async () => {
          const object = await cluster.get<{ metadata: { generation: number }; status?: PolicyStatus }>(
            POLICIES,
            name,
          );
          last = object;
          const { metadata, status: now } = object;
          return now !== undefined && now.observedGeneration === metadata.generation && isSo(now);
        },
        { limit, detail: () => `${JSON.stringify(last)}\n${logs()}` },
      );
    },
    async pod(name, labels, addresses, namespace = 'default') {
      const metadata = { name, namespace, labels };
      const spec = { terminationGracePeriodSeconds: 0, containers: [{ name: 'c', image: 'i' }] };
      await applied({ apiVersion: 'v1', kind: 'Pod', metadata, spec });
      const podIPs = addresses.map((ip) => ({ ip }));
      await cluster.patchStatus([`pod/${name}`, `--namespace=${namespace}`], {
        phase: 'Running',
        podIP: addresses[0],
        podIPs,
      });
    },
    setGate: (enabled) => cluster.apply(GATE(enabled)),
    async sameBytes(limit = LIMIT) {
      const names = Object.keys(agents);
      let different = '';
      await until(
        'agents hold what a stand-alone compile makes',
        async () => {
          const wanted = await standAlone.tables(names);
          different = '';
          for (const name of names) {
            const held = (await agents[name]?.rules()) ?? '';
            if (held !== wanted.get(name))
              different += `${name}\n${held}\n=== compiled\n${wanted.get(name)}\n`;
          }
          return different === '';
        },
        { limit, detail: () => `${different}\n${logs()}` },
      );
    },
  };

  const agentConfig = join(cluster.folder, 'agent.yaml');
  const standAlone = new StandAloneCompile(cluster, agentConfig);
  ending.push(() => standAlone.close());
  // Guarded apply would put each Realized off; earlier releases don't know it.
  const unguarded = join(cluster.folder, 'unguarded.yaml');
  try {
    // As test/netns/agent.yaml; the egress failsafe would have the controller's address on it, and
    // the exemption localPods the node's routes, which no other command knows.
    const config = {
      interfaceGroups: { pods: { group: 8, match: [] } },
      interfaceGroupFile: '',
      failsafe: { egress: [] },
      exemptions: { localPods: false },
    };
    await writeFile(agentConfig, stringify(config));
    await writeFile(unguarded, stringify({ ...config, guard: { enabled: false } }));
    await applyRelease(options.release ?? ROOT);
    await cluster.apply(GATE(true));
    await cluster.apply(await webhooksAt(`https://${address}:${WEBHOOK_PORT}`));
    for (let i = 0; i < (options.replicas ?? 1); i++) {
      await addReplica();
      await routed();
    }
    ending.push(async () => {
      for (const replica of replicas) await replica.end('SIGKILL');
    });
    for (const machine of bed.nodes) await addAgent(machine);
    for (const agent of Object.values(agents)) {
      await until(`rules on ${agent.machine.name}`, async () => (await agent.rules()) !== '', {
        limit: LIMIT,
        detail: logs,
      });
    }
  } catch (error) {
    await close();
    throw error;
  }
  return story;
}
