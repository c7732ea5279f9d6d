import { type RememberedNode, rememberedNode, rememberNode } from '../agent/run/state-store.ts';
import type { NodeState } from '../apis/compiled.ts';
import type { Config } from '../apis/config.ts';
import type { ClusterObjects } from '../apis/objects.ts';
import { compiler } from '../controller/compile/compile.ts';
import { nodeViewer } from '../controller/publish/node-view.ts';
import type { Log } from '../lib/process/log.ts';
import { egressView } from './egress/standalone-egress.ts';
import type { MachineNode } from './machine-node.ts';

interface SightOptions {
  readonly node: string;
  /** Makes the Node if no manifest declares one; null: one must be declared. */
  readonly machine: MachineNode | null;
  /** The name by which this machine was a Node until its host name was changed; null: it wasn't. */
  readonly formerName: string | null;
  readonly config: Config;
  readonly log: Pick<Log, 'error'>;
}

interface SeenNode {
  /** The name by which this machine is a Node. */
  readonly node: string;
  /** Those given, with this machine's Node if they have none. */
  readonly objects: ClusterObjects;
  /** The state to be enforced; null: no manifest declares the Node. */
  readonly state: NodeState | null;
  /** Policies that select this machine by its former name alone; none: it goes by its own. */
  readonly lost: readonly string[];
}

/**
 * The manifests' state for the Node of this machine. A changed host name must not remove rules:
 * as long as policies select this machine by its former name alone, it goes on as that Node.
 */
export class NodeSight {
  readonly #own: Eye;
  #former: Eye | null;
  #now: Eye;

  constructor({ node, machine, formerName, config, log }: SightOptions) {
    this.#own = new Eye(node, machine, config, log);
    const isRenamed = machine !== null && formerName !== null && formerName !== node;
    this.#former = isRenamed ? new Eye(formerName, machine.named(formerName), config, log) : null;
    this.#now = this.#own;
  }

  see(objects: ClusterObjects): SeenNode {
    const own = this.#own.see(objects);
    const former = this.#former?.see(objects) ?? null;
    const has = policiesOf(own.state);
    const lost = [...policiesOf(former?.state ?? null)].filter((policy) => !has.has(policy)).sort();
    if (former === null || lost.length === 0) {
      this.#now = this.#own;
      return { ...own, lost: [] };
    }
    this.#now = this.#former ?? this.#own;
    return { ...former, lost };
  }

  /** The new name is accepted. */
  forgetFormer(): void {
    this.#former = null;
  }

  unready(gateways: ReadonlyMap<string, string>, changed: () => void): void {
    this.#now.egress.unready(gateways, changed);
  }
}

class Eye {
  readonly #node: string;
  readonly #machine: MachineNode | null;
  readonly #compile = compiler();
  readonly #view: ReturnType<typeof nodeViewer>;
  readonly egress: ReturnType<typeof egressView>;

  constructor(node: string, machine: MachineNode | null, config: Config, log: Pick<Log, 'error'>) {
    this.#node = node;
    this.#machine = machine;
    this.#view = nodeViewer(node);
    this.egress = egressView(node, config, log);
  }

  see(read: ClusterObjects): Omit<SeenNode, 'lost'> {
    const node = this.#node;
    const objects = this.#machine?.with(read) ?? read;
    const compiled = this.#compile(objects);
    if (!compiled.nodeAddresses.has(node)) return { node, objects, state: null };
    return { node, objects, state: this.egress.view(this.#view(compiled), objects) };
  }
}

function policiesOf(state: NodeState | null): Set<string> {
  const names = (state?.rules ?? []).map(({ source: { apiGroup, policy } }) => `${apiGroup}/${policy}`);
  return new Set(state?.egress === undefined ? names : [...names, 'the policies of egress gateways']);
}

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
