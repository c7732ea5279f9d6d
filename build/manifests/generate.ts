import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import type { Registry } from 'prom-client';
import { stringify } from 'yaml';
import { extendMetrics } from '../../agent/extension/agent.ts';
import { prometheusMetrics } from '../../agent/run/prometheus.ts';
import { admissionPolicies } from '../../apis/schema/admission-policies.ts';
import { customResourceDefinitions } from '../../apis/schema/crd.ts';
import { NODE_METRICS } from '../../controller/metrics/node-metrics.ts';
import { controllerMetrics } from '../../controller/run/controller-metrics.ts';
import { CHART, chartFiles } from './chart/chart-files.ts';
import { compatibilityPage } from './compatibility/page.ts';
import {
  CLUSTER_RESULTS,
  CONNECTION_RESULTS,
  KERNEL_RESULTS,
  SUITE_RESULTS,
} from './compatibility/results.ts';
import { monitoringFiles } from './monitoring/rules.ts';

const MADE_OF_SCHEMA = '# Made from apis/schema by `npm run generate`; edit there.\n';
const deploy = new URL('../../deploy/', import.meta.url);

/** The files of deploy/crds, one for each kind, and what is in them. */
export function crdFiles(): Map<URL, string> {
  return new Map(
    customResourceDefinitions().map((definition) => {
      const { singular } = definition.spec.names;
      // Equal parts would become anchors.
      const text = stringify(definition, { aliasDuplicateObjects: false, lineWidth: 0 });
      return [new URL(`crds/${singular}.yaml`, deploy), MADE_OF_SCHEMA + text];
    }),
  );
}

const POLICIES = new URL('kustomize/components/admission-policies/policies.yaml', deploy);

function policiesText(): string {
  const texts = admissionPolicies().map((each) =>
    stringify(each, { aliasDuplicateObjects: false, lineWidth: 0 }),
  );
  return MADE_OF_SCHEMA + texts.join('---\n');
}

/**
 * All that `npm run generate` writes: the CustomResourceDefinitions, the admission policies, the
 * tables of docs/metrics.md, docs/compatibility.md, the dashboards, and the alerts with their
 * runbooks.
 */
export async function generatedFiles(): Promise<Map<URL, string>> {
  return new Map([
    ...crdFiles(),
    [POLICIES, policiesText()],
    [METRICS_PAGE, await metricsPage()],
    [
      COMPATIBILITY_PAGE,
      compatibilityPage({
        cells: KERNEL_RESULTS.read(),
        clusters: CLUSTER_RESULTS.read(),
        connections: CONNECTION_RESULTS.read(),
        suites: SUITE_RESULTS.read(),
      }),
    ],
    ...monitoringFiles(),
  ]);
}

const METRICS_PAGE = new URL('../../docs/metrics.md', import.meta.url);
const COMPATIBILITY_PAGE = new URL('../../docs/compatibility.md', import.meta.url);

interface Documented {
  readonly name: string;
  readonly help: string;
  readonly labelNames: readonly string[];
}

/**
 * docs/metrics.md with its tables made anew: each stands between `<!-- NAME -->` and `<!-- end
 * -->`.
 */
async function metricsPage(): Promise<string> {
  const agent = await ofAgent();
  const tables: Readonly<Record<string, () => string>> = {
    nodes: () => table(NODE_METRICS),
    controller: () => table(ofController()),
    agent: () => table(agent),
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

async function ofAgent(): Promise<Documented[]> {
  const metrics = prometheusMetrics({ version: '', isInCluster: true, ofRules: true });
  await extendMetrics(metrics);
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

function write(files: ReadonlyMap<URL, string>): void {
  for (const [path, text] of files) {
    mkdirSync(new URL('.', path), { recursive: true });
    writeFileSync(path, text);
  }
}

// `npm run generate`. The chart's values are made of what kustomize reads, so they come last.
if (import.meta.main) {
  write(await generatedFiles());
  write(new Map([...chartFiles().kept].map(([path, text]) => [new URL(path, CHART), text])));
}
