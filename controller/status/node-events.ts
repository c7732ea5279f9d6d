import type { NodeReport, NodeTotals } from '../../apis/node-report.ts';
import { type RateLimiter, rateLimiter } from '../../lib/process/fair-queue.ts';
import type { FailureEvents } from './failure-events.ts';

/** So many Events of one node at once, and then so many a second. */
const LIMIT = { burst: 6, perSecond: 1 / 60 };
/** Names of policies in a note. */
const MOST_NAMED = 5;

interface NodeEventsOptions {
  readonly events: Pick<FailureEvents, 'happened'>;
  /** Whether it is certain that no other process leads. */
  readonly isLeader: () => boolean;
  /** Monotonic milliseconds. */
  readonly now: () => number;
}

export interface NodeEvent {
  readonly type: 'Normal' | 'Warning';
  readonly reason: string;
  readonly note: string;
}

/** Events on Nodes about what their reports count: the leader writes them, and few of one node. */
export class NodeEvents {
  readonly #options: NodeEventsOptions;
  readonly #limiter: RateLimiter;

  constructor(options: NodeEventsOptions) {
    this.#options = options;
    this.#limiter = rateLimiter({ ...LIMIT, now: options.now });
  }

  /** Something other than a report says so. */
  happened(node: string, event: NodeEvent): void {
    const { events, isLeader } = this.#options;
    if (isLeader() && this.#limiter.allows(node)) events.happened(node, event);
  }

  /** @param before the same node's report before this one; null: this is the first */
  receive(report: NodeReport, before: NodeReport | null): void {
    for (const event of eventsBetween(report, before)) this.happened(report.node, event);
  }
}

/** Events of the node between two of its reports. */
export function eventsBetween({ totals: now, failing }: NodeReport, before: NodeReport | null): NodeEvent[] {
  const last = before?.totals;
  if (now === undefined || last === undefined) return [];
  const events: NodeEvent[] = [];
  const drifts = growth(last, now, 'drifts');
  if (drifts > 0)
    events.push({
      type: 'Warning',
      reason: 'NodewallDriftRepaired',
      note: `a third party changed the rules of nodewall in the kernel (${times(drifts)}); the agent repaired them`,
    });
  const rollbacks = growth(last, now, 'rollbacks');
  if (rollbacks > 0) {
    const names = [...new Set(failing.flatMap(({ policy, rolledBack }) => (rolledBack ? policy : [])))];
    const policies = names.length === 0 ? '' : `: ${names.slice(0, MOST_NAMED).join(', ')}`;
    events.push({
      type: 'Warning',
      reason: 'NodewallRolledBack',
      note: `the node rolled back changes of policies (${times(rollbacks)})${policies}`,
    });
  }
  if (last.failsafeRules === 0 && now.failsafeRules > 0)
    events.push({
      type: 'Normal',
      reason: 'NodewallFailsafeInEffect',
      note: `the traffic of the failsafe list is exempt from ${now.failsafeRules} of the rules in force, which deny and name no ports`,
    });
  return events;
}

/** A count that shrank began again with the agent. */
function growth(last: NodeTotals, now: NodeTotals, count: 'drifts' | 'rollbacks'): number {
  return now[count] < last[count] ? now[count] : now[count] - last[count];
}

function times(count: number): string {
  return count === 1 ? 'once' : `${count} times`;
}
