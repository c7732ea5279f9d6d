import assert from 'node:assert/strict';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { parseAllDocuments, stringify } from 'yaml';
import { CONDITIONS, packageChart } from '../../build/manifests/chart/chart-files.ts';
import { output, run } from '../../build/programs/command.ts';
import { buildCluster, buildHelm } from '../cluster/build.ts';
import { ROOT } from '../structure/source-file.ts';

const KUSTOMIZE = join(ROOT, 'deploy/kustomize');
/** What each overlay or component of kustomize is in the chart. */
const VALUES: Readonly<Record<string, string>> = {
  'overlays/single-node': 'singleNode=true',
  'overlays/fail-closed': 'webhooks.failClosed=true',
  'overlays/certmanager': 'certManager.enabled=true',
  'overlays/iptables': 'agentConfig.dataplane=iptables,agentConfig.iptables.variant=nft',
  'overlays/startup-taint': 'agentConfig.startupTaint=nodewall.io/agent-not-ready',
  'components/admission-policies': 'admission=policies',
  'components/boot': 'boot.enabled=true',
  'components/egress': 'egress.enabled=true',
  'components/egress-pods': 'egress.pods=true',
  'components/kubelet-kubeconfig': 'kubeletKubeconfig.enabled=true',
  'components/control-plane': 'controller.preferControlPlane=true',
  'components/network-policies': 'networkPolicies.enabled=true',
  'components/monitoring': 'prometheusRule.enabled=true',
  'components/dashboards': 'dashboards.enabled=true',
  'components/no-aggregated-api': 'aggregatedAPI=false',
  'components/priority-quota': 'priorityQuota.enabled=true',
  'components/selinux': 'seLinux.enabled=true',
  'components/openshift': 'openShift.enabled=true',
};
/** Values that Helm must refuse, and the key that it must name. */
const WRONG: readonly (readonly [string, string])[] = [
  ['replicas=2', 'replicas'],
  ['image=x', 'image'],
  ['controller.replica=2', 'replica'],
  ['controller.replicas=0', 'replicas'],
  ['controller.replicas=two', 'replicas'],
  ['controller.replicas=2.5', 'replicas'],
  ['controller.resources.limit.memory=1Gi', 'limit'],
  ['controller.resources.limits.memory=lots', 'memory'],
  ['agent.resource.limits.memory=1Gi', 'resource'],
  ['agent.hostNetwork=false', 'hostNetwork'],
  ['images.controller.repository=', 'repository'],
  ['images.controller.tag=1:2', 'tag'],
  ['images.agent.digest=sha256:12', 'digest'],
  ['images.agent.name=x', 'name'],
  ['images.pullPolicy=Sometimes', 'pullPolicy'],
  ['images.pullSecrets[0].nam=x', 'nam'],
  ['images.pullSecrets=registry', 'pullSecrets'],
  ['singleNode=maybe', 'singleNode'],
  ['webhooks.failurePolicy=Fail', 'failurePolicy'],
  ['webhook.failClosed=true', 'webhook'],
  ['certManager=true', 'certManager'],
  ['certmanager.enabled=true', 'certmanager'],
  ['admission=none', 'admission'],
  ['aggregatedApi=false', 'aggregatedApi'],
  ['boot.enable=true', 'enable'],
  ['egress.enabled=1', 'enabled'],
  ['crds.keep=false', 'keep'],
  ['namespace.name=firewall', 'name'],
  ['agentConfig.dataplane=ebpf', 'dataplane'],
  ['agentConfig.antispoofing=false', 'antispoofing'],
  ['agentConfig.guard.window=0', 'window'],
  ['agentConfig.failsafe.ingress[0].port=70000', 'port'],
  ['agentConfig.failsafe.ingress[0].ports=22', 'ports'],
  ['agentConfig.log.maxFiles=many', 'maxFiles'],
  ['agentConfig.exemptions.loopbak=false', 'loopbak'],
  ['networkPolicies.enabled=yes', 'enabled'],
  ['dashboards.label=grafana', 'label'],
  ['dashboards.labels.grafana_dashboard=true', 'grafana_dashboard'],
  ['dashboards.namespace=Monitoring', 'namespace'],
  ['prometheusRule.labels=monitoring', 'labels'],
  ['uninstall.timeout=5m', 'timeout'],
  ['uninstall.force=true', 'force'],
  ['openshift.enabled=true', 'openshift'],
];

interface Manifest {
  readonly kind: string;
  readonly metadata: {
    readonly name: string;
    readonly namespace?: string;
    readonly labels?: Readonly<Record<string, string>>;
    annotations?: Readonly<Record<string, string>>;
  };
  readonly data?: Readonly<Record<string, string>>;
}

/** By kind, namespace and name; without what is for Helm alone. */
function parse(text: string): Map<string, Manifest> {
  const manifests = parseAllDocuments(text).flatMap((document) => (document.toJS() as Manifest | null) ?? []);
  for (const { metadata } of manifests) {
    if (metadata.annotations?.['helm.sh/resource-policy'] === undefined) continue;
    const { 'helm.sh/resource-policy': _, ...annotations } = metadata.annotations;
    metadata.annotations = annotations;
    if (Object.keys(annotations).length === 0) delete metadata.annotations;
  }
  return new Map(manifests.map((each) => [keyOf(each), each]));
}

function keyOf({ kind, metadata: { namespace, name } }: Manifest): string {
  return `${kind} ${namespace ?? ''}/${name}`;
}

describe('deploy/chart', function () {
  this.timeout(60_000);
  let helm: string;
  let kubernetes: string;
  let scratch: string;
  let chart: string;
  /** Without values. */
  let usual: ReadonlyMap<string, Manifest>;
  before(async function () {
    this.timeout(1_800_000);
    [helm, kubernetes] = [await buildHelm(), await buildCluster()];
    scratch = await mkdtemp(join(tmpdir(), 'nodewall-chart-'));
    chart = join(scratch, 'chart');
    await packageChart(chart);
    usual = parse(await template());
  });
  after(() => rm(scratch, { recursive: true }));

  function template(...settings: readonly string[]): Promise<string> {
    const set = settings.flatMap((setting) => ['--set', setting]);
    return output([helm, 'template', 'nodewall', chart, '--namespace=kube-system', '--no-hooks', ...set]);
  }

  /** The base with this overlay or component; '' is the base alone. */
  async function kustomize(folder: string): Promise<string> {
    const there = (path: string): string => relative(scratch, join(KUSTOMIZE, path));
    const isComponent = folder.startsWith('components/');
    const kustomization = {
      resources: [there(folder === '' || isComponent ? 'base' : folder)],
      components: isComponent ? [there(folder)] : [],
    };
    await writeFile(join(scratch, 'kustomization.yaml'), stringify(kustomization));
    return output([kubernetes, 'kubectl', 'kustomize', scratch]);
  }

  it('passes helm lint', async () => {
    const { code, stdout, stderr } = await run([helm, 'lint', '--strict', chart]);
    assert.equal(code, 0, stdout + stderr);
  });

  it('is by default what the base of kustomize is, but for the namespace', async () => {
    const expected = parse(await kustomize(''));
    assert.ok(expected.delete('Namespace /nodewall-system'));
    assert.deepEqual(usual, expected);
  });

  it('is with the namespace all of the base', async () => {
    assert.deepEqual(parse(await template('namespace.create=true')), parse(await kustomize('')));
  });

  it('knows a value for each folder of kustomize that it is made of', () => {
    assert.deepEqual(Object.keys(VALUES).sort(), Object.keys(CONDITIONS).sort());
  });

  for (const [folder, setting] of Object.entries(VALUES)) {
    it(`--set ${setting}: ${folder}`, async () => {
      const expected = parse(await kustomize(folder));
      expected.delete('Namespace /nodewall-system');
      assert.notDeepEqual(expected, usual);
      assert.deepEqual(parse(await template(...setting.split(','))), expected);
    });
  }

  it('has the ports of agentConfig, as overlay one-port, and where NetworkPolicies deny by default', async () => {
    const set = ['agents', 'webhook'].map((name) => `agentConfig.controllerPorts.${name}=10250`);
    const expected = parse(await kustomize('overlays/one-port'));
    expected.delete('Namespace /nodewall-system');
    assert.deepEqual(parse(await template(...set)), expected);
    const opened = parse(await template(...set, 'networkPolicies.enabled=true'));
    const { spec } = opened.get('NetworkPolicy nodewall-system/nodewall-controller') as unknown as {
      spec: { ingress: { ports: { port: number }[] }[] };
    };
    assert.deepEqual(
      spec.ingress[0]?.ports.map(({ port }) => port),
      [10250, 10250, 8080],
    );
  });

  it('has the dashboards of deploy/monitoring, where and as the sidecar of a cluster looks for them', async () => {
    const text = await template(
      'dashboards.enabled=true',
      'dashboards.namespace=monitoring',
      'dashboards.labels.team=net',
      'dashboards.annotations.grafana_folder=Firewalls',
    );
    const maps = [...parse(text).values()].filter(({ metadata }) => metadata.namespace === 'monitoring');
    assert.equal(maps.length, 3);
    for (const { metadata, data = {} } of maps) {
      const { labels, annotations } = metadata;
      assert.deepEqual(annotations, { grafana_folder: 'Firewalls' });
      assert.deepEqual(labels, {
        'app.kubernetes.io/part-of': 'nodewall',
        grafana_dashboard: '1',
        team: 'net',
      });
      const [[file = '', dashboard = ''] = []] = Object.entries(data);
      const path = join(ROOT, 'deploy/monitoring/dashboards', file.replace('nodewall-', ''));
      assert.equal(dashboard, await readFile(path, 'utf8'));
    }
  });

  it('has alerts with the labels that the Prometheus of a cluster selects', async () => {
    const text = await template('prometheusRule.enabled=true', 'prometheusRule.labels.release=monitoring');
    const rule = parse(text).get('PrometheusRule nodewall-system/nodewall');
    assert.deepEqual(rule?.metadata.labels, {
      'app.kubernetes.io/part-of': 'nodewall',
      release: 'monitoring',
    });
  });

  it('keeps every CustomResourceDefinition when the release is removed', async () => {
    const definitions = parseAllDocuments(await template())
      .map((document) => document.toJS() as Manifest | null)
      .filter((each) => each?.kind === 'CustomResourceDefinition');
    assert.equal(definitions.length, 7);
    for (const each of definitions)
      assert.equal(each?.metadata.annotations?.['helm.sh/resource-policy'], 'keep', each?.metadata.name);
    const kinds = [...parse(await template('crds.install=false')).values()].map(({ kind }) => kind);
    assert.ok(kinds.length > 20 && !kinds.includes('CustomResourceDefinition'));
  });

  it('has no feature gate, so that no upgrade or rollback changes it', async () => {
    assert.ok(!usual.has('ConfigMap nodewall-system/nodewall-config'));
  });

  it('switches the nodes off before it is removed, unless told otherwise', async () => {
    const args = [helm, 'template', 'nodewall', chart, '--namespace=kube-system'];
    const job = parse(await output([...args, '--set=uninstall.ignoreUnreachable=true'])).get(
      'Job nodewall-system/nodewall-uninstall',
    );
    assert.equal(job?.metadata.annotations?.['helm.sh/hook'], 'pre-delete');
    const { spec } = job as unknown as {
      spec: { template: { spec: { containers: { args: string[] }[] } } };
    };
    const flags = ['--keep-objects', '--timeout=240', '--ignore-unreachable'];
    assert.deepEqual(spec.template.spec.containers[0]?.args, ['uninstall', ...flags]);
    const without = await output([...args, '--set=uninstall.hook=false']);
    assert.ok(!without.includes('nodewall-uninstall'));
  });

  it('mounts no Secret on all nodes', async () => {
    const agent = parse(await template('certManager.enabled=true')).get(
      'DaemonSet nodewall-system/nodewall-agent',
    );
    assert.ok(agent !== undefined && !JSON.stringify(agent).includes('"secret"'));
  });

  it('takes images by digest', async () => {
    const digest = `sha256:${'0123456789abcdef'.repeat(4)}`;
    const text = await template('images.agent.repository=r/agent', `images.agent.digest=${digest}`);
    assert.ok(text.includes(`image: r/agent@${digest}\n`));
  });

  it('refuses a namespace of its own in the namespace of the release', async () => {
    const args = ['--namespace=nodewall-system', '--set=namespace.create=true'];
    const { code, stderr } = await run([helm, 'template', 'nodewall', chart, ...args]);
    assert.notEqual(code, 0);
    assert.match(stderr, /namespace\.create/);
  });

  it('has the version of the program', async () => {
    const { version } = JSON.parse(await readFile(join(ROOT, 'package.json'), 'utf8'));
    const shown = await output([helm, 'show', 'chart', chart]);
    assert.ok(shown.includes(`\nversion: ${version}\n`) && shown.includes(`appVersion: ${version}\n`));
  });

  for (const [setting, key] of WRONG) {
    it(`refuses --set ${setting}, and names ${key}`, async () => {
      const { code, stderr } = await run([helm, 'template', 'nodewall', chart, '--set', setting]);
      assert.notEqual(code, 0);
      // After the name of the file and of the chart.
      const [, message = ''] = stderr.split("values don't meet the specifications of the schema");
      assert.match(message, new RegExp(`\\b${key}\\b`));
    });
  }
});
