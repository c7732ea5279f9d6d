import { Counter, Gauge, type Registry } from 'prom-client';
import type { AgentMetrics } from './agent-metrics.ts';

/** Views whose time of arrival is remembered until one of them, or a newer one, is in force. */
const MOST_VIEWS = 100;

type ControllerMetrics = Pick<
  AgentMetrics,
  'connected' | 'bookmark' | 'unfollowable' | 'revision' | 'reported'
>;

/**
 * Metrics of an agent's view. A revision is no label: each would make a new series. Two times say
 * the same: when the newest view arrived, and when the one in force did.
 *
 * @param seconds returns the time since 1970
 */
export function viewMetrics(registers: Registry[], seconds: () => number): ControllerMetrics {
  const options = (name: string, help: string) => ({ name: `nodewall_agent_${name}`, help, registers });
  const gauge = (name: string, help: string): Gauge => new Gauge(options(name, help));
  const connected = gauge(
    'controller_connected',
    'Whether the agent is connected to its controller. Without it the rules in force stay.',
  );
  const unfollowable = gauge(
    'view_unfollowable',
    'Whether the agent cannot apply even a full view of the controller: the rules in force stay.',
  );
  const connects = new Counter(
    options('controller_connections_total', 'Successful connections to the controller.'),
  );
  const lastBookmark = gauge(
    'last_bookmark_timestamp_seconds',
    'Time of the last bookmark of the controller, which sends one every 30 s; 0: none yet.',
  );
  const reports = new Counter(
    options('reports_total', "Reports of this node's status that the controller accepted."),
  );
  const received = gauge(
    'view_received_timestamp_seconds',
    'Time at which the newest view of the controller arrived; 0: none yet.',
  );
  const inForce = gauge(
    'view_in_force_timestamp_seconds',
    'Time at which the view in force arrived; 0: before views that this agent had since, or nothing is in force.',
  );
  /** By revision, in the order of arrival. */
  const arrived = new Map<string, number>();

  /** Forgets views that can't come into force any more, as a newer one did. */
  function forgetBefore(revision: string): void {
    for (const known of arrived.keys()) {
      if (known === revision) return;
      arrived.delete(known);
    }
  }

  return {
    connected(is) {
      connected.set(is ? 1 : 0);
      if (is) connects.inc();
    },
    bookmark(revision) {
      const now = seconds();
      lastBookmark.set(now);
      unfollowable.set(0);
      if (arrived.has(revision)) return;
      arrived.set(revision, now);
      received.set(now);
      const [oldest] = arrived.keys();
      if (arrived.size > MOST_VIEWS && oldest !== undefined) arrived.delete(oldest);
    },
    unfollowable: () => unfollowable.set(1),
    revision(enforced) {
      const at = enforced === null ? undefined : arrived.get(enforced);
      inForce.set(at ?? 0);
      if (enforced !== null && at !== undefined) forgetBefore(enforced);
    },
    reported: () => reports.inc(),
  };
}
