import type { Address, Family } from '../address.ts';
import { formatAddress, parseAddress } from '../address.ts';
import { addressesOf, type Claim, mayShareFixed } from './allocation.ts';
import type { EgressCluster, EgressConfig, EgressFlow, EgressPod } from './egress-cluster.ts';
import { insideTest, sourceOf, toEgressCluster } from './egress-cluster.ts';
import type { Gateway, Policy } from './egress-objects.ts';
import { nameOf, toGateways, toPolicies } from './egress-objects.ts';
import { gatewayOf } from './gateway-choice.ts';
import { ownersOf, translatorsOf } from './owner.ts';
import type { Exit, Permission } from './permission.ts';
import { comparePolicies, isAppliedTo, matches } from './policy-order.ts';
import { isInAny } from './pool.ts';
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
