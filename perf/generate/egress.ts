import type { EgressGateway, EgressPolicy, EgressPolicySpec } from '../../apis/egress/objects.ts';
import type { Namespace, Node, Pod } from '../../apis/objects.ts';
import type { EgressInput } from '../../controller/egress/compile-egress.ts';

export interface EgressSize {
  readonly nodes: number;
  readonly gateways: number;
  readonly policies: number;
  readonly pods: number;
}

export const LARGE_EGRESS: EgressSize = { nodes: 1000, gateways: 100, policies: 5000, pods: 100_000 };

const NAMESPACES = 1000;
/** Candidate nodes of each gateway. */
const CANDIDATES = 3;

/**
 * A cluster with egress gateways on nodes of their own. One policy in fifty is a cluster policy for
 * the namespaces of one team, the others select pods of their namespace by label; one in ten has an
 * address of its own, one in ten a node's. Pods come in deployments of ten.
 */
export function egressCluster({ nodes, gateways, policies, pods }: EgressSize): EgressInput {
  const list = <T>(length: number, of: (i: number) => T): T[] => Array.from({ length }, (_, i) => of(i));
  return {
    nodes: list(nodes, (i) => node(i, gateways)),
    namespaces: list(NAMESPACES, namespace),
    pods: list(pods, (i) => pod(i, nodes)),
    egressGateways: list(gateways, gateway),
    egressPolicies: list(policies, (i) => policy(i, gateways)),
    insideNetworks: [{ kind: 'ServiceCIDR', name: 'kubernetes', cidrs: ['10.96.0.0/12', 'fd96::/108'] }],
  };
}

function node(i: number, gateways: number): Node {
  const own = [`172.16.${i >> 8}.${i & 255}`, `fd00::${i.toString(16)}`];
  return {
    kind: 'Node',
    name: `node-${i}`,
    labels: { 'kubernetes.io/hostname': `node-${i}`, egress: `g${Math.floor(i / CANDIDATES) % gateways}` },
    addresses: own,
    internalAddresses: own,
    podCIDRs: [`10.${i >> 8}.${i & 255}.0/24`, `fd10:0:0:${i.toString(16)}::/64`],
  };
}

function namespace(i: number): Namespace {
  return { kind: 'Namespace', name: `ns-${i}`, labels: { team: `t${i % 100}` } };
}

export function pod(i: number, nodes: number, host = Math.floor(i / nodes) + 2): Pod {
  const at = i % nodes;
  return {
    kind: 'Pod',
    namespace: `ns-${i % NAMESPACES}`,
    name: `pod-${i}`,
    labels: { app: `a${Math.floor(i / NAMESPACES) % 10}`, 'pod-template-hash': String(i % 9973) },
    serviceAccount: 'default',
    addresses: [`10.${at >> 8}.${at & 255}.${host}`, `fd10:0:0:${at.toString(16)}::${host.toString(16)}`],
    node: `node-${at}`,
  };
}

function gateway(i: number): EgressGateway {
  const isFloating = i % 10 !== 0;
  return {
    kind: 'EgressGateway',
    apiGroup: 'nodewall.io',
    name: `gw-${i}`,
    uid: '',
    generation: 1,
    spec: {
      nodeSelector: { matchLabels: { egress: `g${i}` } },
      ranges: isFloating ? [`203.0.${i}.0/24`, `2001:db8:${i.toString(16)}::/64`] : [],
      source: isFloating ? 'Floating' : 'Node',
      choice: 'Failover',
      announce: 'L2',
      probes: [],
      allowedNamespaces: {},
      default: i === 1,
      failover: { heartbeatMilliseconds: 500, leaseSeconds: 2, failback: false },
    },
    status: null,
  };
}

export function policy(i: number, gateways: number): EgressPolicy {
  const isOfCluster = i % 50 === 0;
  const to = isOfCluster ? {} : { to: [`198.18.${i & 255}.0/24`, '192.0.2.0/24', '2001:db8:ffff::/48'] };
  const spec: EgressPolicySpec = {
    stage: isOfCluster ? 'Default' : 'Namespace',
    appliedTo: isOfCluster
      ? [{ namespaceSelector: { matchLabels: { team: `t${(i / 50) % 100}` } } }]
      : [{ podSelector: { matchLabels: { app: `a${Math.floor(i / NAMESPACES)}` } } }],
    gateway: `gw-${i % gateways}`,
    ...to,
    except: [`198.18.${i & 255}.64/26`],
    action: 'Gateway',
    address: { allocation: i % 10 === 1 ? 'Dedicated' : 'Shared', fixed: {}, count: 1 },
    whenUnavailable: 'Drop',
    priority: 1000,
    mode: 'Enforce',
  };
  return {
    kind: isOfCluster ? 'ClusterEgressPolicy' : 'EgressPolicy',
    apiGroup: 'nodewall.io',
    namespace: isOfCluster ? '' : `ns-${i % NAMESPACES}`,
    name: `policy-${i}`,
    uid: '',
    generation: 1,
    spec,
    status: null,
  };
}
