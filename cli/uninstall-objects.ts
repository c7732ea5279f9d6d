/** One object that `nodewall uninstall` deletes. */
export interface UninstalledObject {
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
