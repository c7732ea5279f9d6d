import { type NodeReport, nodePhase } from '../../apis/node-report.ts';
import type { Node } from '../../apis/objects.ts';
import { asFields, asList } from '../../apis/schema/json-schema.ts';
import type { GateValue } from '../../apis/stream.ts';
import type { WallClock } from '../../lib/process/clock.ts';
import type { Log } from '../../lib/process/log.ts';
import { WorkQueue } from '../../lib/process/work-queue.ts';
import { messageOf } from '../kubeapi/connection.ts';
import type { KubeApi } from '../kubeapi/kube-api.ts';
import { isKubeError, orNull } from '../kubeapi/kube-error.ts';

interface StartupTaintsOptions {
  /** The key of the taint; '': there is none. */
  readonly taint: string;
  readonly request: KubeApi;
  readonly clock: WallClock;
  readonly log: Log;
  /** The last report of a node; null: none. */
  readonly report: (node: string) => NodeReport | null;
}

/** Milliseconds between two writes. */
const BETWEEN = 20;
const WAITS = { first: 200, longest: 60_000 };

interface TaintedNode {
  readonly metadata: { readonly uid: string; readonly resourceVersion: string };
  readonly spec?: { readonly taints?: unknown };
}

/**
 * Removes the taint with which Nodes join that are to get no pods until nodewall enforces there,
 * while it leads: from each Node whose agent enforces all that it was sent, or which has nothing to
 * enforce as the feature gate is off.
 */
export class StartupTaints {
  readonly #options: StartupTaintsOptions;
  readonly #queue: WorkQueue;
  /** When the Nodes that have the taint were made (milliseconds since 1970), by name. */
  #tainted: ReadonlyMap<string, number> = new Map();
  #leads = false;
  #isGateOff = false;

  constructor(options: StartupTaintsOptions) {
    this.#options = options;
    this.#queue = new WorkQueue({
      clock: options.clock,
      between: BETWEEN,
      waits: WAITS,
      failsAsOne: true,
      work: (node) => this.#remove(node),
    });
  }

  publish(nodes: readonly Node[]): void {
    if (this.#options.taint === '') return;
    this.#tainted = new Map(
      nodes.flatMap(({ name, startsSince }) =>
        startsSince === undefined ? [] : [[name, Date.parse(startsSince) || 0] as const],
      ),
    );
    this.#lookAtAll();
  }

  /** The value of the feature gate NodeNetworkPolicy. */
  gate(value: GateValue): void {
    this.#isGateOff = value !== true;
    this.#lookAtAll();
  }

  /** The node has reported. */
  reported(node: string): void {
    if (this.#tainted.has(node)) this.#look(node);
  }

  async lead(leads: boolean): Promise<void> {
    this.#leads = leads;
    if (!leads) return this.#queue.clear();
    this.#lookAtAll();
  }

  #lookAtAll(): void {
    for (const name of this.#tainted.keys()) this.#look(name);
  }

  /** One that waits after a failure goes on waiting. */
  #look(node: string): void {
    if (this.#leads && !this.#queue.has(node) && this.#isReady(node)) this.#queue.add(node, node);
  }

  /** A report from before the Node was made is of another machine that had its name. */
  #isReady(node: string): boolean {
    const report = this.#options.report(node);
    const since = this.#tainted.get(node);
    if (report === null || since === undefined || Date.parse(report.time) < since) return false;
    const phase = nodePhase(report, this.#options.clock.date().getTime());
    return phase === 'Enforced' || (phase === 'Disabled' && this.#isGateOff);
  }

  async #remove(name: string): Promise<void> {
    const { taint, request, log } = this.#options;
    if (!this.#leads || !this.#isReady(name)) return;
    const path = `/api/v1/nodes/${encodeURIComponent(name)}`;
    try {
      const node = await orNull(request<TaintedNode>({ method: 'GET', path }));
      if (node === null) return;
      const taints = asList(node.spec?.taints);
      const others = taints.filter((one) => asFields(one)?.key !== taint);
      if (others.length < taints.length) {
        // With the version, lest a taint is lost that somebody else adds meanwhile.
        const { uid, resourceVersion } = node.metadata;
        const body = { metadata: { uid, resourceVersion }, spec: { taints: others } };
        await request({ method: 'PATCH', path, body });
        log.info('removed the startup taint: the node enforces', { stage: 'status', node: name, taint });
      }
      this.#queue.forget(name);
    } catch (error) {
      const retryIn = this.#queue.addRateLimited(name, name);
      if (isKubeError(error, 'Conflict')) return;
      const text = 'cannot remove the startup taint of a node; trying again';
      log.warn(text, { stage: 'status', node: name, taint, error: messageOf(error), retryIn });
    }
  }
}
