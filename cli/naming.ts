import { type RememberedNode, rememberedNode, rememberNode } from '../agent/run/state-store.ts';
import type { Log } from '../lib/process/log.ts';
import type { NodeSight, SeenNode } from './node-sight.ts';

interface NamingOptions {
  /** The name of the host. */
  readonly host: string;
  readonly stateDir: string;
  /** False: --node gives the name. */
  readonly isRemembered: boolean;
  readonly log: Log;
}

/** Milliseconds between two looks at what `nodewall on --renamed` writes. */
const LOOK_INTERVAL = 1_000;

/** Remembers by which name this machine is a Node, and says so when that is its former one. */
export class Naming {
  readonly #options: NamingOptions;
  #last: RememberedNode | null;
  #said = '';
  #saving: Promise<void> = Promise.resolve();

  constructor(options: NamingOptions, last: RememberedNode | null) {
    this.#options = options;
    this.#last = last;
  }

  /** Returns why this machine goes on under its former name; '': it doesn't. */
  tell({ node, state, lost }: SeenNode): string {
    const { host, isRemembered, log } = this.#options;
    if (!isRemembered) return '';
    const problem =
      lost.length === 0
        ? ''
        : `the host name of this machine is ${host} now, and policies select it only by its former name ${node}: ${lost.join(', ')}. Their rules stay: this machine goes on as Node ${node}. Change the policies, or accept the new name: nodewall on --renamed`;
    if (problem !== this.#said && problem !== '') log.error(problem, { node: host, stage: 'compile' });
    if (problem === '' && this.#said !== '') log.info('this machine goes by its new name', { node: host });
    this.#said = problem;
    if (state !== null && (this.#last?.node !== node || this.#last.host !== host)) {
      this.#last = { node, host };
      this.#saving = this.#saving.then(() => this.#save({ node, host }));
    }
    return problem;
  }

  /** Calls back once `nodewall on --renamed` has accepted the new name. */
  untilAccepted(sight: Pick<NodeSight, 'forgetFormer'>, accepted: () => void): { close(): void } {
    const { stateDir, host } = this.#options;
    const look = async (): Promise<void> => {
      if (this.#said === '') return;
      await this.#saving;
      if ((await rememberedNode(stateDir))?.node !== host) return;
      sight.forgetFormer();
      accepted();
    };
    const timer = setInterval(() => void look(), LOOK_INTERVAL).unref();
    return { close: () => clearInterval(timer) };
  }

  /** Waits for what is being saved. */
  idle(): Promise<void> {
    return this.#saving;
  }

  async #save(remembered: RememberedNode): Promise<void> {
    const { host, stateDir, log } = this.#options;
    try {
      await rememberNode(stateDir, remembered);
    } catch (error) {
      const { message } = error as Error;
      log.error('cannot save by which name this machine is a Node', { node: host, error: message });
    }
  }
}
