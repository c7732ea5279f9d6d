import { setImmediate as turn } from 'node:timers/promises';
import type { CompiledPolicy } from '../../apis/compiled.ts';
import {
  NODE_PHASES,
  type NodePhase,
  type NodeReport,
  type NodeTotals,
  nodePhase,
} from '../../apis/node-report.ts';
import type { WallClock } from '../../lib/process/clock.ts';
import { RuleSums } from './rule-sums.ts';

interface NodeMetricsOptions {
  /** The existing Nodes. */
  readonly nodes: () => Pick<ReadonlyMap<string, unknown>, 'keys'>;
  readonly reports: { get(node: string): NodeReport | null };
  /** The compiled policies. */
  readonly policies: () => readonly CompiledPolicy[];
  /** Why this controller does not have all reports yet; null: it has. */
  readonly missing: () => string | null;
  readonly clock: Pick<WallClock, 'date'>;
}

/** Rules with series of their own, two each: the first in evaluation order. */
export const MOST_RULES = 2_000;

/** A node as of its last report. */
interface NodeRow {
  /** `{node="…"}` */
  readonly labels: string;
  readonly phase: NodePhase;
  readonly report: NodeReport | null;
}

/** Its label is `node`. */
type PerNode = Omit<MetricFamily, 'labelNames'> & {
  /** Null: not known, and so absent. */
  readonly value: (row: NodeRow) => number | null;
};

const PER_NODE: readonly PerNode[] = [
  {
    name: 'nodewall_node_up_to_date',
    help: 'Whether the node does what the controller sent last: all rules are in force, or the gate is off.',
    type: 'gauge',
    value: ({ phase }) => (phase === 'Enforced' || phase === 'Disabled' ? 1 : 0),
  },
  {
    name: 'nodewall_node_off',
    help: 'Whether somebody switched nodewall off on the node (nodewall off).',
    type: 'gauge',
    value: ({ report }) => (report === null ? null : report.off === undefined ? 0 : 1),
  },
  {
    name: 'nodewall_node_last_report_timestamp_seconds',
    help: 'Time of the last report of the node; 0: it has never reported.',
    type: 'gauge',
    value: ({ report }) => (report === null ? 0 : Date.parse(report.time) / 1000),
  },
  {
    name: 'nodewall_node_policies_failing',
    help: 'Policies of which a rule cannot be enforced (the version before is in force, if there is one), or that match nothing beside the Service proxy.',
    type: 'gauge',
    value: ({ report }) => report && policiesOf(report.failing.filter((one) => one.rolledBack !== true)),
  },
  {
    name: 'nodewall_node_policies_rolled_back',
    help: 'Policies whose last change was rolled back (guarded apply), and is not applied again.',
    type: 'gauge',
    value: ({ report }) => report && policiesOf(report.failing.filter((one) => one.rolledBack === true)),
  },
  {
    name: 'nodewall_node_failsafe_rules',
    help: 'Rules in force that drop or reject, and spare the failsafe list, as they name no ports.',
    type: 'gauge',
    value: ofTotals(({ failsafeRules }) => failsafeRules),
  },
  {
    name: 'nodewall_node_platform_entries',
    help: 'Entries of the failsafe list for what the node needs to carry pods (tunnels, BGP, ports of the CNI).',
    type: 'gauge',
    value: ({ report }) => report?.platform?.length ?? null,
  },
  {
    name: 'nodewall_node_drifts_total',
    help: "Times that a third party changed the node's rules, which the agent repairs.",
    type: 'counter',
    value: ofTotals(({ drifts }) => drifts),
  },
  {
    name: 'nodewall_node_rollbacks_total',
    help: 'Changes that the node rolled back (guarded apply).',
    type: 'counter',
    value: ofTotals(({ rollbacks }) => rollbacks),
  },
  {
    name: 'nodewall_node_records_lost_total',
    help: 'Records of flows and of egress gateways that the node did not write.',
    type: 'counter',
    value: ofTotals(({ recordsLost }) => recordsLost),
  },
  {
    name: 'nodewall_node_denied_packets_total',
    help: 'Packets that rules dropped or rejected on the node.',
    type: 'counter',
    value: ofTotals(({ denied }) => denied),
  },
];

const PHASES: MetricFamily = {
  name: 'nodewall_nodes',
  help: 'Nodes by phase, as in `kubectl get nodeviews`.',
  type: 'gauge',
  labelNames: ['phase'],
};
const RULE_PACKETS: MetricFamily = {
  name: 'nodewall_rule_denied_packets_total',
  help: 'Packets that a rule dropped or rejected on all nodes, since this controller heard of each.',
  type: 'counter',
  labelNames: ['api_group', 'policy', 'direction', 'rule'],
};
const RULE_BYTES: MetricFamily = {
  ...RULE_PACKETS,
  name: 'nodewall_rule_denied_bytes_total',
  help: 'Their bytes.',
};
const LEFT_OUT: MetricFamily = {
  name: 'nodewall_rules_left_out',
  help: `Rules that drop or reject beyond the first ${MOST_RULES.toLocaleString('en')}, which have no series of their own.`,
  type: 'gauge',
  labelNames: [],
};

/** The metrics on the page of all nodes, in its order. */
export const NODE_METRICS: readonly MetricFamily[] = [
  ...PER_NODE.map((metric) => ({ ...metric, labelNames: ['node'] })),
  ...[PHASES, RULE_PACKETS, RULE_BYTES, LEFT_OUT],
];

/**
 * The metrics of all nodes, from their reports. Ten series a node, two of each rule that drops or
 * rejects. A page of 5,000 nodes takes tens of milliseconds, with a turn for others after each
 * metric; scrapes at the same time share one.
 */
export class NodeMetrics {
  readonly #options: NodeMetricsOptions;
  readonly #rules: RuleSums;
  #page: Promise<string> | null = null;

  constructor(options: NodeMetricsOptions) {
    this.#options = options;
    this.#rules = new RuleSums(options.policies);
  }

  /** @param before the same node's report before this one; null: this is the first */
  receive(report: NodeReport, before: NodeReport | null): void {
    this.#rules.receive(report, before);
  }

  async page(): Promise<{ readonly text: string } | { readonly problem: string }> {
    const problem = this.#options.missing();
    if (problem !== null) return { problem };
    this.#page ??= this.#write().finally(() => {
      this.#page = null;
    });
    return { text: await this.#page };
  }

  async #write(): Promise<string> {
    const rows = this.#rows();
    const parts: string[] = [];
    for (const family of PER_NODE) {
      parts.push(heading(family));
      for (const row of rows) {
        const value = family.value(row);
        if (value !== null) parts.push(sample(family, row.labels, value));
      }
      await turn();
    }
    parts.push(heading(PHASES));
    const phases = Map.groupBy(rows, ({ phase }) => phase);
    for (const phase of NODE_PHASES)
      parts.push(sample(PHASES, writtenLabels({ phase }), phases.get(phase)?.length ?? 0));
    parts.push(...this.#ofRules());
    return parts.join('');
  }

  #rows(): NodeRow[] {
    const { nodes, reports, clock } = this.#options;
    const now = clock.date().getTime();
    return [...nodes().keys()].sort().map((node) => {
      const report = reports.get(node);
      return { labels: writtenLabels({ node }), phase: nodePhase(report, now), report };
    });
  }

  *#ofRules(): Generator<string> {
    this.#rules.forgetRemoved();
    const all = [...this.#rules.rules().values()];
    const rows = all.slice(0, MOST_RULES).map(({ id, source }) => {
      const { apiGroup: api_group, policy, direction, rule } = source;
      return { labels: writtenLabels({ api_group, policy, direction, rule }), sum: this.#rules.get(id) };
    });
    yield heading(RULE_PACKETS);
    for (const { labels, sum } of rows) yield sample(RULE_PACKETS, labels, sum.packets);
    yield heading(RULE_BYTES);
    for (const { labels, sum } of rows) yield sample(RULE_BYTES, labels, sum.bytes);
    yield heading(LEFT_OUT);
    yield sample(LEFT_OUT, '', all.length - rows.length);
  }
}

function ofTotals(value: (totals: NodeTotals) => number): PerNode['value'] {
  return ({ report }) => (report?.totals === undefined ? null : value(report.totals));
}

function policiesOf(failing: NodeReport['failing']): number {
  return new Set(failing.map(({ apiGroup, policy }) => `${apiGroup}/${policy}`)).size;
}

/** One metric in Prometheus' text format (version 0.0.4). */
interface MetricFamily {
  /** A counter's ends in `_total`. */
  readonly name: string;
  /** One sentence. */
  readonly help: string;
  readonly type: 'gauge' | 'counter';
  readonly labelNames: readonly string[];
}

type Labels = Readonly<Record<string, string>>;

/** The lines that come before a family's samples. */
function heading({ name, help, type }: Omit<MetricFamily, 'labelNames'>): string {
  return `# HELP ${name} ${help}\n# TYPE ${name} ${type}\n`;
}

/** Labels as they follow a name: `{a="b"}`; '' for none. */
function writtenLabels(labels: Labels): string {
  const written = Object.entries(labels).map(([name, value]) => `${name}="${escaped(value)}"`);
  return written.length === 0 ? '' : `{${written.join(',')}}`;
}

/** @param labels as of `writtenLabels` */
function sample({ name }: Pick<MetricFamily, 'name'>, labels: string, value: number): string {
  return `${name}${labels} ${value}\n`;
}

function escaped(value: string): string {
  return value.replaceAll('\\', '\\\\').replaceAll('\n', '\\n').replaceAll('"', '\\"');
}
