import { readFileSync } from 'node:fs';
import type { Registry } from 'prom-client';
import { egressMetrics } from '../../agent/egress/egress-metrics.ts';
import { prometheusMetrics } from '../../agent/run/prometheus.ts';
import { NODE_METRICS } from '../../controller/metrics/node-metrics.ts';
import { controllerMetrics } from '../../controller/run/controller-metrics.ts';

export const METRICS_PAGE = new URL('../../docs/metrics.md', import.meta.url);

interface Documented {
  readonly name: string;
  readonly help: string;
  readonly labelNames: readonly string[];
}

/**
 * docs/metrics.md with its tables made anew: each stands between `<!-- NAME -->` and `<!-- end
 * -->`.
 */
export function metricsPage(): string {
  const tables: Readonly<Record<string, () => string>> = {
    nodes: () => table(NODE_METRICS),
    controller: () => table(ofController()),
    agent: () => table(ofAgent()),
  };
  const text = readFileSync(METRICS_PAGE, 'utf8');
  return text.replaceAll(/(<!-- (\w+) -->\n)[\s\S]*?(<!-- end -->)/g, (_, begin, name, end) => {
    const made = tables[name];
    if (made === undefined) throw new Error(`docs/metrics.md: no table is named ${name}`);
    return `${begin}\n${made()}\n${end}`;
  });
}

function table(metrics: readonly Documented[]): string {
  const rows = metrics.map(({ name, help, labelNames }) => {
    const labels = labelNames.length === 0 ? '' : `{${labelNames.join(', ')}}`;
    return `| \`${name}${labels}\` | ${help.replaceAll('|', '\\|')} |\n`;
  });
  return `| metric | meaning |\n| --- | --- |\n${rows.join('')}`;
}

function ofAgent(): Documented[] {
  const metrics = prometheusMetrics({ version: '', isInCluster: true, ofRules: true });
  metrics.extend(egressMetrics);
  return documented(metrics.registry);
}

function ofController(): Documented[] {
  const { registry, compiled, observe } = controllerMetrics(true);
  observe({
    isLeading: () => false,
    watches: () => [],
    server: () => null,
    statusesWaiting: () => 0,
    certificateExpires: () => null,
    rollouts: () => new Map(),
    guardrails: () => ({ all: 0, broken: 0 }),
    lastDefinitions: () => 0,
    unsetGateNodes: () => 0,
    leases: () => ({ slots: 0, addresses: 0, nodesNotReady: 0 }),
  });
  // With egress gateways it has one more.
  const none = { nodes: 0, policies: 0, invalid: 0, ignoredAddresses: 0, ignoredEndpoints: 0 };
  compiled(0, { ...none, ignoredNetworks: 0 });
  return documented(registry);
}

/** nodewall's own; the process's are described by prom-client. */
function documented(registry: Registry): Documented[] {
  const own = registry.getMetricsAsArray().filter(({ name }) => name.startsWith('nodewall_'));
  return own.map((metric) => ({
    ...metric,
    // Not in the type of prom-client's metrics.
    labelNames: (metric as { readonly labelNames?: readonly string[] }).labelNames ?? [],
  }));
}
