/** The alerts, by promtool: what fires them, and what clears them. */

import assert from 'node:assert/strict';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parse, stringify } from 'yaml';
import type { Alert } from '../../build/manifests/monitoring/alerts.ts';
import { ALERTS, alertName, annotationsOf, ruleGroups } from '../../build/manifests/monitoring/rules.ts';
import { output } from '../../build/programs/command.ts';
import { NODE_METRICS } from '../../controller/metrics/node-metrics.ts';
import { ROOT } from '../structure/source-file.ts';
import { ALERT_CASES, type AlertCase, HEALTHY } from './alert-cases.ts';
import { promtool } from './promtool.ts';

interface RuleFile {
  readonly groups: readonly {
    readonly name: string;
    readonly rules: readonly { readonly alert: string }[];
  }[];
}

describe('the alerts', function () {
  this.timeout(120_000);
  let folder: string;
  /** The alerts as a file for `rule_files`, by the command of docs/metrics.md. */
  let rules: string;
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'nodewall-alerts-'));
    rules = join(folder, 'nodewall-rules.yaml');
    const page = await readFile(join(ROOT, 'docs/metrics.md'), 'utf8');
    const [, command] = /^(sed .*) > nodewall-rules\.yaml$/m.exec(page) ?? assert.fail('docs/metrics.md');
    await writeFile(rules, await output(['sh', '-c', command ?? ''], { cwd: ROOT }));
  });
  after(() => rm(folder, { recursive: true }));

  /** Fails with what promtool says. */
  async function checkTests(tests: readonly object[], tested = rules): Promise<void> {
    const file = join(folder, 'tests.yaml');
    await writeFile(file, stringify({ rule_files: [tested], evaluation_interval: '1m', tests }));
    const { code, stdout, stderr } = await promtool(['test', 'rules', file]);
    assert.equal(code, 0, stdout + stderr);
  }

  /**
   * A file with this alert alone of those that are shipped: promtool evaluates all rules of a file.
   */
  async function ruleOf(alert: Alert): Promise<string> {
    const { groups } = parse(await readFile(rules, 'utf8')) as RuleFile;
    const only = groups.map((group) => {
      return { ...group, rules: group.rules.filter((one) => one.alert === alertName(alert)) };
    });
    const file = join(folder, 'rule.yaml');
    await writeFile(file, stringify({ groups: only.filter((group) => group.rules.length > 0) }));
    return file;
  }

  it('are valid rules of Prometheus, and all that there are', async () => {
    assert.deepEqual(parse(await readFile(rules, 'utf8')), ruleGroups());
    const { code, stdout, stderr } = await promtool(['check', 'rules', rules]);
    assert.equal(code, 0, stdout + stderr);
    assert.match(stdout, new RegExp(`${ALERTS.length} rules found`));
  });

  it('have each a case in which they fire', () => {
    assert.deepEqual(
      ALERT_CASES.map(({ alert }) => alert),
      ALERTS.map(({ name }) => name),
    );
  });

  for (const one of ALERT_CASES) {
    it(`${one.alert} fires, and clears`, async () => {
      const alert = ALERTS.find(({ name }) => name === one.alert) ?? assert.fail(one.alert);
      const tests = [{ ...seriesOf(one), alert_rule_test: firesAndClears(alert, one) }];
      await checkTests(tests, await ruleOf(alert));
    });
  }

  it('fire none where nothing is wrong', async () => {
    const times = ['30m', '8h', '16h45m', '25h', '26h'];
    const none = times.flatMap((eval_time) =>
      ALERTS.map((alert) => ({ eval_time, alertname: alertName(alert), exp_alerts: [] })),
    );
    await checkTests([{ ...seriesOf(HEALTHY), alert_rule_test: none }]);
    const wrong = { ...HEALTHY, series: { ...HEALTHY.series, nodewall_controller_problems: '1x312' } };
    await assert.rejects(checkTests([{ ...seriesOf(wrong), alert_rule_test: none }]), /InvalidObjects/);
  });

  it('name only metrics that there are', async () => {
    const page = await readFile(join(ROOT, 'docs/metrics.md'), 'utf8');
    const known = new Set([...page.matchAll(/^\| `(nodewall_\w+)/gm)].map(([, name]) => name));
    assert.ok(NODE_METRICS.every(({ name }) => known.has(name)));
    const used = new Set(ALERTS.flatMap(({ expr }) => expr.match(/\bnodewall_\w+/g) ?? []));
    assert.deepEqual(
      [...used].filter((name) => !known.has(name)),
      [],
    );
  });
});

function seriesOf({ interval = '1m', series }: Pick<AlertCase, 'interval' | 'series'>): object {
  return {
    interval,
    input_series: Object.entries(series).map(([name, values]) => ({ series: name, values })),
  };
}

function firesAndClears(alert: Alert, { firesAt, clearAt, labels = {}, value }: AlertCase): object[] {
  const { summary = '', ...others } = annotationsOf(alert);
  const expanded = summary
    .replaceAll(/\{\{ \$labels\.(\w+) \}\}/g, (_, name) => labels[name] ?? '')
    .replaceAll('{{ $value }}', String(value));
  const expected = {
    exp_labels: { severity: alert.severity, ...labels },
    exp_annotations: { ...others, summary: expanded },
  };
  const alertname = alertName(alert);
  return [
    { eval_time: firesAt, alertname, exp_alerts: [expected] },
    { eval_time: clearAt, alertname, exp_alerts: [] },
  ];
}
