import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';
import { ROLLOUT_STATES, type RolloutState } from '../../apis/rollout.ts';
import { VERSION } from '../../lib/process/version.ts';
import { GATE_ANNOTATIONS, type GateName } from '../kubeapi/configmap/feature-gate.ts';
import type { ServerStats } from '../publish/server.ts';
import type { WatchMetrics } from '../watch/cluster/watch-failures.ts';

/** Values that are read at each scrape. */
interface MetricsSources {
  isLeading(): boolean;
  watches(): readonly WatchMetrics[];
  /** Null until it serves. */
  server(): ServerStats | null;
  statusesWaiting(): number;
  /** When the serving certificate expires (milliseconds since 1970); null: there is none. */
  certificateExpires(): number | null;
  /** The number of policies with a rollout, by its state. */
  rollouts(): ReadonlyMap<RolloutState, number>;
  guardrails(): { readonly all: number; readonly broken: number };
  /** How many deleted objects are in force as they were defined last. */
  lastDefinitions(): number;
  /** The number of nodes that go on though the gate has no value. */
  unsetGateNodes(name: GateName): number;
  /** Counts leases of floating addresses; read only with egress gateways. */
  leases(): { readonly slots: number; readonly addresses: number; readonly nodesNotReady: number };
}

export interface ControllerMetrics {
  readonly registry: Registry;
  /** Adds what is read at each scrape; once. */
  observe(sources: MetricsSources): void;
  compiled(
    seconds: number,
    counts: Readonly<
      Record<'nodes' | 'policies' | 'invalid' | 'ignoredAddresses' | 'ignoredEndpoints', number>
    > & {
      /** Absent: egress gateways are off. */
      readonly ignoredNetworks?: number;
    },
  ): void;
  /** Adds the number of messages of one publish. */
  published(messages: number): void;
  /** Changes of a Node begin to be held. */
  delayed(): void;
  reported(): void;
  statusWritten(): void;
  statusFailed(): void;
  failed(): void;
  /** Slots of floating addresses went from one node to another. */
  slotMoved(reason: string): void;
}

const GATES = Object.keys(GATE_ANNOTATIONS) as GateName[];
/** Seconds. */
const COMPILE_BUCKETS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];

/**
 * The metrics of a controller, for Prometheus. Names and labels are stable.
 * @param hasEgress whether the feature gate EgressGateway is on
 */
export function controllerMetrics(hasEgress: boolean): ControllerMetrics {
  const registry = new Registry();
  const registers = [registry];
  collectDefaultMetrics({ register: registry });
  buildMetric(registers);
  const counter = (name: string, help: string): Counter => new Counter({ name: full(name), help, registers });
  const compiled = compiledMetrics(registers);
  const messages = counter(
    'messages_total',
    'Messages published to agents; each counts once, however many agents receive it.',
  );
  const reports = counter('reports_total', 'Reports received from agents.');
  const delays = counter(
    'delayed_nodes_total',
    'Times that the changes of a Node began to wait, because its labels or addresses change all the time.',
  );
  const written = counter('status_writes_total', 'Policy statuses written.');
  const unwritten = counter('status_failures_total', 'Failed writes of policy statuses; they are retried.');
  const failures = counter('internal_errors_total', 'Internal errors; agents keep the rules published last.');
  const moves = hasEgress
    ? new Counter({
        name: 'nodewall_controller_egress_slot_moves_total',
        help: 'Slots of floating addresses that went from one node to another, by the reason.',
        labelNames: ['reason'],
        registers,
      })
    : null;
  return {
    registry,
    observe: (sources) => observe(registers, sources, hasEgress),
    compiled,
    published: (count) => messages.inc(count),
    delayed: () => delays.inc(),
    reported: () => reports.inc(),
    statusWritten: () => written.inc(),
    statusFailed: () => unwritten.inc(),
    failed: () => failures.inc(),
    slotMoved: (reason) => moves?.inc({ reason }),
  };
}

function observe(registers: Registry[], sources: MetricsSources, hasEgress: boolean): void {
  const gauge = (name: string, help: string, value: () => number): void =>
    measured(registers, name, help, [], () => [[{}, value()]]);
  gauge('leader', 'Whether this replica leads, and so writes statuses.', () => (sources.isLeading() ? 1 : 0));
  gauge('streams', 'Agents that are connected.', () => sources.server()?.watchers ?? 0);
  gauge('stream_unsent_bytes', 'Bytes that are queued for agents.', () => sources.server()?.unsentBytes ?? 0);
  gauge('statuses_waiting', 'Policy statuses that are queued to be written.', () =>
    sources.statusesWaiting(),
  );
  gauge('certificate_expiry_timestamp_seconds', 'Time at which the serving certificate expires.', () => {
    const expires = sources.certificateExpires();
    return expires === null ? Number.NaN : expires / 1000;
  });
  measured(registers, 'rollouts', 'Policies that have a rollout, by its state.', ['state'], () => {
    const counts = sources.rollouts();
    return ROLLOUT_STATES.map((state) => [{ state }, counts.get(state) ?? 0]);
  });
  gauge('guardrails', 'Guardrails that are evaluated.', () => sources.guardrails().all);
  gauge(
    'deleted_objects_in_use',
    'Deleted Tiers and ClusterGroups that policies or Guardrails in force still use, as they were defined last.',
    () => sources.lastDefinitions(),
  );
  gauge('guardrails_broken', 'Guardrails that do not hold.', () => sources.guardrails().broken);
  measured(
    registers,
    'unset_gate_nodes',
    'Nodes that go on as before though the feature gate has no value; 0: it has one, or there are none.',
    ['gate'],
    () => GATES.map((gate) => [{ gate }, sources.unsetGateNodes(gate)]),
  );
  watchMetrics(registers, sources.watches);
  serverMetrics(registers, sources.server);
  if (hasEgress) leaseMetrics(registers, sources.leases);
}

function full(name: string): string {
  return `nodewall_controller_${name}`;
}

/** Metrics of the cluster's objects, and of the time that they take. */
function compiledMetrics(registers: Registry[]): ControllerMetrics['compiled'] {
  const gauge = (name: string, help: string): Gauge => new Gauge({ name: full(name), help, registers });
  const nodes = gauge('nodes', 'Nodes of the cluster.');
  const policies = gauge('policies', 'Policies that are published to nodes.');
  const invalid = gauge('problems', 'Validation errors in policies, groups and tiers.');
  const ignoredAddresses = gauge(
    'ignored_node_addresses',
    'Addresses of Node objects that do not count: outside nodeCIDRs of the configuration, or held by others.',
  );
  const ignoredEndpoints = gauge(
    'ignored_endpoints',
    'Endpoints of Services in toServices that do not count, as no pod of the namespace has their address.',
  );
  /** Only with egress gateways. */
  let ignoredNetworks: Gauge | null = null;
  const egressGauge = (): Gauge =>
    gauge(
      'ignored_egress_networks',
      'Pod networks, and addresses of pods and agents, outside of the networks of the cluster: egress policies hold for them.',
    );
  const compiles = new Histogram({
    name: full('compile_duration_seconds'),
    help: 'Time to compile and publish the objects of the cluster.',
    buckets: COMPILE_BUCKETS,
    registers,
  });
  return (seconds, counts) => {
    compiles.observe(seconds);
    nodes.set(counts.nodes);
    policies.set(counts.policies);
    invalid.set(counts.invalid);
    ignoredAddresses.set(counts.ignoredAddresses);
    ignoredEndpoints.set(counts.ignoredEndpoints);
    if (counts.ignoredNetworks !== undefined) ignoredNetworks ??= egressGauge();
    ignoredNetworks?.set(counts.ignoredNetworks ?? 0);
  };
}

function buildMetric(registers: Registry[]): void {
  const build = { name: 'nodewall_build_info', help: 'Running version.', labelNames: ['version'] };
  new Gauge({ ...build, registers }).set({ version: VERSION }, 1);
}

function leaseMetrics(registers: Registry[], leases: MetricsSources['leases']): void {
  const gauge = (name: string, help: string, value: keyof ReturnType<typeof leases>): void =>
    measured(registers, `egress_${name}`, help, [], () => [[{}, leases()[value]]]);
  gauge('leased_slots', 'Slots of floating addresses that a node has under a lease of this leader.', 'slots');
  gauge('leased_addresses', 'Floating addresses that a node has under a lease of this leader.', 'addresses');
  gauge('nodes_not_ready', 'Nodes of egress gateways that are not ready.', 'nodesNotReady');
}

type Labelled = readonly [labels: Record<string, string>, value: number];

/** A gauge that is read at each scrape. */
function measured(
  registers: Registry[],
  name: string,
  help: string,
  labelNames: string[],
  read: () => Iterable<Labelled>,
): void {
  new Gauge({
    name: full(name),
    help,
    labelNames,
    registers,
    collect() {
      for (const [labels, value] of read()) this.set(labels, value);
    },
  });
}

/** A counter whose values are counted elsewhere, and set at each scrape. */
function mirrored(
  registers: Registry[],
  name: string,
  help: string,
  labelNames: string[],
  read: () => Iterable<Labelled>,
): void {
  new Counter({
    name: full(name),
    help,
    labelNames,
    registers,
    collect() {
      this.reset();
      for (const [labels, value] of read()) this.inc(labels, value);
    },
  });
}

function watchMetrics(registers: Registry[], watches: MetricsSources['watches']): void {
  measured(registers, 'watched_objects', 'Objects of a resource in memory.', ['resource'], () =>
    watches().map(({ resource, objects }) => [{ resource }, objects]),
  );
  measured(
    registers,
    'watch_forbidden',
    'Whether a right is missing to list or watch a resource.',
    ['resource'],
    () => watches().map(({ resource, lacks }) => [{ resource }, lacks === null ? 0 : 1]),
  );
  const of = (name: string, help: string, value: (one: WatchMetrics) => number): void =>
    mirrored(registers, name, help, ['resource'], () =>
      watches().map((one) => [{ resource: one.resource }, value(one)]),
    );
  of('watch_lists_total', 'Lists received.', ({ lists }) => lists);
  of('watch_watches_total', 'Watches started.', ({ watches: begun }) => begun);
  of('watch_events_total', 'Watch events received.', ({ events }) => events);
  of(
    'watch_corrections_total',
    'Changes that watch events missed and a relist found.',
    ({ corrections }) => corrections,
  );
  mirrored(registers, 'watch_failures_total', 'Lists and watches that failed.', ['resource', 'reason'], () =>
    watches().flatMap(({ resource, failures }) =>
      Object.entries(failures).map(([reason, count]): Labelled => [{ resource, reason }, count]),
    ),
  );
}

function serverMetrics(registers: Registry[], server: MetricsSources['server']): void {
  mirrored(registers, 'stream_sent_bytes_total', 'Bytes sent to agents.', [], () => [
    [{}, server()?.sentBytes ?? 0],
  ]);
  mirrored(
    registers,
    'streams_cut_off_total',
    'Connections of agents that were ended because they were too slow.',
    [],
    () => [[{}, server()?.cutOff ?? 0]],
  );
  mirrored(registers, 'requests_total', 'Requests answered, by HTTP status.', ['code'], () =>
    [...(server()?.answers ?? [])].map(([code, count]) => [{ code: String(code) }, count]),
  );
}
