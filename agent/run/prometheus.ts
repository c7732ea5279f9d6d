import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';
import type { CompiledRule } from '../../apis/compiled.ts';
import { memberTotal } from '../../lib/net/member-set.ts';
import type { Enforced } from '../apply/enforcer.ts';
import type { RuleTotals } from '../record/accounting.ts';
import { SPOOFED } from '../render/anti-spoofing.ts';
import {
  type AgentMetrics,
  MOST_POLICIES,
  type MonitorName,
  type MoreSeries,
  OTHERS,
} from './agent-metrics.ts';

interface PrometheusMetrics extends AgentMetrics {
  readonly registry: Registry;
  extend<S>(series: MoreSeries<S>): S;
  /**
   * Null, or the reason why /readyz fails: nothing is enforced yet. With the gate off, the agent is
   * ready.
   */
  ready(): string | null;
}

interface Options {
  readonly version: string;
  /** Whether the agent follows a controller. */
  readonly isInCluster: boolean;
  /** Whether to export a counter for each rule: many series. */
  readonly ofRules: boolean;
  /** Seconds since 1970; default: the system's clock. */
  readonly seconds?: () => number;
}

const APPLY_FAILURES =
  'Failed applies, which are tried again; the kernel keeps what it has, with iptables in each family.';
/** Seconds. */
const APPLY_BUCKETS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];

/** The metrics of an agent, for Prometheus. Names and labels are stable. */
export function prometheusMetrics(options: Options): PrometheusMetrics {
  const { version, isInCluster, ofRules, seconds = () => Date.now() / 1000 } = options;
  const registry = new Registry();
  const registers = [registry];
  // Event loop monitoring wakes the process for each sample: by default 100 times a second.
  collectDefaultMetrics({ register: registry, eventLoopMonitoringPrecision: 1000 });
  buildInfo(registers, version);
  const { gauge, counter } = agentSeries(registers);
  const isEnabled = gauge(
    'enabled',
    'Whether the feature gate NodeNetworkPolicy lets the agent enforce rules.',
  );
  const isOff = gauge('off', 'Whether nodewall is off on this node: then nothing is enforced.');
  const inForce = inForceMetrics(registers);
  const failures = counter('apply_failures_total', APPLY_FAILURES);
  const drifts = counter(
    'drift_total',
    'Times that a third party changed the rules in force, or their network configuration.',
  );
  const lost = counter('records_lost_total', 'Records of flows that were not written.');
  const monitors = monitorTroubles(registers);
  const readiness = new Readiness(seconds);
  let totals: (() => Map<string, RuleTotals>) | null = null;
  spoofedPackets(registers, () => totals?.() ?? new Map());
  const extended = new Map<MoreSeries<unknown>, unknown>();
  if (ofRules) rulePackets(registers, inForce.rules, () => totals?.() ?? new Map());

  /** Nothing in force is the wanted state: the agent is ready. */
  function nothingInForce(): void {
    readiness.isReady = true;
    inForce.nothing();
  }

  const ofController = isInCluster ? viewMetrics(registers, seconds) : null;
  return {
    registry,
    text: () => registry.metrics(),
    extend<S>(series: MoreSeries<S>): S {
      if (!extended.has(series))
        extended.set(
          series,
          series(registers, () => totals?.() ?? new Map()),
        );
      return extended.get(series) as S;
    },
    ready: () => readiness.why(),
    enforced(result) {
      readiness.isReady = true;
      inForce.enforced(result);
    },
    failed: () => failures.inc(),
    drifted: () => drifts.inc(),
    ended: endedConnections(registers),
    recordsLost: (records) => lost.inc(records),
    otherRecordsLost() {},
    monitor: (monitor, trouble) => monitors.inc({ monitor, trouble }),
    counts(of) {
      totals = of;
    },
    enabled(enabled) {
      isEnabled.set(enabled ? 1 : 0);
      if (!enabled) nothingInForce();
    },
    ...guardMetrics(registers),
    off(is) {
      isOff.set(is ? 1 : 0);
      if (is) nothingInForce();
    },
    connected: (connected) => ofController?.connected(connected),
    bookmark(revision) {
      readiness.viewError = null;
      ofController?.bookmark(revision);
    },
    tokenRefused: (isRefused) => readiness.tokenRefused(isRefused),
    unfollowable(reason) {
      readiness.viewError = reason;
      ofController?.unfollowable(reason);
    },
    revision: (enforced) => ofController?.revision(enforced),
    reported: () => ofController?.reported(),
  };
}

/** Metrics without labels; their names begin with `nodewall_agent_`. */
function agentSeries(registers: Registry[]) {
  const options = (name: string, help: string) => ({ name: `nodewall_agent_${name}`, help, registers });
  return {
    gauge: (name: string, help: string) => new Gauge(options(name, help)),
    counter: (name: string, help: string) => new Counter(options(name, help)),
  };
}

/**
 * The monitors of every agent; each series is there from the start, so that its first increase
 * shows.
 */
const MONITORS = ['nf_tables', 'links', 'addresses', 'routes'] as const satisfies MonitorName[];

function monitorTroubles(registers: Registry[]) {
  const troubles = new Counter({
    name: 'nodewall_agent_monitor_troubles_total',
    help: 'Times that a monitor of kernel events failed and was opened again, or lost events (overrun).',
    labelNames: ['monitor', 'trouble'],
    registers,
  });
  for (const monitor of MONITORS)
    for (const trouble of ['failed', 'overrun']) troubles.inc({ monitor, trouble }, 0);
  return troubles;
}

/** Returns the function that counts connections of a policy (API group/name). */
function endedConnections(registers: Registry[]): AgentMetrics['ended'] {
  const ended = new Counter({
    name: 'nodewall_agent_ended_connections_total',
    help: 'Established connections that were ended because a rule of the policy denies them.',
    labelNames: ['api_group', 'policy'],
    registers,
  });
  const known = new Set<string>();
  return (key, connections) => {
    if (known.size < MOST_POLICIES) known.add(key);
    const [api_group = '', policy = ''] = known.has(key) ? key.split('/') : ['', OTHERS];
    ended.inc({ api_group, policy }, connections);
  };
}

function guardMetrics(registers: Registry[]): Pick<AgentMetrics, 'guard' | 'rolledBack'> {
  const { gauge } = agentSeries(registers);
  const tried = gauge(
    'policies_tried',
    'Policies in force whose change is not confirmed yet (guarded apply).',
  );
  const held = gauge('policies_held', 'Policies whose change was rolled back, and is not applied again.');
  const rollbacks = new Counter({
    name: 'nodewall_agent_rollbacks_total',
    help: 'Changes that were rolled back, by the probe that failed; unconfirmed, interrupted and unproven: by none.',
    labelNames: ['probe'],
    registers,
  });
  return {
    guard(ofTried, ofHeld) {
      tried.set(ofTried);
      held.set(ofHeld);
    },
    rolledBack: (probe) => rollbacks.inc({ probe }),
  };
}

function inForceMetrics(registers: Registry[]) {
  const { gauge } = agentSeries(registers);
  const enforcedAt = gauge('enforced_timestamp_seconds', 'Time of the last successful apply.');
  const policies = gauge('policies', 'Policies in force.');
  const failing = gauge('policies_failing', 'Policies that are not in force in their current version.');
  const rules = gauge('rules', 'Policy rules in force.');
  const sets = gauge('address_sets', 'Address sets in force.');
  const members = gauge('address_set_members', 'Addresses and prefixes in all address sets in force.');
  const durations = new Histogram({
    name: 'nodewall_agent_apply_duration_seconds',
    help: 'Time from the start of an apply until its rules are in force.',
    buckets: APPLY_BUCKETS,
    registers,
  });
  let inForce: readonly CompiledRule[] = [];
  return {
    rules: () => inForce,
    enforced({ resolved: state, failed, enforcedAfter }: Enforced): void {
      if (state.rules !== inForce) {
        policies.set(new Set(state.rules.map(({ source }) => `${source.apiGroup}/${source.policy}`)).size);
        rules.set(state.rules.length);
      }
      inForce = state.rules;
      enforcedAt.setToCurrentTime();
      failing.set(failed.size);
      sets.set(state.addressSets.size);
      let count = 0;
      for (const set of state.addressSets.values()) count += memberTotal(set.members);
      members.set(count);
      durations.observe(enforcedAfter / 1000);
    },
    nothing(): void {
      inForce = [];
      for (const one of [policies, failing, rules, sets, members]) one.set(0);
    },
  };
}

/**
 * Counters of the rules in force; totals are kept as long as the rules exist, even if the table is
 * replaced.
 */
function rulePackets(
  registers: Registry[],
  rules: () => readonly CompiledRule[],
  totals: () => ReadonlyMap<string, RuleTotals>,
): void {
  const labelNames = ['api_group', 'policy', 'rule', 'direction'] as const;
  new Counter({
    name: 'nodewall_agent_rule_packets_total',
    help: 'Packets that matched a rule (--metrics-rules).',
    labelNames,
    registers,
    collect() {
      const counted = totals();
      this.reset();
      for (const { id, source } of rules()) {
        const { apiGroup: api_group, policy, rule, direction } = source;
        this.inc({ api_group, policy, rule, direction }, counted.get(id)?.packets ?? 0);
      }
    },
  });
}

function spoofedPackets(registers: Registry[], totals: () => ReadonlyMap<string, RuleTotals>): void {
  new Counter({
    name: 'nodewall_agent_spoofed_packets_total',
    help: 'Packets dropped because their source is an address of a Node or of this machine (antiSpoofing).',
    registers,
    collect() {
      this.reset();
      this.inc(totals().get(SPOOFED)?.packets ?? 0);
    },
  });
}

function buildInfo(registers: Registry[], version: string): void {
  new Gauge({
    name: 'nodewall_build_info',
    help: 'Running version.',
    labelNames: ['version'],
    registers,
  }).set({ version }, 1);
}

/** Seconds: a token that has just expired is replaced sooner. */
const TOKEN_PATIENCE = 30;
const TOKEN_REFUSED =
  'the token is not accepted (401): was the ServiceAccount made again? Restart the pods: kubectl rollout restart -n nodewall-system daemonset/nodewall-agent; the rules in force stay';

/** Why an agent is not ready. */
class Readiness {
  /** Rules are in force, or none is the wanted state. */
  isReady = false;
  /** Why the controller's view can't be applied; null: it can. */
  viewError: string | null = null;
  readonly #seconds: () => number;
  #refusedSince: number | null = null;

  /** @param seconds since 1970 */
  constructor(seconds: () => number) {
    this.#seconds = seconds;
  }

  tokenRefused(isRefused: boolean): void {
    this.#refusedSince = isRefused ? (this.#refusedSince ?? this.#seconds()) : null;
  }

  /** Null: it is ready. */
  why(): string | null {
    if (this.viewError !== null) return `${this.viewError}; the rules in force stay`;
    const isRefused = this.#refusedSince !== null && this.#seconds() - this.#refusedSince >= TOKEN_PATIENCE;
    if (isRefused) return TOKEN_REFUSED;
    return this.isReady ? null : 'no rules are applied yet';
  }
}

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
function viewMetrics(registers: Registry[], seconds: () => number): ControllerMetrics {
  const { gauge, counter } = agentSeries(registers);
  const connected = gauge(
    'controller_connected',
    'Whether the agent is connected to its controller. Without it the rules in force stay.',
  );
  const unfollowable = gauge(
    'view_unfollowable',
    'Whether the agent cannot apply even a full view of the controller: the rules in force stay.',
  );
  const connects = counter('controller_connections_total', 'Successful connections to the controller.');
  const lastBookmark = gauge(
    'last_bookmark_timestamp_seconds',
    'Time of the last bookmark of the controller, which sends one every 30 s; 0: none yet.',
  );
  const reports = counter('reports_total', "Reports of this node's status that the controller accepted.");
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
