/**
 * A node namespace with a manifests directory and `bin/nodewall` to enforce it: the product as a
 * black box. docs/semantics.md is the contract.
 */

import type { ChildProcess } from 'node:child_process';
import { mkdir, mkdtemp, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type RunResult, stop } from '../netns/namespace.ts';
import { type AddressPlan, addressPlan, createTopology, type Topology } from '../netns/topology.ts';
import { NODEWALL } from '../program.ts';
import { type Dataplane, inForce, lose, NFTABLES } from './dataplane.ts';
import { NODE_NAME, node } from './manifests.ts';
import { pause, until } from './until.ts';
import { type Ended, type Printed, WarmNodewall } from './warm.ts';

/**
 * Milliseconds until rules are in force; less than a test's time limit, which would say nothing of
 * the agent.
 */
const PATIENCE = 120_000;
/** What an agent logs when rules are in force, of a policy and of all. */
const ENFORCED = 'enforced"';

export interface EnforcedNode {
  readonly topology: Topology;
  /** What agents enforce by, unless a configuration says another. */
  readonly dataplane: Dataplane;
  /** The manifests directory; it holds node.json from the start. */
  readonly manifests: string;
  readonly stateDir: string;
  /** Writes a manifest file as an editor or a config tool does: beside, then renamed. */
  write(name: string, content: readonly object[] | string): Promise<void>;
  remove(name: string): Promise<void>;
  /**
   * Writes an agent configuration outside the manifests directory, and gives the options that name
   * it.
   */
  configure(config: RawConfig): Promise<string[]>;
  /** `nodewall agent --once`. Rejects unless it ends with 0. */
  once(...options: readonly string[]): Promise<RunResult>;
  /** The same in one process for all calls (warm.ts), for tests of many rule sets. */
  again(...options: readonly string[]): Promise<Printed>;
  /** `nodewall` with these arguments and the state directory, by that process. */
  ask(...args: readonly string[]): Promise<Printed>;
  /** The same, whatever its exit status. */
  asked(...args: readonly string[]): Promise<Ended>;
  /** `nodewall cleanup` by that process, and nothing is left in the state directory. */
  clear(): Promise<void>;
  /** `nodewall agent`, running on. */
  start(...options: readonly string[]): RunningAgent;
  /** `nodewall agent --controller`, with what else it needs in `options`. */
  follow(controller: URL, ...options: readonly string[]): RunningAgent;
  /**
   * Loads what `nodewall compile -o nft` prints for the manifests, in the place of the table: the
   * rules without the agent. By the same process.
   */
  load(names: object, ...options: readonly string[]): Promise<Printed>;
  /** `nodewall cleanup`, by that process. */
  cleanup(): Promise<Printed>;
  /**
   * What is in force of ours without counters and handles, blocks sorted; '' when that is nothing.
   * First waits for agents that are about to log what they have done: a change is several
   * transactions.
   */
  rules(dataplane?: Dataplane): Promise<string>;
  /** Waits until what is in force, in both families, says something, a marker port for instance. */
  untilEnforced(text: string, agent?: RunningAgent, dataplane?: Dataplane): Promise<void>;
  /** Takes the rules away as a reboot does. */
  lose(): Promise<void>;
  nft(text: string): Promise<void>;
  close(): Promise<void>;
}

export interface RunningAgent {
  /** What it wrote to standard output and error so far. */
  log(): string;
  /** Resolves when it writes more, or ends. */
  news(): Promise<void>;
  isRunning(): boolean;
  /** Ends it, and what it started; waits until it is gone. */
  end(signal: 'SIGTERM' | 'SIGKILL'): Promise<void>;
  /** Stops it, and what it started, or lets it go on. */
  readonly signal: (signal: 'SIGSTOP' | 'SIGCONT') => Promise<void>;
}

export async function createEnforcedNode(
  plan: AddressPlan = addressPlan(),
  own: Dataplane = NFTABLES,
  /** The program that is started next. */
  program: () => string = () => NODEWALL,
): Promise<EnforcedNode> {
  const topology = await createTopology(plan);
  const folder = await mkdtemp(join(tmpdir(), 'nodewall-kernel-'));
  const manifests = join(folder, 'manifests');
  const stateDir = join(folder, 'state');
  await mkdir(manifests);
  const agents = new Set<RunningAgent>();
  const warm = new WarmNodewall(topology.node);
  const defaults = join(folder, 'defaults.yaml');
  await writeConfig(defaults, {});
  const always = ['--node', NODE_NAME, '--state-dir', stateDir, '--config', defaults];
  // Guarded apply is on by default in a cluster; tests of it say so. Earlier versions don't know
  // it.
  const unguarded = join(folder, 'unguarded.yaml');
  await writeConfig(unguarded, { guard: { enabled: false } });
  const common = ['agent', '--manifests', manifests, ...always];

  async function writeConfig(path: string, config: RawConfig): Promise<void> {
    await writeFile(path, JSON.stringify({ ...own.config, ...withoutPods(config) })); // JSON is YAML
  }

  async function write(name: string, content: readonly object[] | string): Promise<void> {
    const text =
      typeof content === 'string'
        ? content
        : JSON.stringify({ apiVersion: 'v1', kind: 'List', items: content }, null, 1);
    const fresh = join(folder, `${name}.fresh`);
    await writeFile(fresh, text);
    await rename(fresh, join(manifests, name));
  }

  function started(...args: readonly string[]): RunningAgent {
    const agent = toRunningAgent(topology.node.spawn([program(), ...args]));
    agents.add(agent);
    return agent;
  }

  await write('node.json', [node(plan)]);
  return {
    topology,
    dataplane: own,
    manifests,
    stateDir,
    write,
    async rules(dataplane = own) {
      await quiet([...agents]);
      return (await inForce(topology.node, dataplane)).text;
    },
    async configure(config) {
      const path = join(folder, 'config.yaml');
      await writeConfig(path, config);
      return ['--config', path];
    },
    remove: (name) => rm(join(manifests, name)),
    once: (...options) => topology.node.run([NODEWALL, ...common, '--once', ...options]),
    again: (...options) => warm.run(...common, '--once', ...options),
    ask: (...args) => warm.run(...args, '--state-dir', stateDir),
    asked: (...args) => warm.end(...args, '--state-dir', stateDir),
    async clear() {
      await warm.run('cleanup', '--state-dir', stateDir, '--config', defaults);
      await rm(stateDir, { recursive: true, force: true });
    },
    start: (...options) => started(...common, ...options),
    follow({ origin }, ...options) {
      const config = program() === NODEWALL ? ['--config', unguarded] : [];
      return started('agent', '--controller', origin, ...always, ...config, ...options);
    },
    async load(names, ...options) {
      const path = join(folder, 'names.yaml');
      await writeFile(path, JSON.stringify(names)); // JSON is YAML
      const inputs = ['--manifests', manifests, '--node', NODE_NAME, '--names', path];
      const compiled = await warm.run('compile', ...inputs, '-o', 'nft', ...options);
      const stdin = `table inet nodewall\ndelete table inet nodewall\n${compiled.stdout}`;
      await topology.node.run(['nft', '-f', '-'], { stdin });
      return compiled;
    },
    cleanup: () => warm.run('cleanup', '--state-dir', stateDir, '--config', defaults),
    lose: () => lose(topology.node, own),
    async untilEnforced(text, agent, dataplane = own) {
      const word = new RegExp(`\\b${text}\\b`);
      const detail = () => agent?.log().slice(-3000) ?? '';
      const isThere = async () => {
        if (agent?.isRunning() === false) throw new Error(`the agent ended:\n${detail()}`);
        return (await inForce(topology.node, dataplane)).says(word);
      };
      const some = agent ? [agent] : [...agents];
      const said = () => some.map((one) => `${one.isRunning()} ${one.log().split(ENFORCED).length}`).join();
      const news = async () => {
        for (const before = said(); said() === before; ) await Promise.race(some.map((one) => one.news()));
      };
      await until(`what is in force says ${text}`, isThere, { limit: PATIENCE, detail, news });
    },
    nft: async (stdin) => void (await topology.node.run(['nft', '-f', '-'], { stdin })),
    async close() {
      await Promise.all([warm.close(), ...[...agents].map((agent) => agent.end('SIGKILL'))]);
      await topology.close();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

interface RawConfig {
  readonly [key: string]: unknown;
  readonly interfaceGroups?: Readonly<Record<string, number | object>>;
  readonly log?: object;
  readonly guard?: object;
}

/**
 * What test/netns/agent.yaml says, and why, unless the configuration says otherwise: a namespace's
 * links to clients are no pods.
 */
function withoutPods(config: RawConfig): object {
  const { pods = 8, ...others } = config.interfaceGroups ?? {};
  const group = typeof pods === 'number' ? { group: pods } : pods;
  return {
    interfaceGroupFile: '',
    ...config,
    interfaceGroups: { ...others, pods: { match: [], ...group } },
  };
}

/** Waits until these have logged nothing for a moment, two seconds at most. */
async function quiet(agents: readonly RunningAgent[]): Promise<void> {
  const running = agents.filter((one) => one.isRunning());
  if (running.length === 0) return;
  for (let look = 0, isNews = true; isNews && look < 10; look++)
    isNews = await Promise.race([
      ...running.map((one) => one.news().then(() => true)),
      pause(200).then(() => false),
    ]);
}

/** bin/nodewall, started. */
export function toRunningAgent(child: ChildProcess): RunningAgent {
  const parts: string[] = [];
  let next = Promise.withResolvers<void>();
  const add = (...more: readonly unknown[]): void => {
    parts.push(...more.map(String));
    next.resolve();
    next = Promise.withResolvers();
  };
  child.stdout?.on('data', (part) => add(part));
  child.stderr?.on('data', (part) => add(part));
  child.once('exit', () => add());
  const isRunning = () => child.exitCode === null && child.signalCode === null;
  return {
    log: () => parts.join(''),
    news: () => next.promise,
    isRunning,
    async signal(signal) {
      if (child.pid === undefined) return;
      for (const pid of [child.pid, ...(await descendants(child.pid))]) kill(pid, signal);
    },
    async end(signal) {
      if (!isRunning() || child.pid === undefined) return;
      // bin/nodewall may start Node instead of becoming it: a kill -9 must reach the agent itself.
      const pids = await descendants(child.pid);
      if (signal === 'SIGKILL') for (const pid of pids) kill(pid, signal);
      child.kill(signal);
      const detail = () => parts.join('').slice(-3000);
      try {
        await until(`the agent ends on ${signal}`, async () => !isRunning(), { detail });
        if (detail().includes('not ended within')) throw new Error(`the agent had to be ended: ${detail()}`);
        await until('what the agent started ends', async () =>
          (await Promise.all(pids.map(isGone))).every(Boolean),
        );
      } finally {
        await stop(child);
      }
    },
  };
}

/** What bin/nodewall starts before the agent may have ended since it was listed. */
function kill(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}

async function descendants(pid: number): Promise<number[]> {
  const text = await readFile(`/proc/${pid}/task/${pid}/children`, 'utf8').catch(() => '');
  const children = text.split(' ').filter(Boolean).map(Number);
  return [...children, ...(await Promise.all(children.map(descendants))).flat()];
}

async function isGone(pid: number): Promise<boolean> {
  const state = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => undefined);
  return state === undefined || state.includes(') Z ');
}
