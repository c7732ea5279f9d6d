import { type ControllerClient, controllerClient } from '../../agent/receive/controller-client.ts';
import { fold } from '../../agent/receive/fold.ts';
import { fileAuthorities } from '../../agent/receive/https-call.ts';
import { ControllerStream } from '../../agent/receive/stream.ts';
import { renderer } from '../../agent/render/render.ts';
import type { Ruleset } from '../../agent/render/ruleset.ts';
import type { NodeState } from '../../apis/compiled.ts';
import { DEFAULT_CONFIG } from '../../apis/config.ts';
import { systemClock } from '../../lib/process/clock.ts';
import type { RunningController } from './running-controller.ts';

/** Called with the name of each rule, the first time that it is in force there, and the time. */
export type Enforced = (rule: string, at: number) => void;

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
