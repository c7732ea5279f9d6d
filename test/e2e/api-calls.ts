/** One kind of request to the API server. */
export interface ApiCall {
  readonly verb: 'get' | 'list' | 'watch' | 'create' | 'update' | 'patch' | 'delete';
  readonly group: string;
  /** With the subresource: `clusternetworkpolicies/status`. */
  readonly resource: string;
  /** The only object that is asked for; a list or watch has its name as field selector. */
  readonly name?: string;
  /** Absent: of every namespace, or of none. */
  readonly namespace?: string;
  /** The file that makes it. */
  readonly from: string;
}

const SYSTEM = 'nodewall-system';

type Verb = ApiCall['verb'];

function calls(
  verbs: readonly Verb[],
  resources: readonly string[],
  call: Omit<ApiCall, 'verb' | 'resource'>,
): ApiCall[] {
  return resources.flatMap((resource) => verbs.map((verb) => ({ ...call, verb, resource })));
}

const WATCH = ['list', 'watch'] as const;
const KINDS = ['clusternetworkpolicies', 'clustergroups', 'tiers'];
const EGRESS = ['egressgateways', 'egresspolicies', 'clusteregresspolicies'];
const RESOURCES = 'controller/watch/cluster/resources.ts';

const AGENT = 'agent/receive/api-server.ts';

/** Every request that an agent makes. deploy/rbac.yaml allows exactly these. */
export const AGENT_API_CALLS: readonly ApiCall[] = [
  ...['nodewall-ca', 'nodewall-config'].flatMap((name) =>
    calls(['get'], ['configmaps'], { group: '', namespace: SYSTEM, name, from: AGENT }),
  ),
  ...calls(['list'], ['pods'], { group: '', namespace: SYSTEM, from: AGENT }),
  ...calls(['get', 'delete'], ['apiservices'], {
    group: 'apiregistration.k8s.io',
    name: 'v1alpha1.controlplane.nodewall.io',
    from: AGENT,
  }),
  ...['nodewall.io', 'crd.antrea.io'].flatMap((group) =>
    calls(['get', 'list'], ['clusternetworkpolicies'], { group, from: AGENT }),
  ),
];

/** Every request that the controller makes. deploy/rbac.yaml allows exactly these. */
export const API_CALLS: readonly ApiCall[] = [
  ...calls(WATCH, ['nodes', 'namespaces', 'pods', 'services'], { group: '', from: RESOURCES }),
  ...calls(WATCH, ['endpointslices'], { group: 'discovery.k8s.io', from: RESOURCES }),
  ...calls(WATCH, KINDS, { group: 'nodewall.io', from: RESOURCES }),
  ...calls(WATCH, KINDS, { group: 'crd.antrea.io', from: RESOURCES }),
  ...calls(WATCH, ['guardrails'], { group: 'nodewall.io', from: RESOURCES }),
  ...calls(WATCH, EGRESS, { group: 'nodewall.io', from: RESOURCES }),
  ...calls(WATCH, ['servicecidrs'], { group: 'networking.k8s.io', from: RESOURCES }),
  ...calls(WATCH, ['ippools'], { group: 'crd.projectcalico.org', from: RESOURCES }),
  ...calls(['get'], ['clustergroups', 'tiers'], {
    group: 'nodewall.io',
    from: 'controller/webhook/latest.ts',
  }),
  ...calls(
    ['patch'],
    ['clusternetworkpolicies', 'guardrails', ...EGRESS].map((kind) => `${kind}/status`),
    {
      group: 'nodewall.io',
      from: 'controller/status/writer.ts',
    },
  ),
  ...calls(['patch'], ['clusternetworkpolicies/status'], {
    group: 'crd.antrea.io',
    from: 'controller/status/writer.ts',
  }),
  ...calls(['get'], ['antreacontrollerinfos'], {
    group: 'crd.antrea.io',
    name: 'antrea-controller',
    from: 'controller/status/antrea-status.ts',
  }),
  ...calls(['get'], ['deployments'], {
    group: 'apps',
    namespace: 'kube-system',
    name: 'antrea-controller',
    from: 'controller/status/antrea-status.ts',
  }),
  ...calls(['create', 'patch'], ['events'], {
    group: 'events.k8s.io',
    namespace: 'default',
    from: 'controller/status/failure-events.ts',
  }),
  ...calls(['create'], ['tokenreviews'], {
    group: 'authentication.k8s.io',
    from: 'controller/publish/auth.ts',
  }),
  ...calls(['create'], ['subjectaccessreviews'], {
    group: 'authorization.k8s.io',
    from: 'controller/publish/auth.ts',
  }),
  ...calls(['create'], ['leases'], {
    group: 'coordination.k8s.io',
    namespace: SYSTEM,
    from: 'controller/kubeapi/lease/lease.ts',
  }),
  ...calls(['get', 'update'], ['leases'], {
    group: 'coordination.k8s.io',
    namespace: SYSTEM,
    name: 'nodewall-controller',
    from: 'controller/kubeapi/lease/lease.ts',
  }),
  ...calls(WATCH, ['leases'], {
    group: 'coordination.k8s.io',
    namespace: SYSTEM,
    name: 'nodewall-controller',
    from: 'controller/replicas/replicas.ts',
  }),
  ...calls(['create'], ['secrets'], {
    group: '',
    namespace: SYSTEM,
    from: 'controller/kubeapi/certificates/authority.ts',
  }),
  ...calls(['get', 'update'], ['secrets'], {
    group: '',
    namespace: SYSTEM,
    name: 'nodewall-ca',
    from: 'controller/kubeapi/certificates/authority.ts',
  }),
  ...calls(['create'], ['configmaps'], {
    group: '',
    namespace: SYSTEM,
    from: 'controller/kubeapi/certificates/authority.ts',
  }),
  ...calls(['get', 'patch'], ['configmaps'], {
    group: '',
    namespace: SYSTEM,
    name: 'nodewall-ca',
    from: 'controller/kubeapi/certificates/authority.ts',
  }),
  ...calls([...WATCH, 'get', 'patch'], ['mutatingwebhookconfigurations', 'validatingwebhookconfigurations'], {
    group: 'admissionregistration.k8s.io',
    name: 'nodewall',
    from: 'controller/kubeapi/certificates/webhook-configurations.ts',
  }),
  ...calls([...WATCH, 'create', 'patch', 'delete'], ['apiservices'], {
    group: 'apiregistration.k8s.io',
    name: 'v1alpha1.controlplane.nodewall.io',
    from: 'controller/kubeapi/api-service.ts',
  }),
  ...calls(['get'], ['clusterroles'], {
    group: 'rbac.authorization.k8s.io',
    name: 'nodewall-controller',
    from: 'controller/kubeapi/api-service.ts',
  }),
  ...calls(WATCH, ['configmaps'], {
    group: '',
    namespace: SYSTEM,
    name: 'nodewall-config',
    from: 'controller/run/cluster-settings.ts',
  }),
  ...calls(WATCH, ['configmaps'], {
    group: '',
    namespace: 'kube-system',
    name: 'extension-apiserver-authentication',
    from: 'controller/run/cluster-settings.ts',
  }),
];
