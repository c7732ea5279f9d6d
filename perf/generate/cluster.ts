/** A made-up cluster whose size is given; equal sizes are equal objects. */
export interface ClusterSize {
  /** Policy rules, ten a policy, each for a TCP port of its own. */
  readonly rules: number;
  /** Distinct lists of peers that the rules share; a multiple of four. */
  readonly sets: number;
  /** Pods, nodes or address blocks that each of them stands for. */
  readonly members: number;
  /** Pods of one deployment besides, which the first policy's first rule lets in. */
  readonly extraPods: number;
}

export const THOUSAND_RULES: ClusterSize = { rules: 1000, sets: 200, members: 5, extraPods: 0 };

/** The Node that the machine under test plays: selected by every policy. */
export const NODE_NAME = 'node-0';
export const RULES_A_POLICY = 10;
const FIRST_PORT = 10_000;
const EXTRA_APP = 'crowd';

/** The port that rule `index` is for. */
export function portOf(index: number): number {
  return FIRST_PORT + index;
}

/** The four kinds of peers that the sets take turns in. */
const KINDS = ['pods', 'namespacedPods', 'nodes', 'blocks'] as const;

function kindOf(set: number): (typeof KINDS)[number] {
  return KINDS[set % KINDS.length] ?? 'blocks';
}

/** `nodeAddresses` are the addresses of the Node under test. */
export function nodes(size: ClusterSize, nodeAddresses: readonly string[]): object[] {
  const zones = setsOfKind(size, 'nodes').flatMap((set) =>
    count(size.members, (i) =>
      node(
        `worker-${set}-${i}`,
        { zone: `zone-${set}`, role: 'worker' },
        pair([192, 168], 'fd00:168', set * size.members + i),
      ),
    ),
  );
  return [node(NODE_NAME, { role: 'control-plane' }, nodeAddresses), ...zones];
}

function node(name: string, labels: object, addresses: readonly string[]): object {
  return {
    apiVersion: 'v1',
    kind: 'Node',
    metadata: { name, labels: { 'kubernetes.io/hostname': name, ...labels } },
    status: { addresses: addresses.map((address) => ({ type: 'InternalIP', address })) },
  };
}

export function namespaces(size: ClusterSize): object[] {
  return setsOfKind(size, 'namespacedPods').map((set) => ({
    apiVersion: 'v1',
    kind: 'Namespace',
    metadata: { name: `team-${set}`, labels: { team: `team-${set}` } },
  }));
}

/** The pods that the sets are made of. */
export function pods(size: ClusterSize): object[] {
  const sets = [...setsOfKind(size, 'pods'), ...setsOfKind(size, 'namespacedPods')];
  return sets.flatMap((set) =>
    count(size.members, (i) => {
      const namespace = kindOf(set) === 'pods' ? 'shop' : `team-${set}`;
      return pod(namespace, `app-${set}`, i, pair([10, 128], 'fd00:128', set * size.members + i));
    }),
  );
}

/** The pods of one deployment; IPv4 and IPv6 addresses both where `dualStack`. */
export function extraPods({ extraPods: wanted }: ClusterSize, dualStack = false): object[] {
  return count(wanted, (i) =>
    pod('crowd', EXTRA_APP, i, pair([10, 200], 'fd00:200', i).slice(0, dualStack ? 2 : 1)),
  );
}

/** As the API server prints it, less what nodewall passes over anyway. */
function pod(namespace: string, app: string, index: number, addresses: readonly string[]): object {
  const [podIP] = addresses;
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: {
      name: `${app}-${index.toString(36).padStart(5, '0')}`,
      namespace,
      labels: { app, 'pod-template-hash': `hash-${app}` },
    },
    spec: { nodeName: `worker-${index % 500}`, serviceAccountName: 'default' },
    status: { phase: 'Running', podIP, podIPs: addresses.map((ip) => ({ ip })) },
  };
}

/** Ten rules a policy; every rule lets its set in to its port, or refuses it, by turns of three. */
export function policies(size: ClusterSize, options: PolicyOptions = {}): object[] {
  return count(Math.ceil(size.rules / RULES_A_POLICY), (index) => policy(size, index, options));
}

export interface PolicyOptions {
  /** A CIDR that every list of address blocks holds besides: the client of a measurement. */
  readonly client?: string;
  /** Action of the named rules, by rule index. */
  readonly actions?: ReadonlyMap<number, 'Allow' | 'Drop' | 'Reject'>;
}

export function policy(size: ClusterSize, index: number, options: PolicyOptions = {}): object {
  const first = index * RULES_A_POLICY;
  return {
    apiVersion: 'nodewall.io/v1alpha1',
    kind: 'ClusterNetworkPolicy',
    metadata: { name: `policy-${String(index).padStart(4, '0')}` },
    spec: {
      tier: 'application',
      priority: 1 + (index % 9000),
      appliedTo: [{ nodeSelector: { matchLabels: { role: 'control-plane' } } }],
      ingress: count(Math.min(RULES_A_POLICY, size.rules - first), (i) => rule(size, first + i, options)),
    },
  };
}

function rule(size: ClusterSize, index: number, { client, actions }: PolicyOptions): object {
  const crowd = index === 0 && size.extraPods > 0;
  return {
    name: `rule-${index}`,
    action: actions?.get(index) ?? (index % 3 === 2 ? 'Reject' : 'Allow'),
    from: crowd
      ? [{ podSelector: { matchLabels: { app: EXTRA_APP } } }]
      : peers(size, index % size.sets, client),
    ports: [{ protocol: 'TCP', port: portOf(index) }],
  };
}

function peers({ members }: ClusterSize, set: number, client: string | undefined): object[] {
  switch (kindOf(set)) {
    case 'pods':
      return [{ podSelector: { matchLabels: { app: `app-${set}` } } }];
    case 'namespacedPods':
      return [
        {
          namespaceSelector: { matchLabels: { team: `team-${set}` } },
          podSelector: { matchExpressions: [{ key: 'app', operator: 'Exists' }] },
        },
      ];
    case 'nodes':
      return [{ nodeSelector: { matchLabels: { zone: `zone-${set}` } } }];
    case 'blocks': {
      const blocks = count(members, (i) => ({
        cidr: `${172 + (i >> 8)}.${16 + (i % 16)}.${set % 256}.${16 * ((i >> 4) % 16)}/28`,
      }));
      const own = client === undefined ? [] : [{ cidr: client }];
      return [...own, ...blocks].map((ipBlock) => ({ ipBlock }));
    }
  }
}

/** An address that the peers of a rule stand for. */
export function memberOf({ sets, members }: ClusterSize, ruleIndex: number): string {
  const set = ruleIndex % sets;
  switch (kindOf(set)) {
    case 'pods':
    case 'namespacedPods':
      return pair([10, 128], 'fd00:128', set * members)[0];
    case 'nodes':
      return pair([192, 168], 'fd00:168', set * members)[0];
    case 'blocks':
      return `172.16.${set % 256}.7`;
  }
}

/** Rules of address blocks, whose peers hold `PolicyOptions.client`. */
export function hasClient({ sets }: ClusterSize, ruleIndex: number): boolean {
  return kindOf(ruleIndex % sets) === 'blocks';
}

function setsOfKind({ sets }: ClusterSize, kind: (typeof KINDS)[number]): number[] {
  return count(sets, (set) => set).filter((set) => kindOf(set) === kind);
}

/** One IPv4 and one IPv6 address; the host part counts from 1. */
function pair([a, b]: readonly [number, number], v6: string, index: number): [string, string] {
  const host = index + 1;
  return [`${a}.${b + (host >> 16)}.${(host >> 8) & 255}.${host & 255}`, `${v6}::${host.toString(16)}`];
}

function count<T>(length: number, make: (index: number) => T): T[] {
  return Array.from({ length }, (_, i) => make(i));
}
