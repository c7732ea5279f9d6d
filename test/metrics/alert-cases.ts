import type { Alert } from '../../build/manifests/monitoring/alerts.ts';

/** A course of series by which an alert fires, and clears. */
export interface AlertCase {
  /** Name of the alert, without its prefix. */
  readonly alert: string;
  /** Of the values; default: `1m`. */
  readonly interval?: string;
  /** Values as promtool has them: `0x5 1+2x10` is six times 0, then 1, 3, 5 … */
  readonly series: Readonly<Record<string, string>>;
  readonly firesAt: string;
  readonly clearAt: string;
  /** Of the alert that fires, without the severity; default: none. */
  readonly labels?: Readonly<Record<string, string>>;
  /** `$value` of the alert, where its summary has it. */
  readonly value?: number;
}

const NODE_A = { node: 'a' };
const CONTROLLER = { instance: 'controller-1' };

export const ALERT_CASES: readonly AlertCase[] = [
  {
    alert: 'ControllersAbsent',
    series: { nodewall_controller_leader: '_x10 1x10' },
    firesAt: '6m',
    clearAt: '12m',
  },
  {
    alert: 'NoLeader',
    series: {
      'nodewall_controller_leader{instance="controller-1"}': '0x10 1x10',
      'nodewall_controller_leader{instance="controller-2"}': '0x20',
    },
    firesAt: '3m',
    clearAt: '12m',
  },
  {
    alert: 'TwoLeaders',
    series: {
      'nodewall_controller_leader{instance="controller-1"}': '1x20',
      'nodewall_controller_leader{instance="controller-2"}': '1x10 0x10',
    },
    firesAt: '3m',
    clearAt: '12m',
  },
  {
    alert: 'WatchFailing',
    series: {
      'nodewall_controller_watch_failures_total{instance="controller-1",resource="pods",reason="silent"}':
        '0+1x25 25x30',
      'nodewall_controller_watch_failures_total{instance="controller-1",resource="nodes",reason="expired"}':
        '0+1x60',
    },
    firesAt: '20m',
    clearAt: '40m',
    labels: { ...CONTROLLER, resource: 'pods' },
  },
  {
    alert: 'InternalErrors',
    series: { 'nodewall_controller_internal_errors_total{instance="controller-1"}': '0x5 1x30' },
    firesAt: '8m',
    clearAt: '25m',
    labels: CONTROLLER,
  },
  {
    alert: 'StatusWritesFailing',
    series: { nodewall_controller_status_failures_total: '0+1x40 40x30' },
    firesAt: '30m',
    clearAt: '60m',
  },
  {
    alert: 'CertificateExpires',
    series: { nodewall_controller_certificate_expiry_timestamp_seconds: '864000x90 7776000x30' },
    firesAt: '65m',
    clearAt: '95m',
  },
  {
    alert: 'ApiAbsent',
    series: {
      'aggregator_unavailable_apiservice{name="v1alpha1.controlplane.nodewall.io"}': '1x10 0x10',
      'aggregator_unavailable_apiservice{name="v1beta1.metrics.k8s.io"}': '1x20',
    },
    firesAt: '6m',
    clearAt: '12m',
  },
  {
    alert: 'InvalidObjects',
    series: { nodewall_controller_problems: '2x20 0x10' },
    firesAt: '16m',
    clearAt: '22m',
  },
  {
    alert: 'RolloutPaused',
    series: {
      'nodewall_controller_rollouts{state="Paused"}': '1x15 0x10',
      'nodewall_controller_rollouts{state="Progressing"}': '1x30',
    },
    firesAt: '12m',
    clearAt: '18m',
  },
  {
    alert: 'GuardrailBroken',
    series: { nodewall_controller_guardrails_broken: '1x5 0x5' },
    firesAt: '2m',
    clearAt: '8m',
  },
  {
    alert: 'GateUnset',
    series: {
      'nodewall_controller_unset_gate_nodes{gate="NodeNetworkPolicy"}': '0x2 3x5 0x5',
      'nodewall_controller_unset_gate_nodes{gate="EgressGateway"}': '0x20',
    },
    firesAt: '5m',
    clearAt: '10m',
    labels: { gate: 'NodeNetworkPolicy' },
    value: 3,
  },
  {
    alert: 'EgressNodesNotReady',
    series: { nodewall_controller_egress_nodes_not_ready: '1x10 0x10' },
    firesAt: '6m',
    clearAt: '12m',
  },
  {
    alert: 'NodeNotUpToDate',
    series: {
      'nodewall_node_up_to_date{node="a"}': '0x10 1x10',
      'nodewall_node_last_report_timestamp_seconds{node="a"}': '0+60x20',
      'nodewall_node_off{node="a"}': '0x20',
      'nodewall_node_policies_failing{node="a"}': '0x20',
      'nodewall_node_policies_rolled_back{node="a"}': '0x20',
      // These have alerts of their own: one that is off, one with a policy that fails, one that is
      // silent.
      'nodewall_node_up_to_date{node="b"}': '0x20',
      'nodewall_node_last_report_timestamp_seconds{node="b"}': '0+60x20',
      'nodewall_node_off{node="b"}': '1x20',
      'nodewall_node_up_to_date{node="c"}': '0x20',
      'nodewall_node_last_report_timestamp_seconds{node="c"}': '0+60x20',
      'nodewall_node_policies_failing{node="c"}': '1x20',
      'nodewall_node_policies_rolled_back{node="c"}': '0x20',
      'nodewall_node_up_to_date{node="d"}': '0x20',
      'nodewall_node_last_report_timestamp_seconds{node="d"}': '0x20',
    },
    firesAt: '6m',
    clearAt: '12m',
    labels: NODE_A,
  },
  {
    alert: 'ManyNodesBehind',
    series: {
      'nodewall_nodes{instance="controller-1",phase="Enforced"}': '8x20',
      'nodewall_nodes{instance="controller-1",phase="Silent"}': '2x12 0x10',
      'nodewall_nodes{instance="controller-2",phase="Enforced"}': '8x20',
      'nodewall_nodes{instance="controller-2",phase="Silent"}': '2x12 0x10',
    },
    firesAt: '11m',
    clearAt: '15m',
  },
  {
    alert: 'NodeSilent',
    series: {
      'nodewall_node_last_report_timestamp_seconds{node="a"}': '60x12 780+60x10',
      'nodewall_node_last_report_timestamp_seconds{node="b"}': '0x30',
    },
    firesAt: '9m',
    clearAt: '14m',
    labels: NODE_A,
  },
  {
    alert: 'NodeWithoutAgent',
    series: {
      'nodewall_node_last_report_timestamp_seconds{node="a"}': '0x20 1260x5',
      'nodewall_node_last_report_timestamp_seconds{node="b"}': '60+60x30',
    },
    firesAt: '16m',
    clearAt: '22m',
    labels: NODE_A,
  },
  {
    alert: 'NodeOff',
    series: { 'nodewall_node_off{node="a"}': '1x20 0x5', 'nodewall_node_off{node="b"}': '0x30' },
    firesAt: '16m',
    clearAt: '22m',
    labels: NODE_A,
  },
  {
    alert: 'GateOff',
    series: { 'nodewall_nodes{phase="Disabled"}': '3x70 0x10', nodewall_controller_policies: '2x90' },
    firesAt: '65m',
    clearAt: '73m',
  },
  {
    alert: 'PolicyFailing',
    series: { 'nodewall_node_policies_failing{node="a"}': '2x10 0x5' },
    firesAt: '6m',
    clearAt: '12m',
    labels: NODE_A,
    value: 2,
  },
  {
    alert: 'PolicyRolledBack',
    series: { 'nodewall_node_policies_rolled_back{node="a"}': '0x2 1x5 0x5' },
    firesAt: '4m',
    clearAt: '10m',
    labels: NODE_A,
  },
  {
    alert: 'DriftRepeated',
    series: {
      'nodewall_node_drifts_total{node="a"}': '0x5 5x90',
      'nodewall_node_drifts_total{node="b"}': '0x5 1x90',
    },
    firesAt: '10m',
    clearAt: '75m',
    labels: NODE_A,
  },
  {
    alert: 'RecordsLost',
    series: { 'nodewall_node_records_lost_total{node="a"}': '0x5 9x40' },
    firesAt: '8m',
    clearAt: '25m',
    labels: NODE_A,
  },
  {
    alert: 'DropsRose',
    interval: '5m',
    // 0.1 packets a second for 25 hours, 10 for one hour, 0.1 again; the other rule always has 10.
    series: {
      'nodewall_rule_denied_packets_total{api_group="g",policy="p",direction="ingress",rule="r"}':
        '0+30x300 12000+3000x11 45030+30x24',
      'nodewall_rule_denied_packets_total{api_group="g",policy="p",direction="ingress",rule="other"}':
        '0+3000x340',
    },
    firesAt: '25h45m',
    clearAt: '26h45m',
    labels: { api_group: 'g', policy: 'p', direction: 'ingress', rule: 'r' },
  },
];

/** A cluster in which nothing is wrong, with two controllers, for a day and two hours. */
export const HEALTHY: Pick<AlertCase, 'series' | 'interval'> = {
  interval: '5m',
  series: {
    'nodewall_controller_leader{instance="controller-1"}': '1x312',
    'nodewall_controller_leader{instance="controller-2"}': '0x312',
    'nodewall_controller_watch_failures_total{instance="controller-1",resource="pods",reason="expired"}':
      '0+1x312',
    'nodewall_controller_watch_failures_total{instance="controller-1",resource="pods",reason="unreachable"}':
      '0x100 1x212',
    'nodewall_controller_internal_errors_total{instance="controller-1"}': '0x312',
    'nodewall_controller_status_failures_total{instance="controller-1"}': '0x100 2x212',
    'nodewall_controller_certificate_expiry_timestamp_seconds{instance="controller-1"}': '7776000x312',
    'nodewall_controller_problems{instance="controller-1"}': '0x312',
    'nodewall_controller_policies{instance="controller-1"}': '5x312',
    'nodewall_controller_rollouts{instance="controller-1",state="Paused"}': '0x312',
    'nodewall_controller_guardrails_broken{instance="controller-1"}': '0x312',
    'nodewall_controller_unset_gate_nodes{instance="controller-1",gate="EgressGateway"}': '0x312',
    'nodewall_nodes{instance="controller-1",phase="Enforced"}': '20x312',
    'nodewall_nodes{instance="controller-1",phase="Pending"}': '0x312',
    'nodewall_nodes{instance="controller-1",phase="Disabled"}': '0x312',
    'nodewall_node_up_to_date{instance="controller-1",node="a"}': '1x312',
    'nodewall_node_off{instance="controller-1",node="a"}': '0x312',
    'nodewall_node_last_report_timestamp_seconds{instance="controller-1",node="a"}': '0+300x312',
    'nodewall_node_policies_failing{instance="controller-1",node="a"}': '0x312',
    'nodewall_node_policies_rolled_back{instance="controller-1",node="a"}': '0x312',
    'nodewall_node_drifts_total{instance="controller-1",node="a"}': '0x100 1x100 2x112',
    'nodewall_node_records_lost_total{instance="controller-1",node="a"}': '0x312',
    'nodewall_rule_denied_packets_total{instance="controller-1",api_group="g",policy="p",direction="ingress",rule="r"}':
      '0+3000x312',
    'nodewall_rule_denied_packets_total{instance="controller-2",api_group="g",policy="p",direction="ingress",rule="r"}':
      '9+3000x312',
  },
};

/** How much faster than in production. */
export interface Speed {
  /** Of `for` and of ranges, `[15m]`. */
  readonly ranges: number;
  /** Of `offset 1d`. */
  readonly offsets: number;
}

const SECONDS: Readonly<Record<string, number>> = { m: 60, h: 3_600, d: 86_400 };

/** The same alert, whose times pass faster, so that a test need not wait for hours. */
export function faster(alert: Alert, { ranges, offsets }: Speed): Alert {
  const scaled = (time: string, speed: number): string => {
    const [, count, unit = ''] = /^(\d+)([mhd])$/.exec(time) ?? [];
    const seconds = Number(count) * (SECONDS[unit] ?? Number.NaN);
    if (Number.isNaN(seconds)) throw new Error(`${alert.name}: a time in m, h or d, not ${time}`);
    return `${Math.round((seconds * 1000) / speed)}ms`;
  };
  const expr = alert.expr
    .replaceAll(/\[(\w+)\]/g, (_, time) => `[${scaled(time, ranges)}]`)
    .replaceAll(/offset (\w+)/g, (_, time) => `offset ${scaled(time, offsets)}`);
  return { ...alert, expr, for: scaled(alert.for, ranges) };
}
