import { isDeepStrictEqual } from 'node:util';
import { EGRESS_FEATURE, type NodeReport, SILENCE } from '../../../apis/node-report.ts';
import type { Clock } from '../../../lib/process/clock.ts';
import { parseRevision } from '../../publish/revision.ts';

interface Received {
  readonly report: NodeReport;
  readonly at: number;
}

/** The last report of each agent, of which owners and statuses depend on the part of egress. */
export class AgentReports {
  readonly #clock: Pick<Clock, 'now'>;
  readonly #received = new Map<string, Received>();

  constructor(clock: Pick<Clock, 'now'>) {
    this.#clock = clock;
  }

  get size(): number {
    return this.#received.size;
  }

  /** @returns whether it says something else than the one before that decisions depend on */
  receive(report: NodeReport): boolean {
    const before = this.last(report.node);
    this.#received.set(report.node, { report, at: this.#clock.now() });
    return before === undefined || !isDeepStrictEqual(factsOf(before), factsOf(report));
  }

  /** Undefined: there is none, or the agent has been silent since. */
  fresh(node: string): NodeReport | undefined {
    const received = this.#received.get(node);
    return received !== undefined && this.#clock.now() - received.at <= SILENCE ? received.report : undefined;
  }

  /** However old. */
  last(node: string): NodeReport | undefined {
    return this.#received.get(node)?.report;
  }

  /** Forgets deleted nodes. A report may come before the Node that it is of. */
  keep(nodes: { has(node: string): boolean }): void {
    for (const node of this.#received.keys())
      if (!nodes.has(node) && this.fresh(node) === undefined) this.#received.delete(node);
  }
}

function factsOf(report: NodeReport): unknown {
  return [agentLack(report), report.egress, parseRevision(report.enforced ?? '')?.position];
}

/**
 * Why the agent steers nothing as its view says, or drops what a gateway needs; null: nothing is
 * known. A word, and what the agent says.
 */
export function agentLack(report: NodeReport): string | null {
  const { features, egress, off, enabled, viewError } = report;
  if (off !== undefined || !enabled) return 'AgentOff';
  if (features?.includes(EGRESS_FEATURE) !== true) return withText('AgentWithoutEgress', egress?.refused);
  return viewError === undefined ? null : withText('AgentNotFollowing', viewError);
}

/** The lack in the node's network configuration, whose connections are dropped; null: none. */
export function networkLack({ egress }: NodeReport): string | null {
  const [first, ...more] = egress?.problems ?? [];
  if (first === undefined) return null;
  return withText('NetworkIncomplete', `${first}${more.length === 0 ? '' : ` (and ${more.length} more)`}`);
}

function withText(word: string, text: string | undefined): string {
  return text === undefined ? word : `${word}: ${text.slice(0, LONGEST)}`;
}

/** A status names up to a hundred nodes. */
const LONGEST = 200;
