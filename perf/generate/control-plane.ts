import { writeFile } from 'node:fs/promises';

/**
 * Clusters as large as the control plane's targets name, as the API server gives them; equal sizes
 * are equal objects.
 */
export interface ControlPlaneSize {
  readonly nodes: number;
  readonly namespaces: number;
  /** Spread over the namespaces. */
  readonly pods: number;
  readonly policies: number;
  readonly rulesAPolicy: number;
  /**
   * mixed: policies for all nodes, pools, zones and single nodes, with peers of every kind.
   * namespaced: the shape of the nearest peer's published figure, policies for pools, each with
   * peers that are the pods of one label value in one namespace.
   */
  readonly shape: 'mixed' | 'namespaced';
}

export const LARGE: ControlPlaneSize = {
  nodes: 5000,
  namespaces: 25_000,
  pods: 100_000,
  policies: 1000,
  rulesAPolicy: 10,
  shape: 'mixed',
};

/**
 * The figure is of a test without nodes that matter: its policies are for pods. Here they are for
 * pools of these.
 */
export const NAMESPACED: ControlPlaneSize = {
  nodes: 1000,
  namespaces: 25_000,
  pods: 100_000,
  policies: 75_000,
  rulesAPolicy: 1,
  shape: 'namespaced',
};

const POOLS = 50;
const TEAMS = 500;
const APPS = 200;
const ENVIRONMENTS = ['prod', 'stage', 'dev'] as const;
const TIERS = ['web', 'api', 'cache', 'db'] as const;
const ZONES = ['a', 'b', 'c'] as const;

/** What the API server has, kind by kind, each made when it is asked for. */
export function* controlPlane(size: ControlPlaneSize): Iterable<object> {
  for (let i = 0; i < size.nodes; i++) yield node(i);
  for (let i = 0; i < size.namespaces; i++) yield namespace(i);
  for (let i = 0; i < size.pods; i++) yield pod(size, i);
  for (let i = 0; i < size.policies; i++) yield policy(size, i);
}

/** As many as client-go asks for at once. */
const PAGE = 500;

/** Writes them as a client gets them: a line for each page of a list. */
export function writeControlPlane(file: string, size: ControlPlaneSize): Promise<void> {
  return writeFile(file, pages(controlPlane(size)));
}

function* pages(objects: Iterable<object>): Iterable<string> {
  let items: object[] = [];
  const text = () => `${JSON.stringify({ kind: 'List', apiVersion: 'v1', items })}\n`;
  for (const one of objects) {
    items.push(one);
    if (items.length < PAGE) continue;
    yield text();
    items = [];
  }
  if (items.length > 0) yield text();
}

function node(index: number): object {
  const name = nodeName(index);
  const host = index + 1;
  return {
    apiVersion: 'v1',
    kind: 'Node',
    metadata: {
      ...identity(name, index),
      labels: {
        'kubernetes.io/arch': 'amd64',
        'kubernetes.io/hostname': name,
        'kubernetes.io/os': 'linux',
        'topology.kubernetes.io/zone': at(ZONES, index),
        [`node-role.kubernetes.io/${index < 5 ? 'control-plane' : 'worker'}`]: '',
        pool: poolOf(index),
      },
    },
    spec: { podCIDR: `10.${128 + (index >> 8)}.${index & 255}.0/24` },
    status: {
      addresses: [
        { type: 'InternalIP', address: `192.168.${host >> 8}.${host & 255}` },
        { type: 'InternalIP', address: `fd00:168::${host.toString(16)}` },
        { type: 'Hostname', address: name },
      ],
      capacity: { cpu: '16', memory: '65536Mi', pods: '110' },
      conditions: ['MemoryPressure', 'DiskPressure', 'PIDPressure', 'Ready'].map(condition),
      nodeInfo: { kubeletVersion: 'v1.34.1', osImage: 'Debian GNU/Linux 12 (bookworm)' },
    },
  };
}

export function nodeName(index: number): string {
  return `node-${String(index).padStart(4, '0')}`;
}

export function poolOf(index: number): string {
  return `pool-${index % POOLS}`;
}

function namespace(index: number): object {
  const name = namespaceName(index);
  return {
    apiVersion: 'v1',
    kind: 'Namespace',
    metadata: {
      ...identity(name, index),
      labels: { 'kubernetes.io/metadata.name': name, team: teamOf(index), env: at(ENVIRONMENTS, index) },
    },
    spec: { finalizers: ['kubernetes'] },
    status: { phase: 'Active' },
  };
}

function namespaceName(index: number): string {
  return `ns-${String(index).padStart(5, '0')}`;
}

export function teamOf(index: number): string {
  return `team-${index % TEAMS}`;
}

/** About 2 kB, as of a Deployment with one container, less managedFields. */
function pod({ namespaces, nodes }: ControlPlaneSize, index: number): object {
  const home = index % namespaces;
  const nth = Math.floor(index / namespaces);
  const app = `app-${(home + 7 * nth) % APPS}`;
  const name = `${app}-7d4b9c6f5d-${index.toString(36).padStart(5, '0')}`;
  const address = `10.${128 + (index >> 16)}.${(index >> 8) & 255}.${index & 255}`;
  const image = `registry.example/${app}:1.${home % 10}`;
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: {
      ...identity(name, index),
      namespace: namespaceName(home),
      labels: {
        app,
        tier: at(TIERS, nth),
        version: `v${home % 10}`,
        'pod-template-hash': '7d4b9c6f5d',
      },
      ownerReferences: [
        {
          apiVersion: 'apps/v1',
          kind: 'ReplicaSet',
          name: `${app}-7d4b9c6f5d`,
          uid: uid(home),
          controller: true,
        },
      ],
    },
    spec: {
      nodeName: nodeName(index % nodes),
      serviceAccountName: nth === 0 ? 'operator' : 'default',
      restartPolicy: 'Always',
      tolerations: ['not-ready', 'unreachable'].map((what) => ({
        key: `node.kubernetes.io/${what}`,
        operator: 'Exists',
        effect: 'NoExecute',
        tolerationSeconds: 300,
      })),
      containers: [
        {
          name: app,
          image,
          imagePullPolicy: 'IfNotPresent',
          ports: [{ containerPort: 8080, protocol: 'TCP' }],
          resources: { requests: { cpu: '100m', memory: '128Mi' }, limits: { memory: '256Mi' } },
          volumeMounts: [
            {
              name: 'kube-api-access',
              readOnly: true,
              mountPath: '/var/run/secrets/kubernetes.io/serviceaccount',
            },
          ],
        },
      ],
    },
    status: {
      phase: 'Running',
      hostIP: '192.168.0.1',
      podIP: address,
      podIPs: [{ ip: address }],
      conditions: ['Initialized', 'Ready', 'ContainersReady', 'PodScheduled'].map(condition),
      containerStatuses: [
        { name: app, ready: true, restartCount: 0, image, state: { running: { startedAt: CREATED } } },
      ],
    },
  };
}

function policy(size: ControlPlaneSize, index: number): object {
  const { shape, rulesAPolicy } = size;
  const rules = count(rulesAPolicy, (i) => ({
    name: `rule-${i}`,
    action: i % 4 === 3 ? 'Drop' : 'Allow',
    from: shape === 'mixed' ? mixedPeers(size, index * rulesAPolicy + i) : namespacedPeers(size, index),
    ports: [{ protocol: 'TCP', port: 8000 + ((index * rulesAPolicy + i) % 20_000) }],
  }));
  const ownSpans = shape === 'mixed' && index % 20 === 19;
  return {
    apiVersion: 'nodewall.io/v1alpha1',
    kind: 'ClusterNetworkPolicy',
    metadata: { ...identity(`policy-${String(index).padStart(5, '0')}`, index), generation: 1 },
    spec: {
      tier: 'application',
      priority: 1 + (index % 9000),
      ...(ownSpans ? {} : { appliedTo: shape === 'mixed' ? appliedTo(size, index) : [pool(index)] }),
      ingress: ownSpans ? rules.map((rule, i) => ({ ...rule, appliedTo: [pool(index + i)] })) : rules,
    },
  };
}

function pool(index: number): object {
  return { nodeSelector: { matchLabels: { pool: poolOf(index) } } };
}

/**
 * Of ten policies one is for all nodes, one for the control plane, one for two zones, one for a
 * single node, six for a pool.
 */
function appliedTo({ nodes }: ControlPlaneSize, index: number): object[] {
  switch (index % 10) {
    case 0:
      return [{ nodeSelector: {} }];
    case 1: {
      const role = { key: 'node-role.kubernetes.io/control-plane', operator: 'Exists' };
      return [{ nodeSelector: { matchExpressions: [role] } }];
    }
    case 2: {
      const zones = { key: 'topology.kubernetes.io/zone', operator: 'In', values: ['a', 'b'] };
      return [{ nodeSelector: { matchExpressions: [zones] } }];
    }
    case 3: {
      const name = nodeName((index * 7) % nodes);
      return [{ nodeSelector: { matchLabels: { 'kubernetes.io/hostname': name } } }];
    }
    default:
      return [pool(index)];
  }
}

/** Ten kinds by turns; rules of different policies say the same now and then. */
function mixedPeers({ namespaces }: ControlPlaneSize, index: number): object[] {
  const turn = Math.floor(index / 10);
  const app = { matchLabels: { app: `app-${turn % APPS}` } };
  switch (index % 10) {
    case 0:
    case 1:
      return [{ podSelector: app }];
    case 2:
    case 3: {
      const tier = { matchLabels: { tier: at(TIERS, turn) } };
      return [{ namespaceSelector: { matchLabels: { team: teamOf(turn) } }, podSelector: tier }];
    }
    case 4:
      return [{ namespaceSelector: { matchLabels: { env: at(ENVIRONMENTS, turn) } }, podSelector: app }];
    case 5:
      return [{ nodeSelector: { matchLabels: { pool: poolOf(turn) } } }];
    case 6:
      return [{ nodeSelector: {} }];
    case 7:
      return count(5, (i) => ({
        ipBlock: { cidr: `172.${16 + (turn >> 8)}.${turn & 255}.${16 * i}/28` },
      }));
    case 8: {
      // Nearly every pod; there are four such lists.
      const others = { key: 'team', operator: 'NotIn', values: [teamOf(turn % 4)] };
      const versioned = { key: 'version', operator: 'Exists' };
      return [
        { namespaceSelector: { matchExpressions: [others] }, podSelector: { matchExpressions: [versioned] } },
      ];
    }
    default:
      return [{ serviceAccount: { namespace: namespaceName((turn * 13) % namespaces), name: 'operator' } }];
  }
}

/** Three policies a namespace, each for a label value of its pods. */
function namespacedPeers({ namespaces }: ControlPlaneSize, index: number): object[] {
  const name = namespaceName(index % namespaces);
  const tier = at(TIERS, Math.floor(index / namespaces));
  return [
    {
      namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': name } },
      podSelector: { matchLabels: { tier } },
    },
  ];
}

const CREATED = '2026-01-01T00:00:00Z';

function identity(name: string, index: number) {
  return { name, uid: uid(index), resourceVersion: String(1_000_000 + index), creationTimestamp: CREATED };
}

function uid(index: number): string {
  return `00000000-0000-4000-8000-${index.toString(16).padStart(12, '0')}`;
}

function condition(type: string): object {
  return { type, status: 'True', lastProbeTime: null, lastTransitionTime: CREATED };
}

function at<T>(values: readonly [T, ...T[]], index: number): T {
  return values[index % values.length] ?? values[0];
}

function count<T>(length: number, make: (index: number) => T): T[] {
  return Array.from({ length }, (_, i) => make(i));
}
