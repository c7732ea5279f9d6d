import { type CheckLine, firstNames, ok, problem } from '../../lib/process/check-line.ts';
import type { KubeApi } from '../kubeapi/kube-api.ts';

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
