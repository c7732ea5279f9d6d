import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { stringify } from 'yaml';
import type { ClusterOfNodes, Machine } from '../cluster/cluster-of-nodes.ts';
import { type RunningAgent, toRunningAgent } from '../kernel/enforced-node.ts';
import { toStableText } from '../kernel/ruleset-text.ts';
import { until } from '../kernel/until.ts';
import { type Printed, WarmNodewall } from '../kernel/warm.ts';
import { NODEWALL } from '../program.ts';
import { ROOT } from '../structure/source-file.ts';
import { agentToken, controllerCa } from './installed.ts';
import { type Origin, programOf, SERVICE_PORT } from './story-controllers.ts';

/** Milliseconds; an agent that was refused for long tries again after 30 s. */
const LIMIT = 90_000;
/** What stays of anti-spoofing where the last rule is gone (agent/apply/plan/current-state.ts). */
const UNUSED = /\tchain forward \{\n\t\ttype filter hook forward priority filter; policy accept;\n\t\}\n/;

/**
 * The agents' configuration, as test/netns/agent.yaml; the egress failsafe would have the
 * controller's address on it, and the exemption localPods the node's routes, which no other command
 * knows.
 */
export const AGENT_CONFIG = {
  interfaceGroups: { pods: { group: 8, match: [] } },
  interfaceGroupFile: '',
  failsafe: { egress: [] },
  exemptions: { localPods: false },
};

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
  run(...args: readonly string[]): Promise<Printed>;
  /** Writes a token into its file, by default a new one that is bound to its Node. */
  setToken(token?: string): Promise<void>;
  /** Its table without counters and handles; '' when there is none. */
  rules(): Promise<string>;
}

export interface StoryAgentsOptions {
  /** Of the controller as agents see it. */
  readonly controller?: (bed: ClusterOfNodes, origin: Origin) => Promise<Origin>;
  /** The folder of the first programs and CRDs; default: this checkout. */
  readonly release?: string;
  /** Agents ask the API server themselves: for the controller's CA too. */
  readonly asksApiServer?: boolean;
}

/** The agents of a story, as processes on its Nodes. */
export class StoryAgents {
  readonly agents: Record<string, Agent> = {};
  readonly #bed: ClusterOfNodes;
  readonly #options: StoryAgentsOptions;
  /** The latest lines of all processes. */
  readonly #logs: () => string;
  readonly #commands: WarmNodewall[] = [];
  /** Path of the agents' configuration. */
  readonly config: string;
  /** Guarded apply would put each Realized off; earlier releases don't know it. */
  readonly #unguarded: string;

  constructor(bed: ClusterOfNodes, options: StoryAgentsOptions, logs: () => string) {
    this.#bed = bed;
    this.#options = options;
    this.#logs = logs;
    this.config = join(bed.cluster.folder, 'agent.yaml');
    this.#unguarded = join(bed.cluster.folder, 'unguarded.yaml');
  }

  async writeConfig(): Promise<void> {
    await writeFile(this.config, stringify(AGENT_CONFIG));
    await writeFile(this.#unguarded, stringify({ ...AGENT_CONFIG, guard: { enabled: false } }));
  }

  /** Starts one that trusts the controller's CA. */
  async add(machine: Machine): Promise<Agent> {
    const agent = this.#make(machine, await this.#args(machine.name));
    this.agents[machine.name] = agent;
    await agent.setToken();
    agent.start();
    return agent;
  }

  /** Ends it, and removes its rules. */
  async remove(name: string): Promise<void> {
    await this.agents[name]?.end('SIGTERM');
    await this.#bed.machine(name).namespace.run(['nft', 'delete', 'table', 'inet', 'nodewall']);
    delete this.agents[name];
  }

  async end(): Promise<void> {
    for (const commands of this.#commands) await commands.close();
    for (const agent of Object.values(this.agents)) await agent.end('SIGKILL');
  }

  #file(name: string, kind: string): string {
    return join(this.#bed.cluster.folder, `${name}.${kind}`);
  }

  async #args(name: string): Promise<string[]> {
    const { cluster, address } = this.#bed;
    const { controller, asksApiServer = false } = this.#options;
    const real = { server: `https://${address}:${SERVICE_PORT}`, ca: await controllerCa(cluster) };
    const origin = (await controller?.(this.#bed, real)) ?? real;
    const ca = this.#file(name, 'ca');
    await writeFile(ca, origin.ca);
    const trusts = asksApiServer ? await this.#apiOptions(name) : ['--ca-file', ca];
    return [
      ...['agent', '--controller', origin.server, '--node', name],
      ...['--state-dir', this.#file(name, 'state'), '--token-file', this.#file(name, 'token')],
      ...[...trusts, '--config', this.config, '--log-format', 'json'],
    ];
  }

  async #apiOptions(name: string): Promise<string[]> {
    const { cluster, address } = this.#bed;
    const [ca, token] = [this.#file(name, 'api-ca'), this.#file(name, 'api-token')];
    await writeFile(ca, cluster.ca);
    await writeFile(token, await cluster.token('nodewall-system/nodewall-agent'), { mode: 0o600 });
    const server = `https://${address}:${new URL(cluster.server).port}`;
    return ['--api-server', server, '--api-token-file', token, '--api-ca-file', ca];
  }

  #make(machine: Machine, args: readonly string[]): Agent {
    const { name, namespace } = machine;
    const { cluster } = this.#bed;
    const tokenFile = this.#file(name, 'token');
    const commands = new WarmNodewall(namespace);
    this.#commands.push(commands);
    let past = '';
    let heard = 0;
    let running: RunningAgent | null = null;
    let program = programOf(this.#options.release ?? ROOT);
    const log = (): string => past + (running?.log() ?? '');
    const agent: Agent = {
      machine,
      tokenFile,
      log,
      says: async (text) => {
        const isSaid = async (): Promise<boolean> => log().includes(text, heard);
        await until(`${name} says ${text}`, isSaid, { limit: LIMIT, detail: this.#logs });
        heard = log().length;
      },
      start: (...more) => {
        past = log();
        heard = past.length;
        const config = program === NODEWALL ? ['--config', this.#unguarded] : [];
        running = toRunningAgent(namespace.spawn([program, ...args, ...config, ...more]));
      },
      isRunning: () => running?.isRunning() === true,
      end: async (signal) => void (await running?.end(signal)),
      async replace(release) {
        await agent.end('SIGTERM');
        program = programOf(release);
        agent.start();
      },
      run: (...more) => commands.run(...more, '--state-dir', this.#file(name, 'state')),
      async setToken(token) {
        await writeFile(tokenFile, token ?? (await agentToken(cluster, name)), { mode: 0o600 });
      },
      async rules() {
        const argv = ['nft', '-s', 'list', 'table', 'inet', 'nodewall'];
        const { status, stdout } = await namespace.run(argv, { anyStatus: true });
        return status === 0 ? toStableText(stdout.replace(UNUSED, '')) : '';
      },
    };
    return agent;
  }
}
