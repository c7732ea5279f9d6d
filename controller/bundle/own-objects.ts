import { NODE_VIEWS_PATH } from '../../apis/stream.ts';
import { type KnownFields, plainFields as plain } from '../../lib/sharing/safe-text.ts';

/** A list that the bundle has. */
export interface CollectedList {
  /** The part's name. */
  readonly name: string;
  readonly path: string;
  readonly query?: Readonly<Record<string, string>>;
  readonly fields: KnownFields;
  /** Objects are about a Node: those of others are left out. The name of the Node. */
  readonly node?: (object: Readonly<Record<string, unknown>>) => string | undefined;
}

const METADATA = plain('name', 'namespace', 'generation', 'creationTimestamp', 'deletionTimestamp');
const CONDITIONS: KnownFields = [
  {
    type: 'plain',
    status: 'plain',
    reason: 'text',
    message: 'text',
    lastTransitionTime: 'plain',
    observedGeneration: 'plain',
  },
];
/** The path of a webhook is secret. */
const SERVICE: KnownFields = plain('name', 'namespace', 'port');
const WEBHOOKS: KnownFields = {
  metadata: METADATA,
  webhooks: [
    {
      ...plain('name', 'failurePolicy', 'matchPolicy', 'timeoutSeconds'),
      rules: 'whole',
      clientConfig: { service: SERVICE, caBundle: 'digest' },
    },
  ],
};
const CONTAINER_STATE: KnownFields = {
  waiting: { reason: 'text', message: 'text' },
  running: { startedAt: 'plain' },
  terminated: { exitCode: 'plain', signal: 'plain', reason: 'text', startedAt: 'plain', finishedAt: 'plain' },
};
const REPLICAS: KnownFields = { each: 'plain' };
const WORKLOAD: KnownFields = {
  metadata: METADATA,
  spec: {
    replicas: 'plain',
    template: {
      spec: { hostNetwork: 'plain', containers: [{ name: 'plain', image: 'plain', resources: 'whole' }] },
    },
  },
  status: REPLICAS,
};
const POD: KnownFields = {
  metadata: METADATA,
  spec: { nodeName: 'plain', hostNetwork: 'plain', containers: [plain('name', 'image')] },
  status: {
    phase: 'plain',
    reason: 'text',
    message: 'text',
    podIP: 'plain',
    startTime: 'plain',
    conditions: CONDITIONS,
    containerStatuses: [
      {
        ...plain('name', 'image', 'imageID', 'ready', 'restartCount'),
        state: CONTAINER_STATE,
        lastState: CONTAINER_STATE,
      },
    ],
  },
};
const NODE: KnownFields = {
  metadata: METADATA,
  spec: {
    unschedulable: 'plain',
    podCIDRs: ['plain'],
    taints: [plain('key', 'effect')],
  },
  status: {
    addresses: [plain('type', 'address')],
    conditions: CONDITIONS,
    nodeInfo: {
      ...plain(
        'architecture',
        'containerRuntimeVersion',
        'kernelVersion',
        'kubeletVersion',
        'operatingSystem',
      ),
      osImage: 'text',
    },
  },
};
const EVENT: KnownFields = {
  metadata: METADATA,
  type: 'plain',
  reason: 'text',
  message: 'text',
  involvedObject: plain('kind', 'namespace', 'name'),
  ...plain('reportingComponent', 'count', 'firstTimestamp', 'lastTimestamp', 'eventTime'),
};
const DEFINITION: KnownFields = {
  metadata: METADATA,
  spec: { versions: [plain('name', 'served', 'storage')] },
  status: { conditions: CONDITIONS, storedVersions: ['plain'] },
};
/** Fields of our own kinds: the API server keeps those of the schema, and nothing else. */
const OWN: KnownFields = { metadata: METADATA, spec: 'whole', status: 'whole' };

/** Fields of a node view besides the view itself. */
export const NODE_VIEW = {
  metadata: METADATA,
  counts: { each: 'plain' },
  // NodeReport (apis/node-report.ts).
  status: {
    ...plain('revision', 'enforced', 'enabled'),
    off: 'text',
    viewError: 'text',
    failing: [
      {
        ...plain('apiGroup', 'policy', 'generation', 'rule'),
        reason: 'text',
        rolledBack: 'plain',
        notEnforced: 'plain',
      },
    ],
    tried: [{ each: 'plain' }],
    policies: 'plain',
    hostAddresses: ['plain'],
    version: 'plain',
    features: ['plain'],
    platform: [{ entry: 'plain', addresses: 'plain', reason: 'text' }],
    egress: { refused: 'text', tunnel: 'plain', key: 'plain', problems: ['text'] },
    dataplane: 'plain',
    time: 'plain',
  },
  conditions: CONDITIONS,
} as const satisfies KnownFields;

const SYSTEM = 'namespaces/nodewall-system';
const OWN_KINDS = [
  'clusternetworkpolicies',
  'tiers',
  'clustergroups',
  'guardrails',
  'egressgateways',
  'egresspolicies',
  'clusteregresspolicies',
] as const;

/** A role of RBAC: rules have names of resources and verbs. */
const ROLE: KnownFields = { metadata: METADATA, rules: 'whole' };
const BINDING: KnownFields = {
  metadata: METADATA,
  roleRef: plain('kind', 'name'),
  subjects: [plain('kind', 'namespace', 'name')],
};
const OWN_PART = { labelSelector: 'app.kubernetes.io/part-of=nodewall' };

/** Rights, and what else of the installation may stand in the way. */
const INSTALLATION: readonly CollectedList[] = [
  ...['clusterroles', 'roles'].map((name) => ({ ...inRbac(name), fields: ROLE })),
  ...['clusterrolebindings', 'rolebindings'].map((name) => ({ ...inRbac(name), fields: BINDING })),
  {
    name: 'services',
    path: `/api/v1/${SYSTEM}/services`,
    fields: {
      metadata: METADATA,
      spec: {
        type: 'plain',
        clusterIPs: ['plain'],
        ports: [plain('name', 'port', 'targetPort', 'protocol')],
      },
    },
  },
  {
    name: 'networkpolicies',
    path: `/apis/networking.k8s.io/v1/${SYSTEM}/networkpolicies`,
    fields: { metadata: METADATA, spec: { policyTypes: ['plain'], ingress: 'whole', egress: 'whole' } },
  },
  {
    name: 'resourcequotas',
    path: `/api/v1/${SYSTEM}/resourcequotas`,
    fields: { metadata: METADATA, status: { hard: { each: 'plain' }, used: { each: 'plain' } } },
  },
  {
    name: 'poddisruptionbudgets',
    path: `/apis/policy/v1/${SYSTEM}/poddisruptionbudgets`,
    fields: {
      metadata: METADATA,
      spec: plain('minAvailable', 'maxUnavailable'),
      status: plain('currentHealthy', 'desiredHealthy', 'disruptionsAllowed'),
    },
  },
  {
    name: 'validatingadmissionpolicies',
    path: '/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies',
    query: OWN_PART,
    fields: { metadata: METADATA, spec: { failurePolicy: 'plain' }, status: { conditions: CONDITIONS } },
  },
];

/** A list over all namespaces: some objects are in those that other objects are in. */
function inRbac(name: string): Pick<CollectedList, 'name' | 'path' | 'query'> {
  return { name, path: `/apis/rbac.authorization.k8s.io/v1/${name}`, query: OWN_PART };
}

type Nested = Readonly<Record<string, Readonly<Record<string, unknown>> | undefined>>;
const ofName = ({ metadata }: Readonly<Record<string, unknown>>): string | undefined =>
  (metadata as { name?: string } | undefined)?.name;

/** Pods that are not on the Nodes asked for are left out, but for the controllers. */
function ofPod(pod: Readonly<Record<string, unknown>>): string | undefined {
  const { metadata, spec } = pod as Nested;
  const isAgent = String(metadata?.name).startsWith('nodewall-agent');
  return isAgent ? String(spec?.nodeName) : undefined;
}

export const PODS: CollectedList = {
  name: 'pods',
  path: `/api/v1/${SYSTEM}/pods`,
  fields: POD,
  node: ofPod,
};

export const COLLECTED_LISTS: readonly CollectedList[] = [
  ...OWN_KINDS.map((kind) => ({
    name: kind,
    path: `/apis/nodewall.io/v1alpha1/${kind}`,
    fields: OWN,
  })),
  { name: 'nodes', path: '/api/v1/nodes', fields: NODE, node: ofName },
  { name: 'nodeviews', path: NODE_VIEWS_PATH, fields: NODE_VIEW, node: ofName },
  { name: 'deployments', path: `/apis/apps/v1/${SYSTEM}/deployments`, fields: WORKLOAD },
  { name: 'daemonsets', path: `/apis/apps/v1/${SYSTEM}/daemonsets`, fields: WORKLOAD },
  PODS,
  { name: 'events', path: `/api/v1/${SYSTEM}/events`, fields: EVENT },
  {
    name: 'events-of-policies',
    path: '/api/v1/namespaces/default/events',
    query: { fieldSelector: 'reportingComponent=nodewall.io/controller' },
    fields: EVENT,
  },
  {
    name: 'leases',
    path: `/apis/coordination.k8s.io/v1/${SYSTEM}/leases`,
    fields: { metadata: METADATA, spec: { each: 'plain' } },
  },
  {
    name: 'endpointslices',
    path: `/apis/discovery.k8s.io/v1/${SYSTEM}/endpointslices`,
    fields: {
      metadata: METADATA,
      endpoints: [{ addresses: ['plain'], conditions: { each: 'plain' }, nodeName: 'plain' }],
      ports: [plain('name', 'port', 'protocol')],
    },
  },
  {
    name: 'apiservices',
    path: '/apis/apiregistration.k8s.io/v1/apiservices',
    query: { fieldSelector: 'metadata.name=v1alpha1.controlplane.nodewall.io' },
    fields: {
      metadata: METADATA,
      spec: { service: SERVICE, caBundle: 'digest', insecureSkipTLSVerify: 'plain' },
      status: { conditions: CONDITIONS },
    },
  },
  ...['mutating', 'validating'].map((kind) => ({
    name: `${kind}webhookconfigurations`,
    path: `/apis/admissionregistration.k8s.io/v1/${kind}webhookconfigurations`,
    query: { fieldSelector: 'metadata.name=nodewall' },
    fields: WEBHOOKS,
  })),
  ...INSTALLATION,
  ...OWN_KINDS.map((kind) => ({
    name: `crd-${kind}`,
    path: '/apis/apiextensions.k8s.io/v1/customresourcedefinitions',
    query: { fieldSelector: `metadata.name=${kind}.nodewall.io` },
    fields: DEFINITION,
  })),
];
