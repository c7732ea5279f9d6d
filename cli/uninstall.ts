import { setTimeout as pause } from 'node:timers/promises';
import type { NodeReport } from '../apis/node-report.ts';
import { admissionPolicies } from '../apis/schema/admission-policies.ts';
import { NODE_VIEWS_PATH } from '../apis/stream.ts';
import type { KubeApi } from '../controller/kubeapi/kube-api.ts';
import { isKubeError, orNull } from '../controller/kubeapi/kube-error.ts';
import { CommandError, EXIT, type ExitStatus } from '../lib/process/exit.ts';
import { itemsAt, withCluster } from './cluster-api.ts';
import { loadConfig } from './load.ts';
import { json, print, warn } from './output.ts';

interface UninstallOptions {
  readonly kubeconfig?: string;
  readonly config?: string;
  /** Seconds to wait for the nodes. */
  readonly timeout: number;
  readonly ignoreUnreachable: boolean;
  /** Delete nothing: whoever asks does that (Helm). */
  readonly keepObjects: boolean;
  /** Delete the CustomResourceDefinitions too, and with them every policy. */
  readonly crds: boolean;
  readonly output: 'text' | 'json';
}

const CONFIG_MAPS = '/api/v1/namespaces/nodewall-system/configmaps';
const GATE = {
  'config.yaml': 'featureGates: {NodeNetworkPolicy: false}\n',
  'switch-off': 'now',
};
/** Milliseconds: between two looks, and more for each node; for the pods of a workload to end. */
const LOOK_EVERY = 500;
const FOR_EACH_NODE = 1;
const PODS_END = 120_000;

/**
 * `nodewall uninstall`: switches all nodes off, waits until each has reported that nothing is
 * enforced, then deletes what was installed. Exit status 1, with nothing deleted, if nodes have
 * not.
 */
export async function uninstall(options: UninstallOptions): Promise<ExitStatus> {
  await loadConfig(options.config);
  return await withCluster(options.kubeconfig, async (request) => {
    const { uncleared, nodes } = await switchOff(request, options.timeout);
    const isDone = uncleared.length === 0 || options.ignoreUnreachable;
    const deleted = isDone && !options.keepObjects ? await deleteAll(request, options.crds) : [];
    const shown = { nodes, uncleared, deleted: deleted.map(({ kind, path }) => `${kind} ${nameOf(path)}`) };
    await print(options.output === 'json' ? json(shown) : resultText(shown, options));
    return isDone ? EXIT.done : EXIT.invalid;
  });
}

interface Shown {
  readonly nodes: number;
  readonly uncleared: readonly UnclearedNode[];
  readonly deleted: readonly string[];
}

async function switchOff(
  request: KubeApi,
  timeout: number,
): Promise<{ readonly uncleared: readonly UnclearedNode[]; readonly nodes: number }> {
  const off = new SwitchedOffNodes(request);
  await off.begin();
  await writeGate(request);
  const end = performance.now() + timeout * 1000;
  let said = '';
  for (;;) {
    const seen = await off.list();
    const { uncleared, nodes } = seen;
    const line = `${nodes - uncleared.length} of ${nodes} nodes have no rules of nodewall`;
    if (line !== said) warn(line);
    said = line;
    if (uncleared.length === 0 || performance.now() >= end) return seen;
    await pause(LOOK_EVERY + nodes * FOR_EACH_NODE);
  }
}

/** Where the namespace is missing there is no gate, and nobody reads one. */
async function writeGate(request: KubeApi): Promise<void> {
  const path = `${CONFIG_MAPS}/nodewall-config`;
  if ((await orNull(request({ method: 'PATCH', path, body: { data: GATE } }))) !== null) return;
  const metadata = { name: 'nodewall-config', namespace: 'nodewall-system' };
  const body = { apiVersion: 'v1', kind: 'ConfigMap', metadata, data: GATE };
  await orNull(request({ method: 'POST', path: CONFIG_MAPS, body }));
}

/** Returns what was there. */
async function deleteAll(request: KubeApi, crds: boolean): Promise<readonly UninstalledObject[]> {
  const deleted: UninstalledObject[] = [];
  for (const each of [...WEBHOOKS, ...WORKLOADS]) if (await deleteOne(request, each)) deleted.push(each);
  for (const each of WORKLOADS) await untilGone(request, each);
  for (const each of [...(crds ? DEFINITIONS : []), ...REST])
    if (await deleteOne(request, each)) deleted.push(each);
  return deleted;
}

async function deleteOne(request: KubeApi, { path }: UninstalledObject): Promise<boolean> {
  const body = { propagationPolicy: 'Foreground' };
  return (await orNull(request({ method: 'DELETE', path, body }))) !== null;
}

async function untilGone(request: KubeApi, { kind, path }: UninstalledObject): Promise<void> {
  const end = performance.now() + PODS_END;
  while ((await orNull(request({ method: 'GET', path }))) !== null) {
    if (performance.now() >= end)
      throw new CommandError(
        EXIT.refused,
        `${kind} ${nameOf(path)} is still there after ${PODS_END / 1000} s: pods of it do not end; run this again`,
      );
    await pause(LOOK_EVERY);
  }
}

function nameOf(path: string): string {
  return path.slice(path.lastIndexOf('/') + 1);
}

function resultText({ nodes, uncleared, deleted }: Shown, options: UninstallOptions): string {
  const away = uncleared.map(({ node, reason }) => `  ${node}: ${reason}\n`).join('');
  const cleared = `${nodes - uncleared.length} of ${nodes} nodes have no rules of nodewall.\n`;
  if (uncleared.length > 0 && !options.ignoreUnreachable)
    return `${cleared}These nodes may still have some; nothing was deleted:\n${away}Run this again when they are back, or with --ignore-unreachable; then run nodewall cleanup on them.\nThe feature gate stays off, so nodes enforce nothing meanwhile; to keep nodewall: kubectl apply -f deploy/gate/on.yaml\n`;
  const rest =
    uncleared.length === 0 ? '' : `Run nodewall cleanup on these nodes, which may still have some:\n${away}`;
  const removal = options.keepObjects ? '' : `Deleted:\n${deleted.map((line) => `  ${line}\n`).join('')}`;
  return `${cleared}${rest}${removal}`;
}

/** A node that may still have rules, and why. */
interface UnclearedNode {
  readonly node: string;
  readonly reason: string;
}

interface Named {
  readonly metadata: { readonly name: string; readonly labels?: Readonly<Record<string, string>> };
}
interface NodeView extends Named {
  readonly status?: NodeReport;
}

const NO_CONTROLLER = 'no controller answers, so nobody knows';

/**
 * Which nodes have reported, since this object was made, that nothing is enforced. What they
 * reported before counts for nothing: it may be from before they were switched on.
 */
export class SwitchedOffNodes {
  readonly #request: KubeApi;
  /** Times of the reports that were there at the first look. */
  #first: ReadonlyMap<string, string> | null = null;

  constructor(request: KubeApi) {
    this.#request = request;
  }

  /** Takes the reports that are there already: call it before the nodes are switched off. */
  async begin(): Promise<void> {
    const views = await this.#views();
    this.#first = new Map(
      (typeof views === 'string' ? [] : views).flatMap(({ metadata: { name }, status }) =>
        status === undefined ? [] : [[name, status.time]],
      ),
    );
  }

  /** The nodes that may still have rules, and how many there are in all. */
  async list(): Promise<{ readonly uncleared: readonly UnclearedNode[]; readonly nodes: number }> {
    const items = await itemsAt<Named>(this.#request, '/api/v1/nodes');
    const nodes = items.filter(
      ({ metadata }) => (metadata.labels?.['kubernetes.io/os'] ?? 'linux') === 'linux',
    );
    const views = await this.#views();
    const reports = new Map(
      typeof views === 'string' ? [] : views.map(({ metadata, status }) => [metadata.name, status]),
    );
    const uncleared = nodes.flatMap(({ metadata: { name } }) => {
      const reason = typeof views === 'string' ? views : this.#reason(name, reports.get(name));
      return reason === null ? [] : [{ node: name, reason }];
    });
    return { uncleared, nodes: nodes.length };
  }

  /** Null: it has no rules. */
  #reason(node: string, report: NodeReport | undefined): string | null {
    if (report === undefined) return 'its agent has not reported to the controllers that run now';
    if (report.time === this.#first?.get(node)) return `its agent has not reported since ${report.time}`;
    if (report.enabled || report.enforced !== null)
      return `its last report, of ${report.time}, is of rules in force`;
    return null;
  }

  /** Where no controller answers, why nobody knows. */
  async #views(): Promise<readonly NodeView[] | string> {
    try {
      return await itemsAt<NodeView>(this.#request, NODE_VIEWS_PATH);
    } catch (error) {
      if (isKubeError(error, 'NotFound', 'ServiceUnavailable', 'Timeout') || isUnavailable(error))
        return NO_CONTROLLER;
      // In place of the aggregated API a pod is asked (RelayedApi), and does not answer either.
      if (isKubeError(error, 'Unreachable')) return error.message;
      throw error;
    }
  }
}

/** The aggregator's answers while the controllers' Service has no pod that answers. */
function isUnavailable(error: unknown): boolean {
  return isKubeError(error) && error.status >= 500;
}

/** One object that `nodewall uninstall` deletes. */
interface UninstalledObject {
  readonly kind: string;
  readonly path: string;
}

const NAMESPACE = '/api/v1/namespaces/nodewall-system';
const RBAC = '/apis/rbac.authorization.k8s.io/v1';
const ADMISSION = '/apis/admissionregistration.k8s.io/v1';
const APPS = '/apis/apps/v1/namespaces/nodewall-system';

const object = (kind: string, path: string): UninstalledObject => ({ kind, path });

/** First: nothing may refuse what follows, or wait for a server that ends. */
export const WEBHOOKS: readonly UninstalledObject[] = [
  object('MutatingWebhookConfiguration', `${ADMISSION}/mutatingwebhookconfigurations/nodewall`),
  object('ValidatingWebhookConfiguration', `${ADMISSION}/validatingwebhookconfigurations/nodewall`),
];

/** Their pods are waited for. */
export const WORKLOADS: readonly UninstalledObject[] = [
  object('Deployment', `${APPS}/deployments/nodewall-controller`),
  object('DaemonSet', `${APPS}/daemonsets/nodewall-agent`),
];

/** Objects of components and overlays that are outside of the namespace, if they are installed. */
const OF_COMPONENTS: readonly UninstalledObject[] = [
  ...admissionPolicies()
    .toReversed()
    .map(({ kind, metadata: { name } }) =>
      object(
        kind,
        kind === 'ValidatingAdmissionPolicy'
          ? `${ADMISSION}/validatingadmissionpolicies/${name}`
          : `${ADMISSION}/validatingadmissionpolicybindings/${name}`,
      ),
    ),
  object('ClusterRoleBinding', `${RBAC}/clusterrolebindings/nodewall-view-for-controllers`),
  object('ClusterRoleBinding', `${RBAC}/clusterrolebindings/nodewall-startup-taint`),
  object('ClusterRole', `${RBAC}/clusterroles/nodewall-startup-taint`),
];

/** The aggregated API before the namespace: without its server no namespace can be deleted. */
export const REST: readonly UninstalledObject[] = [
  object('APIService', '/apis/apiregistration.k8s.io/v1/apiservices/v1alpha1.controlplane.nodewall.io'),
  ...['default', 'kube-system'].flatMap((namespace) => [
    object('RoleBinding', `${RBAC}/namespaces/${namespace}/rolebindings/nodewall-controller`),
    object('Role', `${RBAC}/namespaces/${namespace}/roles/nodewall-controller`),
  ]),
  ...['nodewall-agent', 'nodewall-controller', 'nodewall-controller-ca'].flatMap((name) => [
    object('ClusterRoleBinding', `${RBAC}/clusterrolebindings/${name}`),
    object('ClusterRole', `${RBAC}/clusterroles/${name}`),
  ]),
  object('ClusterRole', `${RBAC}/clusterroles/nodewall-metrics-reader`),
  object('ClusterRole', `${RBAC}/clusterroles/nodewall-view`),
  object('ClusterRole', `${RBAC}/clusterroles/nodewall-operator`),
  ...['nodewall-controller-webhooks', 'nodewall-controller-apiservice', 'nodewall-agent-apiservice'].flatMap(
    (name) => [
      object('ValidatingAdmissionPolicyBinding', `${ADMISSION}/validatingadmissionpolicybindings/${name}`),
      object('ValidatingAdmissionPolicy', `${ADMISSION}/validatingadmissionpolicies/${name}`),
    ],
  ),
  ...OF_COMPONENTS,
  object('Namespace', NAMESPACE),
];

/** With them every policy is deleted. */
export const DEFINITIONS: readonly UninstalledObject[] = [
  'clusternetworkpolicies',
  'clustergroups',
  'tiers',
  'guardrails',
  'egressgateways',
  'egresspolicies',
  'clusteregresspolicies',
].map((plural) =>
  object(
    'CustomResourceDefinition',
    `/apis/apiextensions.k8s.io/v1/customresourcedefinitions/${plural}.nodewall.io`,
  ),
);
