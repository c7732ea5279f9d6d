import { SILENCE } from '../../../apis/node-phase.ts';
import type { NodeReport } from '../../../apis/stream.ts';
import type { Clock } from '../../../lib/process/clock.ts';

interface Heard {
  readonly report: NodeReport;
  readonly at: number;
}

/** The last report of each agent. */
export class HeardReports {
  readonly #clock: Pick<Clock, 'now'>;
  readonly #heard = new Map<string, Heard>();

  constructor(clock: Pick<Clock, 'now'>) {
    this.#clock = clock;
  }

  get size(): number {
    return this.#heard.size;
  }

  /** @returns the report before */
  receive(report: NodeReport): NodeReport | undefined {
    const before = this.last(report.node);
    this.#heard.set(report.node, { report, at: this.#clock.now() });
    return before;
  }

  /** Undefined: there is none, or the agent has been silent since. */
  fresh(node: string): NodeReport | undefined {
    const heard = this.#heard.get(node);
    return heard !== undefined && this.#clock.now() - heard.at <= SILENCE ? heard.report : undefined;
  }

  /** However old. */
  last(node: string): NodeReport | undefined {
    return this.#heard.get(node)?.report;
  }

  /** Forgets deleted nodes. A report may come before the Node that it is of. */
  keep(nodes: { has(node: string): boolean }): void {
    for (const node of this.#heard.keys())
      if (!nodes.has(node) && this.fresh(node) === undefined) this.#heard.delete(node);
  }
}
