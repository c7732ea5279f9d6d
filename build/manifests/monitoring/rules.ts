import { stringify } from 'yaml';
import { type Alert, CONTROLLER_ALERTS, NODE_ALERTS } from './alerts.ts';
import { DASHBOARDS, type Dashboard, toGrafana } from './dashboards.ts';

const MADE = '# Made of build/manifests/monitoring by `npm run generate`; edit there.\n';
const ROOT = new URL('../../../', import.meta.url);
/** The alerts, below the root. */
const RULES = 'deploy/kustomize/components/monitoring/prometheus-rule.yaml';
/**
 * By which the sidecar of Grafana's chart finds dashboards; kube-prometheus-stack's wants this
 * value.
 */
export const DASHBOARD_LABELS = { grafana_dashboard: '1' } as const;

interface Group {
  readonly name: string;
  readonly about: string;
  readonly alerts: readonly Alert[];
}

const ALERT_GROUPS: readonly Group[] = [
  { name: 'nodewall-controllers', about: 'Controllers and objects', alerts: CONTROLLER_ALERTS },
  { name: 'nodewall-nodes', about: 'Nodes', alerts: NODE_ALERTS },
];

export const ALERTS: readonly Alert[] = ALERT_GROUPS.flatMap(({ alerts }) => alerts);

/** The name of an alert in Prometheus. */
export function alertName({ name }: Pick<Alert, 'name'>): string {
  return `Nodewall${name}`;
}

/** The content of a rules file, and of a PrometheusRule's `spec`. */
export function ruleGroups(alerts: (alert: Alert) => Alert = (alert) => alert): object {
  return {
    groups: ALERT_GROUPS.map((group) => ({
      name: group.name,
      rules: group.alerts.map(alerts).map((alert) => ({
        alert: alertName(alert),
        expr: alert.expr,
        for: alert.for,
        labels: { severity: alert.severity },
        annotations: annotationsOf(alert),
      })),
    })),
  };
}

export function annotationsOf(alert: Alert): Readonly<Record<string, string>> {
  return { summary: alert.summary, runbook: `docs/runbooks.md#${alertName(alert).toLowerCase()}` };
}

/**
 * The rules as a manifest for the Prometheus Operator, whose `spec` is a rules file of Prometheus;
 * the runbook of each alert; the dashboards as files.
 */
export function monitoringFiles(): Map<URL, string> {
  const manifest = {
    apiVersion: 'monitoring.coreos.com/v1',
    kind: 'PrometheusRule',
    metadata: metadata('nodewall'),
    spec: ruleGroups(),
  };
  return new Map([
    [new URL(RULES, ROOT), MADE + stringify(manifest, { lineWidth: 0 })],
    [new URL('docs/runbooks.md', ROOT), runbooks()],
    ...DASHBOARDS.map((one): [URL, string] => [
      new URL(`deploy/monitoring/dashboards/${one.name}.json`, ROOT),
      dashboardText(one),
    ]),
  ]);
}

/** Manifests for Grafana's sidecar, as deploy/monitoring/dashboards makes them by kustomize. */
export function dashboardManifests(): object[] {
  return DASHBOARDS.map((one) => ({
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: metadata(`nodewall-dashboard-${one.name}`, DASHBOARD_LABELS),
    data: { [`nodewall-${one.name}.json`]: dashboardText(one) },
  }));
}

function metadata(name: string, labels: Readonly<Record<string, string>> = {}): object {
  return {
    name,
    namespace: 'nodewall-system',
    labels: { 'app.kubernetes.io/part-of': 'nodewall', ...labels },
  };
}

function dashboardText(dashboard: Dashboard): string {
  return `${JSON.stringify(toGrafana(dashboard), null, 2)}\n`;
}

function runbooks(): string {
  const rows = ALERTS.map((alert) => {
    const name = alertName(alert);
    return `| [${name}](#${name.toLowerCase()}) | ${alert.severity} | ${alert.summary.replaceAll(/\{\{ \$(?:labels\.)?(\w+) \}\}/g, '*$1*')} |\n`;
  });
  const sections = ALERT_GROUPS.flatMap(({ about, alerts }) => [`## ${about}\n`, ...alerts.map(runbook)]);
  return `<!-- Made of build/manifests/monitoring by \`npm run generate\`; edit there. -->

# Runbooks

One for [each alert](../${RULES}). The alerts are made
for the metrics of the controllers and of all nodes ([metrics.md](metrics.md#alerts)).

| alert | severity | summary |
| --- | --- | --- |
${rows.join('')}
${sections.join('\n')}`;
}

function runbook(alert: Alert): string {
  const look = alert.look.map(([command, shows]) => `# ${shows}\n${command}\n`).join('');
  return `### ${alertName(alert)}

${wrapped(alert.means)}

\`\`\`promql
# ${alert.severity}, after ${alert.for}
${alert.expr}
\`\`\`

Look:

\`\`\`sh
${look}\`\`\`

${wrapped(`Do: ${alert.act}`)}
`;
}

/** Lines of at most 120 columns, as all documents have them. */
function wrapped(text: string): string {
  const lines = [''];
  for (const word of text.split(' ')) {
    const line = lines.at(-1) ?? '';
    if (line !== '' && line.length + 1 + word.length > 120) lines.push(word);
    else lines[lines.length - 1] = line === '' ? word : `${line} ${word}`;
  }
  return lines.join('\n');
}
