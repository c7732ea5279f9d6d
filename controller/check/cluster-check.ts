import { customResourceDefinitions } from '../../apis/schema/crd.ts';
import { type CheckLine, firstNames, ok, problem, worstFirst } from '../../lib/process/check-line.ts';
import type { KubeApi } from '../kubeapi/kube-api.ts';
import { BEFORE_CHECKS } from './before-checks.ts';
import { readObject, runChecks } from './checked.ts';
import { installedChecks, isInstalled } from './installed-checks.ts';
import { nodeChecks } from './node-checks.ts';

interface ClusterCheck {
  /** The subject of the check: a cluster before the installation, or an installed nodewall. */
  readonly of: 'before' | 'installed';
  /** The worst first. */
  readonly lines: readonly CheckLine[];
}

interface ClusterCheckOptions {
  readonly request: KubeApi;
  /** Look only at what has to be right before nodewall is installed. */
  readonly before: boolean;
  readonly version: string;
  /** Milliseconds since 1970. */
  readonly now: () => number;
}

/** Looks at a cluster, and changes nothing. Throws KubeError if the API server does not answer. */
export async function checkCluster(options: ClusterCheckOptions): Promise<ClusterCheck> {
  const { request, version, now } = options;
  const installed = !options.before && (await isInstalled(request));
  const lines = await runChecks(request, {
    ...BEFORE_CHECKS,
    definitions: () => definitions(request, installed),
    ...(installed
      ? { ...installedChecks(now()), ...nodeChecks({ version, now }) }
      : { 'your rights': rights }),
  });
  return { of: installed ? 'installed' : 'before', lines: worstFirst(lines) };
}

interface Definition {
  readonly spec: {
    readonly scope: string;
    readonly versions: readonly { readonly name: string; readonly schema?: unknown }[];
  };
}

const PATH = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions';

/**
 * Whether the CustomResourceDefinitions are those of this version. Before the installation they may
 * be absent. Throws KubeError.
 */
export async function definitions(request: KubeApi, isInstalled: boolean): Promise<readonly CheckLine[]> {
  const ours = customResourceDefinitions();
  const theirs = await Promise.all(
    ours.map(({ metadata: { name } }) => readObject<Definition>(request, `${PATH}/${name}`)),
  );
  const absent: string[] = [];
  const other: string[] = [];
  for (const [i, { metadata, spec }] of ours.entries()) {
    const found = theirs[i] ?? null;
    if (found === null) absent.push(metadata.name);
    else if (!isSame(spec, found.spec)) other.push(metadata.name);
  }
  if (other.length > 0)
    return [
      problem(
        'definitions',
        `of another version: ${firstNames(other)}; what their schemas do not know is lost when an object is written`,
        'kubectl apply --server-side -f deploy/crds (of this version)',
      ),
    ];
  if (absent.length === ours.length && !isInstalled) return [ok('definitions', 'none yet')];
  if (absent.length > 0)
    return [
      problem('definitions', `missing: ${firstNames(absent)}`, 'kubectl apply --server-side -f deploy/crds'),
    ];
  return [ok('definitions', `${ours.length}, of this version`)];
}

function isSame(ours: Definition['spec'], theirs: Definition['spec']): boolean {
  const schemas = ({ scope, versions }: Definition['spec']): string =>
    canonical([scope, versions.map(({ name, schema }) => ({ name, schema }))]);
  return schemas(ours) === schemas(theirs);
}

/** The same text for the same value, whatever the order of its keys. */
function canonical(value: unknown): string {
  return JSON.stringify(value, (_, item: unknown) => {
    if (typeof item !== 'object' || item === null || Array.isArray(item)) return item;
    return Object.fromEntries(Object.entries(item).sort(([a], [b]) => (a < b ? -1 : 1)));
  });
}

interface Right {
  readonly group: string;
  readonly resource: string;
  readonly namespace?: string;
}

const SYSTEM = 'nodewall-system';
const of = (group: string, ...resources: readonly string[]): Right[] =>
  resources.map((resource) => ({ group, resource }));

/** The rights for `kubectl apply -k deploy/kustomize/base`. */
const CREATED: readonly Right[] = [
  ...of('', 'namespaces'),
  ...of('apiextensions.k8s.io', 'customresourcedefinitions'),
  ...of('rbac.authorization.k8s.io', 'clusterroles', 'clusterrolebindings'),
  ...of(
    'admissionregistration.k8s.io',
    ...['mutatingwebhookconfigurations', 'validatingwebhookconfigurations'],
    ...['validatingadmissionpolicies', 'validatingadmissionpolicybindings'],
  ),
  ...['serviceaccounts', 'services', 'configmaps'].map((resource) => ({
    group: '',
    resource,
    namespace: SYSTEM,
  })),
  ...['deployments', 'daemonsets'].map((resource) => ({ group: 'apps', resource, namespace: SYSTEM })),
];

/** Whether the user may install nodewall. Throws KubeError. */
export async function rights(request: KubeApi): Promise<readonly CheckLine[]> {
  const allowed = await Promise.all(CREATED.map((one) => isAllowed(request, one)));
  const missing = CREATED.filter((_, i) => !allowed[i]).map(({ resource }) => resource);
  if (missing.length === 0) return [ok('your rights', 'you may create what the installation has')];
  return [
    problem(
      'your rights',
      `you may not create ${firstNames(missing, 5)}`,
      'install as a cluster administrator (ClusterRole cluster-admin)',
    ),
  ];
}

async function isAllowed(request: KubeApi, { group, resource, namespace }: Right): Promise<boolean> {
  const apiVersion = 'authorization.k8s.io/v1';
  const resourceAttributes = { verb: 'create', group, resource, namespace };
  const body = { apiVersion, kind: 'SelfSubjectAccessReview', spec: { resourceAttributes } };
  const { status } = await request<{ readonly status?: { readonly allowed?: boolean } }>({
    method: 'POST',
    path: `/apis/${apiVersion}/selfsubjectaccessreviews`,
    body,
  });
  return status?.allowed === true;
}
