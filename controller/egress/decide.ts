import type {
  EgressAnswer,
  EgressConsidered,
  EgressExplanation,
  EgressFlow,
} from '../../apis/egress/flow.ts';
import type { EgressPolicy } from '../../apis/egress/objects.ts';
import type { Labels, Pod } from '../../apis/objects.ts';
import { type Address, type Family, formatAddress, parseAddress } from '../../lib/net/address.ts';
import { hasMember } from '../../lib/net/member-set.ts';
import { hasInterval } from '../../lib/net/range-index.ts';
import { memo } from '../../lib/sharing/memo.ts';
import { ObjectIndex } from '../index/object-index.ts';
import { allHold } from '../index/selector.ts';
import type { EgressPath } from './allocation.ts';
import { egressPolicyKey } from './class.ts';
import type { CompiledEgress, EgressInput } from './compile-egress.ts';
import { holderOf, isLikelyPod, isPodAddress } from './inside.ts';
import { egressPolicyText } from './order.ts';
import { destinationsOf } from './segments.ts';
import { isInSubnets, toItems } from './selection.ts';

export type EgressExplainer = (flow: EgressFlow, options?: { considered?: boolean }) => EgressExplanation;

/** Where a connection begins. */
type Source =
  | { readonly kind: 'host' }
  /** The address is null if the pod has none of the destination's family. */
  | { readonly kind: 'pod'; readonly pod: Pod; readonly labels: Labels; readonly address: string | null }
  /** In the pod network of a Node, and no known pod's. */
  | { readonly kind: 'unknown' }
  | { readonly kind: 'other'; readonly address: string };

const NOTHING = { policy: null, gateway: null, node: null, address: null } as const;

/**
 * Explains what becomes of one connection (docs/egress.md). Tries every policy in order, without
 * the classes that nodes use. Throws a TypeError for a pod that is not there.
 */
export function egressExplainer(objects: EgressInput, compiled: CompiledEgress): EgressExplainer {
  const toSource = sourceReader(objects, compiled);
  const items = memo(toItems);
  const destinations = memo(destinationsOf);
  const mismatchOf = (policy: EgressPolicy, source: Source, dst: Address): EgressConsidered['mismatch'] => {
    if (!items(policy).some((item) => selects(item, source))) return 'pods';
    return hasInterval(destinations(policy)[dst.family], dst.value) ? null : 'destination';
  };
  return (flow, { considered: wanted = false } = {}) => {
    const considered: EgressConsidered[] = [];
    const dst = parseAddress(flow.dst);
    if (dst === null) throw new TypeError(`dst: ${flow.dst} is not an IP address`);
    const source = toSource(flow, dst.family);
    const found = beforePolicies(source, dst, compiled) ?? crowdedAnswer(source, compiled);
    if (found !== null) return { ...found, ...(wanted ? { considered } : {}) };
    const audited: EgressPolicy[] = [];
    let decided: EgressPolicy | null = null;
    for (const policy of compiled.policies) {
      const { mode, stage, priority, action } = policy.spec;
      const mismatch = mismatchOf(policy, source, dst);
      const matched = mode === 'Audit' ? 'audited' : 'decided';
      const outcome = mismatch === null ? matched : 'no match';
      considered.push({ policy: egressPolicyText(policy), stage, priority, action, mismatch, outcome });
      if (outcome === 'audited') audited.push(policy);
      if (outcome !== 'decided') continue;
      decided = policy;
      break;
    }
    return {
      ...(decided === null
        ? withoutPolicy(source, compiled)
        : decision(decided, { family: dst.family, isStray: isStray(source, compiled) }, compiled)),
      ...(audited.length === 0 ? {} : { audited: audited.map(auditedPolicy) }),
      ...(wanted ? { considered } : {}),
    };
  };
}

function auditedPolicy(policy: EgressPolicy): NonNullable<EgressAnswer['audited']>[number] {
  return { policy: egressPolicyText(policy), action: policy.spec.action };
}

function sourceReader(
  objects: EgressInput,
  compiled: CompiledEgress,
): (flow: EgressFlow, family: Family) => Source {
  const index = new ObjectIndex(objects);
  const pods = new Map(objects.pods.map((pod) => [`${pod.namespace}/${pod.name}`, pod]));
  const ofPod = (pod: Pod, address: string | null): Source =>
    pod.hostNetwork === true
      ? { kind: 'host' }
      : { kind: 'pod', pod, labels: index.namespaceLabels(pod.namespace), address };
  return ({ pod: name, src = '' }, family) => {
    if (name !== undefined) {
      const pod = pods.get(name);
      if (pod === undefined) throw new TypeError(`pod: there is no running pod ${name} in the manifests`);
      return ofPod(pod, pod.addresses.find((text) => parseAddress(text)?.family === family) ?? null);
    }
    const parsed = parseAddress(src);
    if (parsed === null) throw new TypeError(`src: ${src} is not an IP address`);
    const address = formatAddress(parsed);
    if (hasMember(compiled.inside.nodes, parsed)) return { kind: 'host' };
    const holders: Pod[] = [];
    for (const holder of index.holders(address))
      if (holder.kind === 'Pod' && holder.hostNetwork !== true) holders.push(holder);
    const pod = holderOf(holders, address, compiled.inside);
    if (pod !== undefined) return ofPod(pod, address);
    const isHeld = compiled.unknownPods === 'Hold' && isPodAddress(compiled.inside, address);
    return isHeld ? { kind: 'unknown' } : { kind: 'other', address };
  };
}

function selects({ pods, subnets }: ReturnType<typeof toItems>[number], source: Source): boolean {
  if (source.kind !== 'pod' && source.kind !== 'other') return false;
  if (!isInSubnets(subnets, source.address)) return false;
  if (pods === null) return true;
  return (
    source.kind === 'pod' && allHold(pods.namespace, source.labels) && allHold(pods.labels, source.pod.labels)
  );
}

function beforePolicies(source: Source, dst: Address, { inside }: CompiledEgress): EgressAnswer | null {
  if (hasMember(inside.members, dst)) return { verdict: 'Direct', ...NOTHING, reason: 'inside' };
  if (source.kind === 'host') return { verdict: 'Direct', ...NOTHING, reason: 'host' };
  if (source.kind === 'unknown') return { verdict: 'Drop', ...NOTHING, reason: 'unknown-pod' };
  return null;
}

/** A node holds what comes from a pod that it does not know, if no podSubnets have it. */
function withoutPolicy(source: Source, { inside, unknownPods, subnets }: CompiledEgress): EgressAnswer {
  const isHeld =
    unknownPods === 'Hold' &&
    source.kind === 'other' &&
    isLikelyPod(inside, source.address) &&
    !isInOne(subnets, source.address);
  if (isHeld) return { verdict: 'Drop', ...NOTHING, reason: 'unknown-pod' };
  return { verdict: 'Direct', ...NOTHING, reason: 'no-policy' };
}

function isInOne(subnets: CompiledEgress['subnets'], text: string): boolean {
  const address = parseAddress(text);
  return subnets.some(
    ({ family, range }) =>
      family === address?.family && range.first <= address.value && address.value <= range.last,
  );
}

/** Null: there is room for the pod's class. */
function crowdedAnswer(source: Source, { sources, crowded }: CompiledEgress): EgressAnswer | null {
  if (crowded.size === 0 || source.kind !== 'pod') return null;
  const { node = '', addresses } = source.pod;
  const id = sources.get(node)?.get(source.address ?? addresses[0] ?? '');
  return crowded.has(id ?? '') ? { verdict: 'Drop', ...NOTHING, reason: 'no-route' } : null;
}

/** Whether it is an address of a pod that does not count as inside. */
function isStray(source: Source, { inside }: CompiledEgress): boolean {
  return source.kind === 'pod' && source.address !== null && inside.leftOut.has(source.address);
}

function decision(
  policy: EgressPolicy,
  { family, isStray: isUnserved }: { readonly family: Family; readonly isStray: boolean },
  { ways }: CompiledEgress,
): EgressAnswer {
  const { action, whenUnavailable } = policy.spec;
  const named = { ...NOTHING, policy: egressPolicyText(policy) };
  if (action !== 'Gateway') return { verdict: action, ...named, reason: 'policy' };
  const way = ways.get(egressPolicyKey(policy));
  const gateway = way?.gateway?.name ?? null;
  const path: EgressPath = way?.paths[family] ?? { kind: 'unavailable', reason: 'no-gateway' };
  if (path.kind === 'unavailable')
    return { verdict: whenUnavailable, ...named, gateway, reason: path.reason };
  if (isUnserved) return { verdict: whenUnavailable, ...named, gateway, reason: 'no-route' };
  return { verdict: 'Gateway', ...named, gateway, ...exitOf(path, family), reason: 'policy' };
}

/** An interface's address is not known here. */
function exitOf(
  path: Exclude<EgressPath, { kind: 'unavailable' }>,
  family: Family,
): Pick<EgressAnswer, 'node' | 'address' | 'nodes' | 'addresses'> {
  const exits =
    path.kind === 'floating'
      ? path.parts.flatMap(({ node, addresses }) => addresses.map((address) => ({ node, address })))
      : path.nodes.map(({ name, own }) => ({
          node: name,
          address: path.interface === null ? own[family] : null,
        }));
  const nodes = [...new Set(exits.map(({ node }) => node))];
  const addresses = exits.flatMap(({ address }) => address ?? []);
  return {
    node: exits[0]?.node ?? null,
    address: exits[0]?.address ?? null,
    ...(nodes.length > 1 ? { nodes } : {}),
    ...(addresses.length > 1 ? { addresses } : {}),
  };
}
