import { NODE_REPORT, type NodeReport } from '../../apis/node-report.ts';
import { number, type Of, object } from '../../apis/schema/shape.ts';

/** A report, as one controller passes it on to another. */
export type AgedReport = Of<typeof AGED_REPORT>;
export const AGED_REPORT = object({
  report: NODE_REPORT,
  /** The time since it arrived at the controller that the agent sent it to (milliseconds). */
  age: number(0),
});

/** The last report of each node, whichever controller its agent sent it to. */
export class NodeReports {
  readonly #now: () => number;
  readonly #received: (report: NodeReport, before: NodeReport | null) => void;
  readonly #reports = new Map<string, { readonly report: NodeReport; readonly at: number }>();

  /**
   * @param now returns monotonic milliseconds
   * @param taken called with each report that is taken, and the one before it of the same node
   */
  constructor(now: () => number, taken: (report: NodeReport, before: NodeReport | null) => void = () => {}) {
    this.#now = now;
    this.#received = taken;
  }

  get(node: string): NodeReport | null {
    return this.#reports.get(node)?.report ?? null;
  }

  /**
   * False if there is a later one already: an agent may have gone from one controller to another.
   */
  receive({ report, age }: AgedReport): boolean {
    const at = this.#now() - age;
    const before = this.#reports.get(report.node);
    if (at < (before?.at ?? Number.NEGATIVE_INFINITY)) return false;
    this.#reports.set(report.node, { report, at });
    this.#received(report, before?.report ?? null);
    return true;
  }

  aged(node: string): AgedReport | null {
    const found = this.#reports.get(node);
    return found === undefined ? null : { report: found.report, age: this.#now() - found.at };
  }

  *all(): Generator<NodeReport> {
    for (const { report } of this.#reports.values()) yield report;
  }

  /** The names of the nodes that have reported. */
  nodes(): Iterable<string> {
    return this.#reports.keys();
  }

  /** Removes those of deleted nodes, once there are many. */
  forgetDeleted(nodes: Pick<ReadonlyMap<string, unknown>, 'has' | 'size'>): void {
    if (this.#reports.size <= 100 + 2 * nodes.size) return;
    for (const name of this.#reports.keys()) if (!nodes.has(name)) this.#reports.delete(name);
  }
}
