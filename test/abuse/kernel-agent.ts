import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { connect, createServer, type Server } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { createNamespace, type Namespace } from '../netns/namespace.ts';
import { relay } from '../netns/relay.ts';
import { NODEWALL } from '../program.ts';
import type { Enforced } from './follower.ts';
import type { RunningController } from './running-controller.ts';

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
