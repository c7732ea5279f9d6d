import type { CompiledPolicy, CompiledRule } from '../../apis/compiled.ts';
import type { NodeReport } from '../../apis/node-report.ts';
import { NodeMetrics } from '../../controller/metrics/node-metrics.ts';
import { nodeReport } from '../fake/node-state.ts';

export interface Cluster {
  readonly nodes: number;
  readonly rules: number;
}

/** Reports of a cluster whose nodes all report and hit 100 rules, and the page about them. */
export function allNodes({ nodes, rules }: Cluster) {
  const policies = Array.from({ length: rules / 10 }, (_, policy) => policyOf(policy));
  const names = Array.from({ length: nodes }, (_, i) => `ip-10-0-${i}.eu-central-1.compute.internal`);
  const reports = new Map<string, NodeReport>();
  const metrics = new NodeMetrics({
    nodes: () => new Map(names.map((name) => [name, null])),
    reports: { get: (node) => reports.get(node) ?? null },
    policies: () => policies,
    missing: () => null,
    clock: { date: () => new Date(0) },
  });
  return {
    policies,
    /** Every node reports that this revision is in force, and that a rule was hit. */
    report(revision: number): void {
      for (const [i, node] of names.entries()) {
        const report = reportOf(node, revision, i % (rules - 100));
        metrics.receive(report, reports.get(node) ?? null);
        reports.set(node, report);
      }
    },
    async page(): Promise<string> {
      const page = await metrics.page();
      return 'text' in page ? page.text : page.problem;
    },
  };
}

function policyOf(number: number): CompiledPolicy {
  const name = `protect-control-plane-${number}`;
  const rules = Array.from({ length: 10 }, (_, ruleIndex) => {
    const source = {
      apiGroup: 'nodewall.io',
      policy: name,
      direction: 'ingress',
      rule: `drop-${ruleIndex}`,
      ruleIndex,
    };
    return { id: idOf(10 * number + ruleIndex), source, action: 'Drop', mode: 'Enforce' };
  });
  return { apiGroup: 'nodewall.io', name, rules: rules as unknown as readonly CompiledRule[], spans: [] };
}

function idOf(rule: number): string {
  return `rule-${String(rule).padStart(6, '0')}`;
}

function reportOf(node: string, revision: number, first: number): NodeReport {
  return nodeReport(node, `e.${revision}`, {
    policies: 10,
    totals: {
      drifts: 0,
      rollbacks: 0,
      recordsLost: 0,
      denied: revision,
      failsafeRules: 1,
      rules: Array.from({ length: 100 }, (_, i) => [idOf(first + i), revision, 60 * revision]),
    },
  });
}
