import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { connect, createServer, type Server } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { type ControllerClient, controllerClient } from '../../agent/receive/controller-client.ts';
import { fold } from '../../agent/receive/fold.ts';
import { fileAuthorities } from '../../agent/receive/https-call.ts';
import { ControllerStream } from '../../agent/receive/stream.ts';
import { renderer } from '../../agent/render/render.ts';
import type { Ruleset } from '../../agent/render/ruleset.ts';
import type { NodeState } from '../../apis/compiled.ts';
import { DEFAULT_CONFIG } from '../../apis/config.ts';
import { systemClock } from '../../lib/process/clock.ts';
import { createNamespace, type Namespace, relay } from '../netns/namespace.ts';
import { NODEWALL } from '../program.ts';
import type { RunningController } from './running-controller.ts';

/** Called with the name of each rule, the first time that it is in force there, and the time. */
type Enforced = (rule: string, at: number) => void;

/** An agent without a kernel: it follows and folds the stream, and renders each state. */
export class Follower {
  readonly node: string;
  readonly #client: ControllerClient;
  readonly #stream: ControllerStream;
  readonly #known = new Set<string>();
  state: NodeState | null = null;
  ruleset: Ruleset | null = null;
  /** The reasons for which its streams ended. */
  readonly ends: string[] = [];

  static async start(controller: RunningController, node: string, enforced: Enforced): Promise<Follower> {
    return new Follower(controller, node, await controller.tokenFile(`agent.${node}`), enforced);
  }

  private constructor(controller: RunningController, node: string, tokenFile: string, enforced: Enforced) {
    this.node = node;
    const { caFile, ports } = controller;
    const url = new URL(`https://127.0.0.1:${ports.agents}`);
    const address = { url, tokenFile, authorities: fileAuthorities(caFile) };
    const common = { clock: systemClock, random: Math.random };
    const client = controllerClient(address, 'follower', systemClock, Math.random);
    const render = renderer(DEFAULT_CONFIG);
    this.#client = client;
    this.#stream = new ControllerStream({
      ...common,
      node,
      client,
      fold: fold(node),
      events: {
        connected: () => {},
        probe: () => {},
        question: () => {},
        folded: ({ state }) => {
          this.state = state;
          this.ruleset = render(state);
          const at = performance.now();
          for (const { source } of state.rules) {
            if (this.#known.has(source.rule)) continue;
            this.#known.add(source.rule);
            enforced(source.rule, at);
          }
        },
        disconnected: ({ message }) => void this.ends.push(message),
        unfollowable: ({ message }) => void this.ends.push(message),
      },
    });
  }

  async close(): Promise<void> {
    await this.#stream.close();
    this.#client.close();
  }
}

const PORT = 8443;

/**
 * `nodewall agent` in a network namespace, with a path to a controller outside; and what the kernel
 * there says of its rules.
 */
export class KernelAgent {
  readonly #namespace: Namespace;
  readonly #folder: string;
  readonly #bridge: Server;

  private constructor(namespace: Namespace, folder: string, bridge: Server) {
    this.#namespace = namespace;
    this.#folder = folder;
    this.#bridge = bridge;
  }

  static async start(controller: RunningController, node: string, enforced: Enforced): Promise<KernelAgent> {
    const folder = await mkdtemp(join(tmpdir(), 'nodewall-abuse-agent-'));
    const namespace = await createNamespace(node);
    const path = join(folder, 'socket');
    const bridge = createServer((here) => {
      const there = connect(controller.ports.agents, '127.0.0.1');
      for (const [a, b] of [
        [here, there],
        [there, here],
      ] as const)
        a.pipe(b)
          .on('error', () => a.destroy())
          .on('close', () => a.destroy());
    });
    await once(bridge.listen(path), 'listening');
    await namespace.run(['ip', 'link', 'set', 'lo', 'up']);
    await relay(namespace, { host: '127.0.0.1', port: PORT }, { path });
    const monitor = namespace.spawn(['stdbuf', '-oL', 'nft', 'monitor', 'new', 'rules']);
    const known = new Set<string>();
    createInterface(monitor.stdout).on('line', (line) => {
      const at = performance.now();
      const [rule] = /\bchange-\d+\b/.exec(line) ?? [];
      if (rule === undefined || known.has(rule)) return;
      known.add(rule);
      enforced(rule, at);
    });
    const options = {
      node,
      controller: `https://127.0.0.1:${PORT}`,
      'token-file': await controller.tokenFile(`agent.${node}`),
      'ca-file': controller.caFile,
      'state-dir': join(folder, 'state'),
      // Without the machine's own file of interface groups.
      config: join(import.meta.dirname, '../netns/agent.yaml'),
      'log-level': 'warn',
    };
    const args = Object.entries(options).flatMap(([name, value]) => [`--${name}`, value]);
    namespace.spawn([NODEWALL, 'agent', ...args]).stderr.pipe(process.stderr);
    return new KernelAgent(namespace, folder, bridge);
  }

  /** The rules of a chain or table, as nft prints them. */
  async rules(): Promise<string> {
    return (await this.#namespace.run(['nft', 'list', 'table', 'inet', 'nodewall'])).stdout;
  }

  async close(): Promise<void> {
    await this.#namespace.close();
    this.#bridge.close();
    await rm(this.#folder, { recursive: true });
  }
}
