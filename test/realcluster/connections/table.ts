/**
 * What becomes of each connection, by docs/semantics.md and docs/nodeport.md: without rules, and
 * under the exact rules of exact.yaml. All servers are on worker-2.
 */
import type { POD_NETWORKS } from '../../../build/cluster/pod-network.ts';
import type { Outcome } from './attempts.ts';

export const CLIENTS = [
  'office',
  'outside',
  'worker-1',
  'worker-2',
  'pod on worker-1',
  'pod on worker-2',
] as const;
export type Client = (typeof CLIENTS)[number];

type Worker = 'worker-1' | 'worker-2';
const SERVER_NODE = 'worker-2';

/** Kinds of addresses by which NAT of kube-proxy hands connections to a pod. */
const SERVICE_KINDS = [
  'NodePort',
  'NodePort, local',
  'NodePort to a host pod',
  'external IP',
  'load balancer',
  'load balancer, local',
  'ClusterIP',
] as const;
type ServiceKind = (typeof SERVICE_KINDS)[number];
const hasProxy = (kind: Target['kind']): kind is ServiceKind =>
  SERVICE_KINDS.some((service) => service === kind);

/**
 * a: the rules allow the office and pods; nodes may connect to pods there. b: nodes; they may not
 * connect to pods there. c: everybody, but nodes may not connect to it.
 */
export type Variant = 'a' | 'b' | 'c';

export interface Target {
  readonly kind: ServiceKind | 'host port' | 'Host' | 'pod';
  /** The node that the client calls, or that is routed what it calls. */
  readonly at: Worker;
  readonly variant: Variant;
  /** Of TCP and UDP. */
  readonly port: number;
}

const PORTS: Readonly<Record<Target['kind'], Partial<Record<Variant, number>>>> = {
  NodePort: { a: 30101, b: 30102 },
  'NodePort, local': { a: 30111, b: 30112 },
  'NodePort to a host pod': { a: 30121, b: 30122 },
  'external IP': { a: 9101, b: 9102 },
  'load balancer': { a: 9101, b: 9102 },
  'load balancer, local': { a: 9111, b: 9112 },
  ClusterIP: { a: 9101, b: 9102 },
  'host port': { a: 31101, b: 31102 },
  Host: { a: 7101, b: 7102, c: 7103 },
  pod: { a: 8080, b: 8081 },
};

const VARIANTS: readonly Variant[] = ['a', 'b', 'c'];

function targetsOf(kind: Target['kind']): Target[] {
  const at: readonly Worker[] = kind.startsWith('NodePort') ? ['worker-1', SERVER_NODE] : [SERVER_NODE];
  return at.flatMap((node) =>
    VARIANTS.flatMap((variant) => {
      const port = PORTS[kind][variant];
      return port === undefined ? [] : [{ kind, at: node, variant, port }];
    }),
  );
}

const TARGETS = [...SERVICE_KINDS, 'host port', 'Host', 'pod'] as const;

export interface Setting {
  readonly seenAs: (typeof POD_NETWORKS)[keyof typeof POD_NETWORKS]['seenAs'];
  readonly hasProxy: boolean;
  /**
   * Whether a Host rule that allows comes before kube-proxy's own: where both are in iptables
   * (docs/dataplanes.md).
   */
  readonly isAllowFinal: boolean;
}

/** The connections of a client that mean something in a setting. */
export function targetsFor(client: Client, setting: Setting): Target[] {
  const isInside = client !== 'office' && client !== 'outside';
  return TARGETS.filter(
    (kind) => (isInside || (kind !== 'ClusterIP' && kind !== 'pod')) && (setting.hasProxy || !hasProxy(kind)),
  ).flatMap(targetsOf);
}

/** The peers by which exact.yaml tells clients apart. */
type Source = 'office' | 'outside' | 'node' | 'pod';

interface Judgement {
  readonly by: 'NodePort ingress' | 'Host ingress' | 'Host egress to nodes' | 'Host egress to pods';
  readonly source: Source;
}

/** What exact.yaml allows. */
function isAllowed({ by, source }: Judgement, variant: Variant): boolean {
  if (by === 'Host egress to pods') return variant === 'a';
  if (by === 'Host egress to nodes') return variant !== 'c';
  if (variant === 'a') return source === 'office' || source === 'pod';
  return variant === 'c' || source === 'node';
}

/** exact.yaml rejects NodePort traffic, and drops the rest. */
const DENIED = {
  'NodePort ingress': 'refused',
  'Host ingress': 'dropped',
  'Host egress to nodes': 'dropped',
  'Host egress to pods': 'dropped',
} as const satisfies Record<Judgement['by'], Outcome>;

const isPod = (client: Client): boolean => client.startsWith('pod on ');
const placeOf = (client: Client): string => client.replace('pod on ', '');

/** How a node sees a client; its own pods come with their own address in every network. */
function seen(client: Client, at: Worker, { seenAs }: Setting): Source {
  if (client === 'office' || client === 'outside') return client;
  if (!isPod(client)) return 'node';
  return placeOf(client) === at ? 'pod' : seenAs;
}

/**
 * How a connection ends without rules. A Service with policy Local has all endpoints for the
 * cluster's own traffic, and on a node without one of its own none for other traffic. A pod that
 * calls it by way of another node is not masqueraded there: an endpoint on the pod's own node
 * answers it past that node.
 */
function givenEnd(
  client: Client,
  { kind, at }: Target,
  setting: Setting,
): 'answered' | 'no endpoint' | 'no way back' {
  if (kind !== 'NodePort, local' || at === SERVER_NODE || placeOf(client) === at) return 'answered';
  return seen(client, at, setting) === 'pod' ? 'no way back' : 'no endpoint';
}

/** Where the policies see a connection, in the order in which they do. */
function judgements(client: Client, target: Target, setting: Setting): Judgement[] {
  const { kind, at } = target;
  const isNode = !isPod(client) && client !== 'office' && client !== 'outside';
  const source = seen(client, at, setting);
  /** The other node sends to the pod, or to its host pod: after NAT, where it has any. */
  const own = {
    toPod: { by: 'Host egress to pods', source },
    toNode: { by: 'Host egress to nodes', source },
  } as const;
  const host = { by: 'Host ingress', source } as const;
  const isElsewhere = placeOf(client) !== SERVER_NODE;
  switch (kind) {
    case 'Host':
      // A node's way to itself is exempt as loopback.
      if (!isNode) return [host];
      return isElsewhere ? [own.toNode, host] : [];
    case 'pod':
    case 'ClusterIP':
      return isNode && isElsewhere ? [own.toPod] : [];
    case 'external IP':
    case 'load balancer':
    case 'load balancer, local':
      // Nodes and pods have the NAT of their own node, which NodePort policies leave alone.
      if (client === 'office' || client === 'outside') return [{ by: 'NodePort ingress', source }];
      return isNode && isElsewhere ? [own.toPod] : [];
    case 'host port':
      if (placeOf(client) === at) return [];
      return [...(isNode ? [own.toNode] : []), { by: 'NodePort ingress', source }];
    case 'NodePort':
    case 'NodePort, local':
      // A node's way to its own address is by the loopback interface, also where NAT changes it.
      if (placeOf(client) === at) return [];
      return [...(isNode ? [own.toNode] : []), { by: 'NodePort ingress', source }];
    case 'NodePort to a host pod': {
      // From another node the host pod's node sees that node: kube-proxy masquerades.
      const atServer = at === SERVER_NODE ? host : ({ by: 'Host ingress', source: 'node' } as const);
      if (placeOf(client) !== at)
        return [...(isNode ? [own.toNode] : []), { by: 'NodePort ingress', source }, atServer];
      return isNode && at === SERVER_NODE ? [] : [atServer];
    }
  }
}

/** Without rules. */
export function givenOutcome(client: Client, target: Target, setting: Setting): Outcome {
  return givenEnd(client, target, setting) === 'answered' ? 'open' : 'dropped';
}

/** Under allow-all.yaml. */
export function allowedOutcome(client: Client, target: Target, setting: Setting): Outcome {
  // kube-proxy does not come to drop it; nobody listens at a NodePort.
  if (setting.isAllowFinal && givenEnd(client, target, setting) === 'no endpoint') return 'refused';
  return givenOutcome(client, target, setting);
}

/** Under exact.yaml. */
export function exactOutcome(client: Client, target: Target, setting: Setting): Outcome {
  const given = givenOutcome(client, target, setting);
  // kube-proxy drops these, or Host policies do: there is no NAT.
  if (givenEnd(client, target, setting) === 'no endpoint') return given;
  const denied = judgements(client, target, setting).find((one) => !isAllowed(one, target.variant));
  return denied === undefined ? given : DENIED[denied.by];
}
