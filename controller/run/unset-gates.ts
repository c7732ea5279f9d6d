import type { GateValue, NodeReport } from '../../apis/stream.ts';
import type { Clock } from '../../lib/process/clock.ts';
import type { Log } from '../../lib/process/log.ts';
import type { GateName } from '../kubeapi/configmap/feature-gate.ts';

export interface UnsetGatesOptions {
  /** The last report of each node. */
  readonly reports: () => Iterable<NodeReport>;
  readonly log: Log;
  readonly clock: Clock;
  /** Announces it to people; nothing where another replica leads. */
  readonly announce: (note: string) => void;
}

/** Milliseconds between two counts: time for the reports to arrive. */
const LOOK = 10_000;

/** Whether a node goes on with what the gate is for. */
const GOES_ON: Readonly<Record<GateName, (report: NodeReport) => boolean>> = {
  NodeNetworkPolicy: ({ enabled }) => enabled,
  EgressGateway: ({ egress }) => egress?.tunnel !== undefined,
};
const SWITCH_ON = 'kubectl apply -f deploy/gate/on.yaml';
const MEANS: Readonly<Record<GateName, string>> = {
  NodeNetworkPolicy: `on enforcing, new nodes enforce nothing: ${SWITCH_ON}`,
  EgressGateway:
    'on steering, and follow no change of egress gateways: set it to true, or false, in ConfigMap nodewall-config',
};

/**
 * The feature gates without a value, and the nodes that go on all the same. It says so again when
 * their number changes.
 */
export class UnsetGates {
  readonly #options: UnsetGatesOptions;
  /** The unset gates, with the number of nodes that was said last. */
  readonly #unset = new Map<GateName, number>();
  #cancel: (() => void) | null = null;

  constructor(options: UnsetGatesOptions) {
    this.#options = options;
  }

  set(name: GateName, value: GateValue): void {
    if (value === 'unset') this.#unset.set(name, this.#unset.get(name) ?? 0);
    else this.#unset.delete(name);
    if (this.#unset.size > 0) this.#arm();
    else this.close();
  }

  /** How many nodes go on without a value of this gate. */
  nodes(name: GateName): number {
    if (!this.#unset.has(name)) return 0;
    let count = 0;
    for (const report of this.#options.reports()) if (GOES_ON[name](report)) count++;
    return count;
  }

  /** The text about all of them; null: nothing has to be said. */
  remark(): string | null {
    const texts = [...this.#unset.keys()].map((name) => remarkOf(name, this.nodes(name)));
    return texts.filter((text) => text !== null).join(' ') || null;
  }

  close(): void {
    this.#cancel?.();
    this.#cancel = null;
  }

  #arm(): void {
    const { clock, log, announce } = this.#options;
    this.#cancel ??= clock.after(LOOK, () => {
      this.#cancel = null;
      for (const [name, said] of this.#unset) {
        const count = this.nodes(name);
        const text = remarkOf(name, count);
        this.#unset.set(name, count);
        if (text === null || count === 0 || count === said) continue;
        log.warn(text, { stage: 'watch', nodes: count });
        announce(text);
      }
      this.#arm();
    });
  }
}

function remarkOf(name: GateName, count: number): string | null {
  if (count === 0 && name === 'EgressGateway') return null;
  if (count === 0)
    return `The feature gate ${name} has no value, and no node enforces anything: ${SWITCH_ON}`;
  const nodes = count === 1 ? '1 node goes' : `${count} nodes go`;
  return `The feature gate ${name} has no value; ${nodes} ${MEANS[name]}`;
}
