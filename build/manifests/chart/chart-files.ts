import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { cp, rm, writeFile } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { type Document, parseAllDocuments, parseDocument, stringify } from 'yaml';
import { customResourceDefinitions } from '../../../apis/schema/crd.ts';
import { ROOT } from '../../programs/folder.ts';
import { dashboardManifests } from '../monitoring/rules.ts';
import { chartValues, type Initial, valuesSchema, valuesTable, valuesText } from './chart-values.ts';
import { type KustomizeOperation, TemplateDocument } from './template-document.ts';

/** The files of the chart that are kept. Helm refuses them alone: Chart.yaml is missing. */
export const CHART = new URL('../../../deploy/chart/', import.meta.url);
const BASE = 'base';

/** The overlays and components of kustomize that are in the chart, each under a condition. */
export const CONDITIONS: Readonly<Record<string, string>> = {
  'overlays/single-node': '.Values.singleNode',
  'overlays/fail-closed': '.Values.webhooks.failClosed',
  'overlays/certmanager': '.Values.certManager.enabled',
  'overlays/iptables': 'eq (.Values.agentConfig.dataplane | default "nftables") "iptables"',
  'overlays/startup-taint': '.Values.agentConfig.startupTaint',
  'components/admission-policies': 'eq .Values.admission "policies"',
  'components/boot': '.Values.boot.enabled',
  'components/egress': '.Values.egress.enabled',
  'components/egress-pods': '.Values.egress.pods',
  'components/kubelet-kubeconfig': '.Values.kubeletKubeconfig.enabled',
  'components/control-plane': '.Values.controller.preferControlPlane',
  'components/network-policies': '.Values.networkPolicies.enabled',
  'components/monitoring': '.Values.prometheusRule.enabled',
  'components/dashboards': '.Values.dashboards.enabled',
  'components/no-aggregated-api': 'not .Values.aggregatedAPI',
  'components/priority-quota': '.Values.priorityQuota.enabled',
  // Component openshift includes this one.
  'components/selinux': 'or .Values.seLinux.enabled .Values.openShift.enabled',
  'components/openshift': '.Values.openShift.enabled',
};

/** A chart's files by their paths in it, made of something else. */
interface ChartFiles {
  /** Written below deploy/chart by `npm run generate`. */
  readonly kept: ReadonlyMap<string, string>;
  /** The files that only `npm run chart` writes: they repeat deploy/kustomize and deploy/crds. */
  readonly packaged: ReadonlyMap<string, string>;
}

export function chartFiles(): ChartFiles {
  const { files, images } = readKustomization(BASE);
  const templates = new Map(
    [...files].map(([name, documents]) => [name, documents.map((each) => new TemplateDocument(each))]),
  );
  templates.set('crds.yaml', customResourceDefinitions().map(templateOf));
  const initial = initialValues(images, files);
  for (const [folder, condition] of Object.entries(CONDITIONS)) addFolder(templates, folder, condition);
  // kustomize makes them of the files themselves.
  const dashboards = dashboardManifests().map(templateOf);
  for (const each of dashboards) each.only(CONDITIONS['components/dashboards'] ?? assert.fail());
  templates.set('dashboards.yaml', dashboards);
  addValues(find(templates, { kind: 'Deployment', name: 'nodewall-controller' }), 'controller');
  addValues(find(templates, { kind: 'DaemonSet', name: 'nodewall-agent' }), 'agent');
  addPorts(templates);
  addMonitoringValues(templates);
  find(templates, { kind: 'Namespace', name: 'nodewall-system' })[0]?.only('.Values.namespace.create');
  for (const each of templates.get('crds.yaml') ?? []) {
    each.set(['metadata', 'annotations'], { 'helm.sh/resource-policy': 'keep' });
    each.only('.Values.crds.install');
  }
  const values = chartValues(initial);
  const { version } = JSON.parse(readFileSync(new URL('../../package.json', CHART), 'utf8'));
  const readme = readFileSync(new URL('README.md', CHART), 'utf8');
  return {
    packaged: new Map([
      ...[...templates].map(([name, documents]): [string, string] => [
        `templates/${name}`,
        templateText(documents),
      ]),
      ['Chart.yaml', chartText(version)],
    ]),
    kept: new Map([
      [
        'values.yaml',
        `# Made by \`npm run generate\` of deploy/kustomize/base and build/manifests/chart/chart-values.ts; edit there.\n${valuesText(values)}`,
      ],
      ['values.schema.json', `${JSON.stringify(valuesSchema(values), null, 2)}\n`],
      // Text by hand, and the table of the values at its end.
      ['README.md', readme.replace(/\| value \|.*$/s, '') + valuesTable(values)],
    ]),
  };
}

type Templates = Map<string, TemplateDocument[]>;

function templateOf(manifest: object): TemplateDocument {
  // Equal parts would become anchors.
  return new TemplateDocument(
    parseDocument(stringify(manifest, { aliasDuplicateObjects: false, lineWidth: 0 })),
  );
}

/** Adds an overlay's or a component's own objects and patches. */
function addFolder(templates: Templates, folder: string, condition: string): void {
  const { files, patches } = readKustomization(folder);
  for (const patch of patches) applyPatch(templates, patch, condition);
  for (const [name, documents] of files) {
    assert.ok(!templates.has(name), name);
    const added = documents.map((document) => new TemplateDocument(document));
    for (const each of added) each.only(condition);
    templates.set(name, added);
  }
}

function applyPatch(templates: Templates, patch: Patch, condition: string): void {
  for (const document of find(templates, patch.target)) {
    if (patch.kind === 'delete') document.only(`not (${condition})`);
    else for (const operation of patch.operations) document.patch(condition, operation);
  }
}

/** All documents of a target; there is at least one. */
function find(templates: Templates, { kind, group, name }: PatchTarget): TemplateDocument[] {
  const found = [...templates.values()]
    .flat()
    .filter(
      (each) =>
        each.name === name &&
        (kind === undefined || each.kind === kind) &&
        (group === undefined || each.group === group),
    );
  assert.ok(found.length > 0, `${kind ?? group} ${name}`);
  return found;
}

/** The fields of a workload that are values of the chart beyond kustomize's overlays. */
function addValues(found: readonly TemplateDocument[], name: 'controller' | 'agent'): void {
  const [workload] = found;
  assert.ok(workload !== undefined && found.length === 1);
  const pod = ['spec', 'template', 'spec'];
  if (name === 'controller') {
    const replicas = '{{ if .Values.singleNode }}1{{ else }}{{ .Values.controller.replicas }}{{ end }}';
    workload.put(['spec', 'replicas'], replicas);
  }
  workload.put(
    [...pod, 'containers', 0, 'resources'],
    `{{- toYaml .Values.${name}.resources | nindent 12 }}`,
  );
  workload.replaceEach('image', `nodewall-${name}`, `{{ include "nodewall.image" .Values.images.${name} }}`);
  const volumes = workload.value([...pod, 'volumes']) as readonly { readonly configMap?: object }[];
  const config = volumes.findIndex((volume) => volume.configMap !== undefined);
  workload.put(
    [...pod, 'volumes', config, 'configMap', 'name'],
    '{{ include "nodewall.configName" . | quote }}',
  );
  workload.append(
    [...pod, 'containers', 0],
    '{{- with .Values.images.pullPolicy }}\n          imagePullPolicy: {{ . }}\n          {{- end }}',
  );
  workload.append(
    pod,
    '{{- with .Values.images.pullSecrets }}\n      imagePullSecrets: {{- toYaml . | nindent 8 }}\n      {{- end }}',
  );
}

/** The ports of agentConfig, which are those of overlay one-port too. */
function addPorts(templates: Templates): void {
  const [agents, webhook] = ['agents', 'webhook'].map((name) => `{{ include "nodewall.${name}Port" . }}`);
  assert.ok(agents !== undefined && webhook !== undefined);
  const [controller] = find(templates, { kind: 'Deployment', name: 'nodewall-controller' });
  const container = ['spec', 'template', 'spec', 'containers', 0];
  // A whole item of a list is a line of the template.
  controller?.put([...container, 'args', 1], `- --listen=:${agents}`);
  controller?.put([...container, 'args', 2], `- --webhook-listen=:${webhook}`);
  controller?.put([...container, 'ports', 0, 'containerPort'], agents);
  const [service] = find(templates, { kind: 'Service', name: 'nodewall-controller' });
  service?.put(['spec', 'ports', 1, 'targetPort'], webhook);
  const [opened] = find(templates, { kind: 'NetworkPolicy', name: 'nodewall-controller' });
  for (const [index, port] of [agents, webhook].entries())
    opened?.put(['spec', 'ingress', 0, 'ports', index, 'port'], port);
}

/** The labels by which the Prometheus Operator and Grafana's sidecar find objects. */
function addMonitoringValues(templates: Templates): void {
  const labels = (values: string): string =>
    `{{- toYaml (merge (dict "app.kubernetes.io/part-of" "nodewall") .Values.${values}.labels) | nindent 4 }}`;
  for (const each of templates.get('prometheus-rule.yaml') ?? assert.fail())
    each.put(['metadata', 'labels'], labels('prometheusRule'));
  for (const each of templates.get('dashboards.yaml') ?? assert.fail()) {
    each.put(['metadata', 'labels'], labels('dashboards'));
    each.put(['metadata', 'namespace'], '{{ .Values.dashboards.namespace }}');
    each.append(
      ['metadata'],
      '{{- with .Values.dashboards.annotations }}\n  annotations: {{- toYaml . | nindent 4 }}\n  {{- end }}',
    );
  }
}

function initialValues(images: Initial['images'], files: ReadonlyMap<string, readonly Document[]>): Initial {
  const [deployment] = files.get('controller.yaml') ?? [];
  const [daemonSet] = files.get('agent.yaml') ?? [];
  const resources = ['spec', 'template', 'spec', 'containers', 0, 'resources'];
  const plain = (document: Document | undefined, keys: readonly (string | number)[]): unknown => {
    const node = document?.getIn(keys, true) as { toJSON(): unknown } | undefined;
    return node?.toJSON() ?? assert.fail(keys.join('.'));
  };
  return {
    images,
    replicas: plain(deployment, ['spec', 'replicas']),
    controllerResources: plain(deployment, resources),
    agentResources: plain(daemonSet, resources),
    agentConfig: parseDocument(readText(BASE, 'agent-config.yaml')).toJS(),
  };
}

function templateText(documents: readonly TemplateDocument[]): string {
  const head = '# Made of deploy/kustomize by `npm run chart`; edit there.\n';
  return head + documents.map((document) => `---\n${document}`).join('');
}

function chartText(version: string): string {
  return stringify({
    apiVersion: 'v2',
    name: 'nodewall',
    description: 'A host firewall for Kubernetes nodes',
    type: 'application',
    version,
    appVersion: version,
    kubeVersion: '>=1.32.0-0',
    keywords: ['firewall', 'network-policy', 'nftables', 'security'],
    annotations: { 'artifacthub.io/crds': 'see templates/crds.yaml', 'artifacthub.io/license': 'Apache-2.0' },
  });
}

/** Writes the chart as Helm installs it: what is kept of it, and what is made. */
export async function packageChart(folder: string): Promise<void> {
  await cp(CHART, folder, { recursive: true });
  for (const [path, text] of chartFiles().packaged) await writeFile(join(folder, path), text);
}

const KUSTOMIZE = new URL('../../../deploy/kustomize/', import.meta.url);

/** The target of a patch; an absent field is any. */
interface PatchTarget {
  readonly kind?: string;
  readonly group?: string;
  readonly name: string;
}

type Patch =
  | { readonly kind: 'operations'; readonly target: PatchTarget; readonly operations: KustomizeOperation[] }
  | { readonly kind: 'delete'; readonly target: PatchTarget };

/** As much of a kustomization as the chart is made of. */
interface Kustomization {
  /** This folder's own files, by their names; other folders are left out. */
  readonly files: ReadonlyMap<string, readonly Document[]>;
  readonly patches: readonly Patch[];
  readonly images: readonly { readonly name: string; readonly newName: string; readonly newTag: string }[];
}

interface Written {
  readonly resources?: readonly string[];
  readonly patches?: readonly { readonly target?: PatchTarget; readonly patch: string }[];
  readonly images?: Kustomization['images'];
}

/** @param folder below deploy/kustomize */
function readKustomization(folder: string): Kustomization {
  const written = parseDocument(readText(folder, 'kustomization.yaml')).toJS() as Written;
  const names = (written.resources ?? []).filter((name) => name.endsWith('.yaml'));
  return {
    files: new Map(names.map((name) => [name, parseAllDocuments(readText(folder, name)) as Document[]])),
    patches: (written.patches ?? []).map(({ target, patch }) => toPatch(target, patch)),
    images: written.images ?? [],
  };
}

/** @param folder below deploy/kustomize */
function readText(folder: string, name: string): string {
  return readFileSync(new URL(`${folder}/${name}`, KUSTOMIZE), 'utf8');
}

function toPatch(target: PatchTarget | undefined, text: string): Patch {
  const patch: unknown = parseDocument(text).toJS();
  if (target !== undefined) {
    assert.ok(Array.isArray(patch), text);
    return { kind: 'operations', target, operations: patch as KustomizeOperation[] };
  }
  const { $patch, kind, metadata } = patch as { $patch: string; kind: string; metadata: { name: string } };
  assert.equal($patch, 'delete', text);
  return { kind: 'delete', target: { kind, name: metadata.name } };
}

// `npm run chart [-- FOLDER]`: the chart as Helm installs it; default: dist/chart.
if (import.meta.main) {
  const [folder = join(ROOT, 'dist/chart')] = process.argv.slice(2);
  // A template of an earlier version would be installed too.
  if (process.argv.length === 2) await rm(folder, { recursive: true, force: true });
  await packageChart(folder);
  const path = relative('.', folder) || '.';
  process.stdout.write(
    `chart: helm install nodewall ${path} --namespace nodewall-system --create-namespace\n`,
  );
}
