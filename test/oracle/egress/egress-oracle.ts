import { type Address, addressKey, type Family, formatAddress, parseAddress } from '../address.ts';
import type { ClusterNode } from '../cluster.ts';
import type { Labels } from '../manifest.ts';
import { selects } from '../member.ts';
import { compareCodePoints } from '../order.ts';
import { addressesOf, type Claim, mayShareFixed } from './allocation.ts';
import {
  type EgressCluster,
  type EgressConfig,
  type EgressFlow,
  type EgressPod,
  insideTest,
  type Source,
  sourceOf,
  toEgressCluster,
} from './egress-cluster.ts';
import {
  type Gateway,
  isInAny,
  nameOf,
  type Policy,
  type Selection,
  toGateways,
  toPolicies,
} from './egress-objects.ts';
import type { Exit, Permission } from './permission.ts';
import { toSpidernetGateways, toSpidernetPolicies } from './spidernet-objects.ts';

export type { EgressConfig, EgressFlow } from './egress-cluster.ts';
export type { EgressAnswer, Permission } from './permission.ts';
export { describePermission, isPermitted } from './permission.ts';

interface Scene {
  readonly cluster: EgressCluster;
  readonly gateways: readonly Gateway[];
  readonly claims: readonly Claim[];
}

/**
 * Evaluates docs/egress.md straight from the manifests, slowly: every policy is tried in
 * order. Gives the answers that are right for a flow; mostly one, more where the manifests leave
 * something open.
 */
export function egressOracle(
  objects: readonly object[],
  config: EgressConfig = {},
): (flow: EgressFlow) => Permission[] {
  const cluster = toEgressCluster(objects, config);
  const gateways = [...toGateways(objects), ...toSpidernetGateways(objects)];
  const policies = [...toPolicies(objects), ...toSpidernetPolicies(objects)].sort(comparePolicies);
  const pools = gateways.flatMap(({ pool }) => pool);
  const isInside = insideTest(cluster, pools);
  const scene = { cluster, gateways, claims: toClaims(policies, gateways, cluster) };
  // An Audit policy is as if absent.
  const enforced = policies.filter(({ isAudit }) => !isAudit);
  const holdsUnknown = config.egress?.unknownPods !== 'Pass' && enforced.length > 0;
  return (flow) => {
    const destination = parseAddress(flow.dst);
    if (destination === undefined) throw new Error(`dst is not an address: ${flow.dst}`);
    const source = sourceOf(flow, cluster);
    const inside = isInside(destination);
    if (source.kind === 'host') return [untouched(...(inside ? ['inside', 'host'] : ['host']))];
    if (inside) return [untouched('inside')];
    if (source.kind === 'unknown' && holdsUnknown) return [{ ...untouched('unknown-pod'), verdict: 'Drop' }];
    const policy = enforced.find((one) => matches(one, source, destination));
    if (policy === undefined) {
      const isPod =
        source.kind === 'other' &&
        isInAny(cluster.likelyPods, source.address) &&
        !policies.some((one) => isAppliedTo(one, source, source.address.family));
      if (isPod && holdsUnknown) return [{ ...untouched('unknown-pod'), verdict: 'Drop' }];
      return [untouched('no-policy')];
    }
    if (policy.action !== 'Gateway')
      return [{ verdict: policy.action, policy: nameOf(policy), gateway: null, reasons: ['policy'] }];
    const ways = steered(policy, destination.family, scene);
    const own = source.kind === 'pod' ? addressFrom(flow, source.pod, destination.family) : undefined;
    if (own === undefined || isInside(own)) return ways;
    return ways.map((way) =>
      way.verdict === 'Gateway' ? unavailable(policy, way.gateway, ['no-route']) : way,
    );
  };
}

/** The address that the flow of a pod comes from. */
function addressFrom({ src }: EgressFlow, pod: EgressPod, family: Family): Address | undefined {
  return src === undefined ? pod.addresses.find((one) => one.family === family) : parseAddress(src);
}

function untouched(...reasons: string[]): Permission {
  return { verdict: 'Direct', policy: null, gateway: null, reasons };
}

function toClaims(
  policies: readonly Policy[],
  gateways: readonly Gateway[],
  cluster: EgressCluster,
): Claim[] {
  return policies.flatMap((policy) => {
    const { gateway, isAllowed } = gatewayOf(policy, gateways, cluster.labelsOfNamespace);
    const isClaim =
      policy.action === 'Gateway' &&
      gateway?.source === 'Floating' &&
      isAllowed &&
      policy.allocation !== 'Node';
    return isClaim ? [{ policy, gateway }] : [];
  });
}

/** By the policy's gateway, or why it cannot be. */
function steered(policy: Policy, family: Family, scene: Scene): Permission[] {
  const { gateway, isAllowed } = gatewayOf(policy, scene.gateways, scene.cluster.labelsOfNamespace);
  if (gateway === undefined || !isAllowed) {
    return [unavailable(policy, gateway === undefined ? null : gateway.name, ['no-gateway'])];
  }
  return gateway.source === 'Node' || policy.allocation === 'Node'
    ? byNode(policy, gateway, family, scene)
    : byFloating(policy, gateway, family, scene);
}

function unavailable(policy: Policy, gateway: string | null, reasons: readonly string[]): Permission {
  const verdict = policy.directIfUnavailable ? 'Direct' : 'Drop';
  return { verdict, policy: nameOf(policy), gateway, reasons: [...new Set(reasons)] };
}

function byNode(policy: Policy, gateway: Gateway, family: Family, { cluster }: Scene): Permission[] {
  const { nodes, reasons } = translatorsOf(gateway, family, cluster.nodes);
  // There is no pool: an address of its own is not to be had.
  const isOwn = policy.allocation === 'Shared' || policy.allocation === 'Node';
  const lacking = isOwn ? [] : ['no-family', 'no-address'];
  if (nodes.length === 0 || lacking.length > 0)
    return [unavailable(policy, gateway.name, [...lacking, ...reasons])];
  return [
    toWay(policy, gateway, {
      holder: null,
      mayBeShared: true,
      count: 1,
      isSpread: gateway.choice === 'Spread',
      // Which of several addresses of its own, the node's routes say.
      admits: (node, address) =>
        nodes.some((one) => one.name === node && (address === null || hasAddress(one.addresses, address))),
      text: `own address of ${nodes.map(({ name }) => name).join('|')}`,
    }),
  ];
}

function byFloating(policy: Policy, gateway: Gateway, family: Family, scene: Scene): Permission[] {
  const { nodes } = scene.cluster;
  const addresses = addressesOf({ policy, gateway }, family, scene.claims);
  // Addresses that no slot has are alike: one that nobody has stands for them.
  const unowned = { family, value: -1n };
  if (addresses.kind === 'none') {
    const reasons = [...addresses.reasons, ...ownersOf(gateway, unowned, nodes).reasons];
    return [unavailable(policy, gateway.name, reasons)];
  }
  const inSlots = gateway.slots.flatMap((slot) => slot.addresses).filter(addresses.admits);
  const possible = addresses.only === undefined ? [...inSlots, unowned] : [addresses.only];
  const owners = possible.map((address) => ownersOf(gateway, address, nodes));
  const lacking = [
    ...(addresses.mayLack ? ['no-address'] : []),
    ...new Set(owners.flatMap(({ reasons }) => reasons)),
  ];
  const without = unavailable(policy, gateway.name, lacking);
  if (owners.every((one) => one.nodes.length === 0)) return [without];
  const way = toWay(policy, gateway, {
    holder: holderOf({ policy, gateway }),
    mayBeShared: mayShareFixed(policy),
    count: policy.allocation === 'Dedicated' ? policy.count : 1,
    isSpread: false,
    admits: (node, text) => {
      const address = parseAddress(text ?? '');
      if (address === undefined || !addresses.admits(address)) return false;
      return ownersOf(gateway, address, nodes).nodes.some((one) => one.name === node);
    },
    text: addresses.only === undefined ? 'an address of the pool' : formatAddress(addresses.only),
  });
  return lacking.length === 0 ? [way] : [way, without];
}

/** Who has an address: the gateway for all Shared policies, else the policy. */
function holderOf({ policy, gateway }: Claim): string {
  if (policy.allocation === 'Shared') return `gateway ${gateway.name} of ${gateway.apiGroup}`;
  return `policy ${nameOf(policy)} of ${policy.apiGroup}`;
}

function toWay(policy: Policy, gateway: Gateway, exit: Exit): Permission {
  return {
    verdict: 'Gateway',
    policy: nameOf(policy),
    gateway: gateway.name,
    reasons: ['policy'],
    exit,
  };
}

function hasAddress(addresses: readonly Address[], text: string): boolean {
  const wanted = parseAddress(text);
  return addresses.some(({ family, value }) => family === wanted?.family && value === wanted.value);
}

const STAGES = ['Override', 'Namespace', 'Default'];

/** The total order of docs/egress.md, as a comparator. */
function comparePolicies(a: Policy, b: Policy): number {
  return (
    STAGES.indexOf(a.stage) - STAGES.indexOf(b.stage) ||
    a.priority - b.priority ||
    compareCodePoints(a.name, b.name) ||
    compareCodePoints(a.apiGroup, b.apiGroup) ||
    // No pod is in two namespaces: nothing depends on it.
    compareCodePoints(a.namespace ?? '', b.namespace ?? '')
  );
}

/** True where the policy is applied to the source and speaks of the destination. */
function matches(policy: Policy, source: Source, destination: Address): boolean {
  const isTo = policy.to === undefined || isInAny(policy.to, destination);
  return isTo && !isInAny(policy.except, destination) && isAppliedTo(policy, source, destination.family);
}

/** Whether the policy is applied to the source, wherever it sends to. */
function isAppliedTo(policy: Policy, source: Source, family: 4 | 6): boolean {
  return policy.appliedTo.some((selection) => isSelected(policy, selection, source, family));
}

function isSelected(policy: Policy, selection: Selection, source: Source, family: 4 | 6): boolean {
  if (source.kind === 'host') return false;
  const pod = source.kind === 'pod' ? source.pod : undefined;
  const { podSubnets } = selection;
  if (podSubnets !== undefined) {
    const addresses = source.kind === 'pod' ? source.pod.addresses : [source.address];
    if (!addresses.some((one) => one.family === family && isInAny(podSubnets, one))) return false;
  } else if (pod === undefined) return false;
  if (policy.namespace !== undefined && pod?.namespace !== policy.namespace) return false;
  return isSelectedPod(selection, pod);
}

function isSelectedPod({ podSelector, namespaceSelector }: Selection, pod: EgressPod | undefined): boolean {
  if (podSelector === undefined && namespaceSelector === undefined) return true;
  return (
    pod !== undefined &&
    selects(podSelector ?? {}, pod.labels) &&
    selects(namespaceSelector ?? {}, pod.namespaceLabels)
  );
}

/** Which nodes a packet may leave by. */
interface Owners {
  /** Empty: none can be. */
  readonly nodes: readonly ClusterNode[];
  /** Why none can be; beside nodes: why there may be none, which the manifests leave open. */
  readonly reasons: readonly string[];
}

/** The nodes that may own a floating address. */
function ownersOf(gateway: Gateway, address: Address, nodes: readonly ClusterNode[]): Owners {
  const ready = readyCandidates(gateway, nodes);
  const has = (slot: Gateway['slots'][number]) =>
    slot.addresses.some((one) => addressKey(one) === addressKey(address));
  const owner = gateway.slots.find(has)?.node;
  if (ready.length === 0) return { nodes: [], reasons: ['not-ready'] };
  // A slot without an owner: the next step of the controller gives it one.
  if (owner === '') return { nodes: ready, reasons: ['not-ready'] };
  if (owner === undefined) {
    // It goes to a slot that is there, or to a new one.
    const isReady = gateway.slots.every((slot) => ready.some(({ name }) => name === slot.node));
    return { nodes: ready, reasons: isReady ? [] : ['not-ready'] };
  }
  const node = ready.find(({ name }) => name === owner);
  if (node !== undefined) return { nodes: [node], reasons: [] };
  const isCandidate = candidates(gateway, nodes).some(({ name }) => name === owner);
  if (isCandidate) return { nodes: [], reasons: ['not-ready'] };
  // An owner that is no candidate any more: the next step of the controller gives it another.
  return { nodes: ready, reasons: ['not-ready'] };
}

/** The nodes of a gateway of source Node that may translate packets of the family. */
function translatorsOf(gateway: Gateway, family: Family, nodes: readonly ClusterNode[]): Owners {
  const hasFamily = (node: ClusterNode) => node.addresses.some((address) => address.family === family);
  const ready = readyCandidates(gateway, nodes);
  const able = ready.filter(hasFamily);
  if (able.length > 0) return { nodes: able, reasons: [] };
  const some = candidates(gateway, nodes).some(hasFamily);
  const reasons = ready.length === 0 ? ['not-ready', 'no-family'] : ['no-family'];
  return { nodes: [], reasons: some ? ['not-ready', 'no-family'] : reasons };
}

/** A candidate of which no status speaks is ready. */
function readyCandidates(gateway: Gateway, nodes: readonly ClusterNode[]): ClusterNode[] {
  return candidates(gateway, nodes).filter(({ name }) => gateway.ready.get(name) !== false);
}

function candidates(gateway: Gateway, nodes: readonly ClusterNode[]): ClusterNode[] {
  return nodes.filter(({ labels }) => selects(gateway.nodeSelector, labels));
}

/**
 * The labels of a Namespace that name the gateway of its EgressPolicies; the first counts. The
 * others are those of egressgateway, for its own policies.
 */
const LABELS = [
  'nodewall.io/egress-gateway',
  'spidernet.io/egressgateway-default',
  'egressgateway.spidernet.io/default',
];

/** The gateway that a policy means, and whether the policy may use it. */
interface Choice {
  readonly gateway: Gateway | undefined;
  readonly isAllowed: boolean;
}

/**
 * By the policy's own name of it, else the label of its namespace, else the default. A name or
 * label without such a gateway does not fall back.
 */
function gatewayOf(
  policy: Policy,
  gateways: readonly Gateway[],
  labelsOfNamespace: (name: string) => Labels,
): Choice {
  const { namespace, apiGroup } = policy;
  const labels = namespace === undefined ? {} : labelsOfNamespace(namespace);
  const known = apiGroup === 'nodewall.io' ? LABELS.slice(0, 1) : LABELS;
  const label = known.find((key) => labels[key] !== undefined);
  const named = policy.gateway ?? (label === undefined ? undefined : labels[label]);
  const meant = gateways.filter(({ name, isDefault }) => (named === undefined ? isDefault : name === named));
  // As tiers and groups are found: in the policy's own API group first.
  const own = meant.filter((gateway) => gateway.apiGroup === apiGroup);
  const [gateway, second] = own.length > 0 ? own : meant;
  // Two defaults are refused; where they are there anyway, neither is the default.
  if (gateway === undefined || second !== undefined) return { gateway: undefined, isAllowed: false };
  const { allowedNamespaces } = gateway;
  const isAllowed =
    namespace === undefined || (allowedNamespaces !== undefined && selects(allowedNamespaces, labels));
  return { gateway, isAllowed };
}
