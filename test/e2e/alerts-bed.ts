/** A real Prometheus, Debian's, beside the controllers of a story; the alerts' times run faster. */

import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { stringify } from 'yaml';
import { ALL_NODES_PATH } from '../../apis/node-question.ts';
import { ruleGroups } from '../../build/manifests/monitoring/rules.ts';
import { usersYaml } from '../cluster/admin-api.ts';
import { toRunningAgent } from '../kernel/enforced-node.ts';
import { until } from '../kernel/until.ts';
import { faster, type Speed } from '../metrics/alert-cases.ts';
import { PrometheusApi } from '../metrics/prometheus-api.ts';
import { debianPrometheus } from '../metrics/promtool.ts';
import { controllerCa } from './installed.ts';
import type { Story } from './story-bed.ts';
import { replicaPort, SERVICE_PORT } from './story-controllers.ts';

const LISTEN = '127.0.0.1:9099';
/** Those that no replica has are down. */
const PORTS = [0, 1, 2].map(replicaPort);
const SCRAPER = usersYaml({ prometheus: ['nodewall-metrics-reader'] });

export interface AlertsBed {
  readonly prometheus: PrometheusApi;
  /** Waits until the alert fires, with these labels among its own. */
  fires(alert: string, labels?: Readonly<Record<string, string>>, limit?: number): Promise<void>;
  /** Waits until it fires no more. */
  clears(alert: string, limit?: number): Promise<void>;
  close(): Promise<void>;
}

/** @param speeds of alerts by name, `default` for the others */
export async function startPrometheus(
  story: Story,
  speeds: Readonly<Record<string, Speed>> & { readonly default: Speed },
): Promise<AlertsBed> {
  const folder = await mkdtemp(join(tmpdir(), 'nodewall-prometheus-'));
  const file = (name: string): string => join(folder, name);
  const { cluster, controlPlane, address } = story;
  await cluster.apply(SCRAPER);
  await writeFile(file('token'), await cluster.token('default/prometheus'), { mode: 0o600 });
  await writeFile(file('ca.crt'), await controllerCa(cluster));
  const rules = ruleGroups((alert) => faster(alert, speeds[alert.name] ?? speeds.default));
  await writeFile(file('rules.yaml'), stringify(rules));
  const job = (job_name: string, metrics_path: string): object => ({
    job_name,
    metrics_path,
    scheme: 'https',
    authorization: { credentials_file: file('token') },
    tls_config: { ca_file: file('ca.crt'), server_name: 'nodewall-controller.nodewall-system.svc' },
    static_configs: [{ targets: PORTS.map((port) => `${address}:${port}`) }],
  });
  const config = {
    global: { scrape_interval: '1s', scrape_timeout: '1s', evaluation_interval: '1s' },
    rule_files: [file('rules.yaml')],
    scrape_configs: [
      job('nodewall-controllers', '/metrics'),
      job('nodewall-nodes', ALL_NODES_PATH),
      {
        ...job('nodewall-agents', '/metrics'),
        static_configs: [{ targets: story.nodes.map(({ name }) => name) }],
        relabel_configs: [
          { source_labels: ['__address__'], target_label: 'instance' },
          {
            source_labels: ['__address__'],
            target_label: '__metrics_path__',
            replacement: `${ALL_NODES_PATH}/$1`,
          },
          { target_label: '__address__', replacement: `${address}:${SERVICE_PORT}` },
        ],
      },
    ],
  };
  await writeFile(file('prometheus.yaml'), stringify(config));
  const server = toRunningAgent(
    controlPlane.spawn([
      join(await debianPrometheus(), 'prometheus'),
      `--config.file=${file('prometheus.yaml')}`,
      `--storage.tsdb.path=${file('data')}`,
      `--web.listen-address=${LISTEN}`,
    ]),
  );
  const prometheus = new PrometheusApi(controlPlane, LISTEN);
  let last = '';

  async function hasAlert(alert: string, labels: Readonly<Record<string, string>>): Promise<boolean> {
    const alerts = await prometheus.alerts().catch(() => null);
    if (alerts === null) return false;
    last = JSON.stringify(alerts, null, 1);
    const wanted = Object.entries({ ...labels, alertname: `Nodewall${alert}` });
    return alerts.some(
      (one) => one.state === 'firing' && wanted.every(([name, value]) => one.labels[name] === value),
    );
  }

  const detail = (): string => `${last}\n${server.log().slice(-3000)}`;
  await until('Prometheus answers', async () => (await prometheus.targets().catch(() => [])).length > 0, {
    detail,
  });
  return {
    prometheus,
    fires: (alert, labels = {}, limit = 120_000) =>
      until(`${alert} fires`, () => hasAlert(alert, labels), { limit, detail }).then(() => undefined),
    clears: (alert, limit = 120_000) =>
      until(`${alert} clears`, async () => !(await hasAlert(alert, {})), { limit, detail }).then(
        () => undefined,
      ),
    async close() {
      await server.end('SIGTERM');
      await rm(folder, { recursive: true });
    },
  };
}
