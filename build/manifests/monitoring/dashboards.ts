const panel =
  (kind: Panel['kind']) =>
  (title: string, unit: string, ...queries: readonly (readonly [expr: string, legend: string])[]): Panel => ({
    title,
    kind,
    unit,
    queries: queries.map(([expr, legend]) => ({ expr, legend })),
  });
const graph = panel('timeseries');
const stat = panel('stat');
const table = panel('table');

const RULE = 'api_group, policy, direction, rule';
const RANGE = '[$__rate_interval]';
const ofNode = (name: string) => `max(nodewall_node_${name}{node="$node"})`;
const ofAgent = (name: string) => `nodewall_agent_${name}{instance="$node"}`;

/** The panels of the page of all nodes, and of the controllers. */
const FLEET: Dashboard = {
  name: 'fleet',
  title: 'nodewall / all nodes',
  rows: [
    {
      title: 'Nodes',
      panels: [
        stat('Up to date', 'percentunit', ['avg(max by (node) (nodewall_node_up_to_date))', '']),
        stat('Nodes', 'short', ['sum(max by (phase) (nodewall_nodes))', '']),
        stat('Switched off', 'short', ['sum(max by (node) (nodewall_node_off))', '']),
        stat('With changes rolled back', 'short', [
          'count(max by (node) (nodewall_node_policies_rolled_back) > 0) or vector(0)',
          '',
        ]),
        graph('Nodes by phase', 'short', ['max by (phase) (nodewall_nodes)', '{{phase}}']),
        graph('Policies that fail, by node', 'short', [
          'topk(10, max by (node) (nodewall_node_policies_failing))',
          '{{node}}',
        ]),
        table('Last report, the oldest', 's', [
          'bottomk(10, max by (node) (nodewall_node_last_report_timestamp_seconds)) * 1000',
          '{{node}}',
        ]),
        graph('Changes by third parties, in an hour', 'short', [
          'topk(10, max by (node) (increase(nodewall_node_drifts_total[1h])))',
          '{{node}}',
        ]),
      ],
    },
    {
      title: 'Denied',
      panels: [
        graph('Denied packets, by node', 'pps', [
          `topk(10, max by (node) (rate(nodewall_node_denied_packets_total${RANGE})))`,
          '{{node}}',
        ]),
        graph('Denied packets, by policy', 'pps', [
          `topk(10, sum by (policy) (max by (${RULE}) (rate(nodewall_rule_denied_packets_total${RANGE}))))`,
          '{{policy}}',
        ]),
        graph('Records lost, in 15 minutes', 'short', [
          'topk(10, max by (node) (increase(nodewall_node_records_lost_total[15m])))',
          '{{node}}',
        ]),
        graph('Rules that spare the failsafe list', 'short', [
          'topk(10, max by (node) (nodewall_node_failsafe_rules))',
          '{{node}}',
        ]),
      ],
    },
    {
      title: 'Controllers',
      panels: [
        stat('Leader', 'short', ['max(nodewall_controller_leader)', '']),
        stat('Policies', 'short', ['max(nodewall_controller_policies)', '']),
        stat('Validation errors', 'short', ['max(nodewall_controller_problems)', '']),
        stat('Certificate expires in', 's', [
          'min(nodewall_controller_certificate_expiry_timestamp_seconds) - time()',
          '',
        ]),
        graph('Agents connected', 'short', ['nodewall_controller_streams', '{{instance}}']),
        graph('Time to compile and publish, 99 %', 's', [
          `histogram_quantile(0.99, sum by (instance, le) (rate(nodewall_controller_compile_duration_seconds_bucket${RANGE})))`,
          '{{instance}}',
        ]),
        graph('Sent to agents', 'Bps', [
          `rate(nodewall_controller_stream_sent_bytes_total${RANGE})`,
          '{{instance}}',
        ]),
        graph('Lists and watches that failed', 'short', [
          `sum by (instance, resource) (increase(nodewall_controller_watch_failures_total[15m]))`,
          '{{instance}} {{resource}}',
        ]),
        graph('Rollouts', 'short', ['max by (state) (nodewall_controller_rollouts)', '{{state}}']),
        graph('Memory', 'bytes', [
          'process_resident_memory_bytes{job="nodewall-controllers"}',
          '{{instance}}',
        ]),
      ],
    },
  ],
};

/** One node, in detail; `instance` of an agent's page is its Node's name. */
const NODE: Dashboard = {
  name: 'node',
  title: 'nodewall / one node',
  variable: { name: 'node', query: 'label_values(nodewall_node_up_to_date, node)' },
  rows: [
    {
      title: 'As it reports',
      panels: [
        stat('Up to date', 'bool_yes_no', [ofNode('up_to_date'), '']),
        stat('Last report', 's', [`time() - ${ofNode('last_report_timestamp_seconds')}`, '']),
        stat('Policies that fail', 'short', [ofNode('policies_failing'), '']),
        stat('Policies rolled back', 'short', [ofNode('policies_rolled_back'), '']),
        graph('Denied packets', 'pps', [
          `max(rate(nodewall_node_denied_packets_total{node="$node"}${RANGE}))`,
          'denied',
        ]),
        graph(
          'Changes by third parties, rollbacks, records lost',
          'short',
          [ofNode('drifts_total'), 'changes by third parties'],
          [ofNode('rollbacks_total'), 'rollbacks'],
          [ofNode('records_lost_total'), 'records lost'],
        ),
      ],
    },
    {
      title: 'Its agent (job nodewall-agents)',
      panels: [
        stat('Connected to a controller', 'bool_yes_no', [ofAgent('controller_connected'), '']),
        stat('Policies in force', 'short', [ofAgent('policies'), '']),
        stat('Rules in force', 'short', [ofAgent('rules'), '']),
        stat('Behind the newest view by', 's', [
          `${ofAgent('view_received_timestamp_seconds')} - ${ofAgent('view_in_force_timestamp_seconds')}`,
          '',
        ]),
        graph('Time to apply, 95 %', 's', [
          `histogram_quantile(0.95, sum by (le) (rate(nodewall_agent_apply_duration_seconds_bucket{instance="$node"}${RANGE})))`,
          'apply',
        ]),
        graph(
          'Addresses in sets',
          'short',
          [ofAgent('address_set_members'), 'addresses'],
          [ofAgent('address_sets'), 'sets'],
        ),
        graph('Troubles of monitors', 'short', [
          `increase(nodewall_agent_monitor_troubles_total{instance="$node"}[15m])`,
          '{{monitor}} {{trouble}}',
        ]),
        graph('Memory', 'bytes', [
          'process_resident_memory_bytes{job="nodewall-agents",instance="$node"}',
          'resident',
        ]),
        graph('Processor', 'percentunit', [
          `rate(process_cpu_seconds_total{job="nodewall-agents",instance="$node"}${RANGE})`,
          'agent',
        ]),
      ],
    },
  ],
};

/** The packets that rules deny, over all nodes. */
const RULES: Dashboard = {
  name: 'rules',
  title: 'nodewall / rules that deny',
  variable: { name: 'policy', query: 'label_values(nodewall_rule_denied_packets_total, policy)' },
  rows: [
    {
      title: 'All policies',
      panels: [
        stat('Rules that deny', 'short', [
          `count(max by (${RULE}) (nodewall_rule_denied_packets_total)) + max(nodewall_rules_left_out)`,
          '',
        ]),
        stat('Denied now', 'pps', [
          `sum(max by (${RULE}) (rate(nodewall_rule_denied_packets_total${RANGE})))`,
          '',
        ]),
        table('Most, in an hour', 'short', [
          `topk(20, max by (${RULE}) (increase(nodewall_rule_denied_packets_total[1h])))`,
          '',
        ]),
      ],
    },
    {
      title: '$policy',
      panels: [
        graph('Packets, by rule', 'pps', [
          `max by (direction, rule) (rate(nodewall_rule_denied_packets_total{policy="$policy"}${RANGE}))`,
          '{{direction}} {{rule}}',
        ]),
        graph('Bytes, by rule', 'Bps', [
          `max by (direction, rule) (rate(nodewall_rule_denied_bytes_total{policy="$policy"}${RANGE}))`,
          '{{direction}} {{rule}}',
        ]),
        table('Packets, since this controller runs', 'short', [
          'max by (direction, rule) (nodewall_rule_denied_packets_total{policy="$policy"})',
          '',
        ]),
      ],
    },
  ],
};

export const DASHBOARDS: readonly Dashboard[] = [FLEET, NODE, RULES];

/** A dashboard of Grafana, in as few words as it takes. */
export interface Dashboard {
  /** File name, and uid in Grafana. */
  readonly name: string;
  readonly title: string;
  /** A label whose values are offered for `$NAME` in queries; absent: none. */
  readonly variable?: { readonly name: string; readonly query: string };
  readonly rows: readonly { readonly title: string; readonly panels: readonly Panel[] }[];
}

interface Panel {
  readonly title: string;
  /** `stat`: the value now. `table`: the series now. */
  readonly kind: 'timeseries' | 'stat' | 'table';
  /** A unit of Grafana: short, s, bytes, pps, Bps, dateTimeAsIso … */
  readonly unit: string;
  readonly queries: readonly Query[];
}

interface Query {
  /** PromQL; every controller has every node, so it takes the maximum over them. */
  readonly expr: string;
  /** The name of each series: `{{node}}`. */
  readonly legend: string;
}

/** The dashboard of Grafana 10, by its documentation ("Dashboard JSON model"). */
const SCHEMA_VERSION = 39;
/** The grid of Grafana has 24 columns. */
const COLUMNS = 24;
const WIDTH: Readonly<Record<Panel['kind'], number>> = { timeseries: 12, stat: 6, table: 12 };
const HEIGHT: Readonly<Record<Panel['kind'], number>> = { timeseries: 8, stat: 4, table: 8 };
const DATASOURCE = { type: 'prometheus', uid: '$datasource' };

/** The dashboard in Grafana's JSON model. */
export function toGrafana({ name, title, variable, rows }: Dashboard): object {
  return {
    uid: `nodewall-${name}`,
    title,
    tags: ['nodewall'],
    timezone: 'browser',
    schemaVersion: SCHEMA_VERSION,
    version: 1,
    refresh: '30s',
    time: { from: 'now-3h', to: 'now' },
    templating: {
      list: [
        { name: 'datasource', type: 'datasource', query: 'prometheus', label: 'Prometheus' },
        ...(variable === undefined
          ? []
          : [{ ...variable, type: 'query', datasource: DATASOURCE, refresh: 2, sort: 1 }]),
      ],
    },
    panels: placed(rows),
  };
}

/** Rows below each other; the panels of a row fill lines from the left. */
function placed(rows: Dashboard['rows']): object[] {
  const panels: object[] = [];
  let y = 0;
  for (const row of rows) {
    panels.push({
      id: panels.length + 1,
      type: 'row',
      title: row.title,
      gridPos: { x: 0, y, w: COLUMNS, h: 1 },
    });
    y++;
    let [x, height] = [0, 0];
    for (const panel of row.panels) {
      const [w, h] = [WIDTH[panel.kind], HEIGHT[panel.kind]];
      if (x + w > COLUMNS) [x, y, height] = [0, y + height, 0];
      panels.push({ id: panels.length + 1, ...toPanel(panel), gridPos: { x, y, w, h } });
      x += w;
      height = Math.max(height, h);
    }
    y += height;
  }
  return panels;
}

function toPanel({ title, kind, unit, queries }: Panel): object {
  return {
    type: kind,
    title,
    datasource: DATASOURCE,
    fieldConfig: { defaults: { unit }, overrides: [] },
    targets: queries.map(({ expr, legend }, i) => ({
      refId: String.fromCharCode('A'.charCodeAt(0) + i),
      datasource: DATASOURCE,
      expr,
      legendFormat: legend,
      ...(kind === 'table' ? { instant: true, format: 'table' } : {}),
    })),
  };
}
