import type { IPBlock, NamespacedName, NetworkPolicyPeer, Node } from '../../apis/objects.ts';
import {
  type Address,
  BITS,
  type Cidr,
  covers,
  FAMILIES,
  type Family,
  familyOf,
  formatCidr,
  lastAddress,
} from '../../lib/net/address.ts';
import { toCidrs, toInterval, union } from '../../lib/net/interval.ts';
import type { Owner, PodShape } from './peer-owner.ts';
import { fewLabels, hostnameSelector, type Role, selectorOfRequirements } from './roles.ts';

/** Facts of the whole cluster that peers are made of. */
export interface Surroundings {
  readonly roles: readonly Role[];
  readonly podsByNamespace: ReadonlyMap<string, readonly PodShape[]>;
  readonly scanners: ReadonlySet<string>;
  /** Addresses of the scanners. */
  readonly scanning: readonly Address[];
}

/** A peer of a rule; Services have a field of their own there. */
export type DraftPeer = NetworkPolicyPeer | { readonly toService: NamespacedName };

/** The peers that name these owners, by their JSON. */
export function draftPeers(
  owners: readonly Owner[],
  { roles, podsByNamespace }: Surroundings,
): Map<string, DraftPeer> {
  const single = owners.flatMap((owner): DraftPeer[] => {
    if (owner.kind === 'service') return [{ toService: owner.service }];
    return owner.kind === 'block' ? [{ ipBlock: toIPBlock(owner.cidr) }] : [];
  });
  const nodes = owners.flatMap((owner) => (owner.kind === 'node' ? owner.node : []));
  const shapes = owners.flatMap((owner) => (owner.kind === 'pods' ? owner.shape : []));
  const ofPods = owners.some(({ kind }) => kind === 'all-pods')
    ? [{ namespaceSelector: {} }]
    : podPeers(shapes, podsByNamespace);
  const all = [...single, ...nodePeers(nodes, roles), ...ofPods];
  return new Map(all.map((peer) => [JSON.stringify(peer), peer]));
}

/** Nodes of a role that are named; more are selected with the rest of their role. */
const MOST_NAMES = 3;

/**
 * Nodes as peers: by the selectors of their roles, where at least half of a role was seen, or more
 * than a few of its nodes; else by their names, or addresses. `nodeSelector: {}` where all roles
 * are seen.
 */
function nodePeers(seen: readonly Node[], roles: readonly Role[]): NetworkPolicyPeer[] {
  const left = new Map(seen.map((node) => [node.name, node]));
  const whole = roles.filter(({ nodes, isByName }) => {
    const own = nodes.filter((name) => left.has(name)).length;
    const isMost = own > 1 && (own * 2 >= nodes.length || own > MOST_NAMES);
    return !isByName && own > 0 && (own === nodes.length || isMost);
  });
  if (roles.length > 1 && whole.length === roles.length) return [{ nodeSelector: {} }];
  for (const { nodes, unknownNodes } of whole)
    for (const name of [...nodes, ...unknownNodes]) left.delete(name);
  const named = [...left.values()];
  const labelled = named.filter((node) => hostnameSelector([node]) !== null);
  const selectors = [...whole.map(({ selector }) => selector), hostnameSelector(labelled)];
  return [
    ...selectors.flatMap((nodeSelector) => (nodeSelector === null ? [] : { nodeSelector })),
    ...named.filter((node) => !labelled.includes(node)).flatMap(({ addresses }) => addresses.map(toBlock)),
  ];
}

function toBlock(address: string): NetworkPolicyPeer {
  return { ipBlock: { cidr: `${address}/${BITS[familyOf(address)]}` } };
}

/**
 * Above so many peers of pods, namespaces are selected of which half of the workloads were seen.
 */
const MOST_WORKLOADS = 6;

/**
 * Pods as peers: by few labels that select no other workload, in their namespace. A namespace is
 * selected whole if all of its workloads were seen. O(shapes) for each label that is tried.
 */
function podPeers(
  seen: readonly PodShape[],
  byNamespace: ReadonlyMap<string, readonly PodShape[]>,
): NetworkPolicyPeer[] {
  const whole: string[] = [];
  const peers = [...Map.groupBy(seen, ({ namespace }) => namespace)].flatMap(([namespace, some]) => {
    const all = byNamespace.get(namespace) ?? [];
    const others = all.filter((one) => !some.includes(one));
    const isAll = others.length === 0 && some.length > 1;
    const isMost = seen.length > MOST_WORKLOADS && some.length * 2 >= all.length;
    if (!isAll && !isMost) return some.flatMap((shape) => workloadPeers(shape, others));
    whole.push(namespace);
    return [];
  });
  const isEverything = whole.length > 1 && whole.length === byNamespace.size;
  const namespaceSelector = isEverything ? {} : inNamespaces(whole);
  return whole.length === 0 ? peers : [...peers, { namespaceSelector }];
}

/** Keys that say which workload a pod is of, the best first; others follow. */
const PREFERRED = [
  'app.kubernetes.io/name',
  'k8s-app',
  'app',
  'app.kubernetes.io/component',
  'component',
  'app.kubernetes.io/instance',
  'name',
  'role',
];
const WORKLOAD = {
  placeOf: (key: string) => (PREFERRED.includes(key) ? PREFERRED.indexOf(key) : PREFERRED.length),
  needsLabel: true,
};

function workloadPeers(shape: PodShape, others: readonly PodShape[]): NetworkPolicyPeer[] {
  const { namespace, labels, serviceAccount: name, addresses } = shape;
  const podSelector = fewLabels(
    [labels],
    others.map((other) => other.labels),
    WORKLOAD,
  );
  if (podSelector !== null) return [{ podSelector, namespaceSelector: inNamespaces([namespace]) }];
  const isOfAccount = !others.some((other) => other.serviceAccount === name);
  return isOfAccount ? [{ serviceAccount: { name, namespace } }] : addresses.map(toBlock);
}

function inNamespaces(values: readonly string[]) {
  return selectorOfRequirements([{ key: 'kubernetes.io/metadata.name', operator: 'In', values }]);
}

interface Folded {
  readonly blocks: readonly IPBlock[];
  /** Whether they cover more than what was given. */
  readonly isWider: boolean;
  /** Families that became everything, because their addresses are everywhere. */
  readonly everything: readonly Family[];
}

/** No CIDR becomes wider than this by being joined. */
const WIDEST = { 4: 8, 6: 20 } as const;
/** More CIDRs than that, which are still too many, are from everywhere. */
const EVERYWHERE = 32;
/** With more exceptions a CIDR cannot be read; its own addresses stand there instead. */
const MOST_EXCEPTIONS = 16;

/**
 * The CIDRs as few: neighbours with the longest common prefix are joined first. There are more than
 * `most` where joining would make one wider than /8 (IPv6: /20). O(n log n).
 *
 * @param avoid addresses that a wider CIDR must not cover
 */
export function foldCidrs(given: readonly Cidr[], most: number, avoid: readonly Address[]): Folded {
  const exact = FAMILIES.flatMap((family) => {
    const own = given.filter((one) => one.family === family).map(toInterval);
    return union(own).flatMap((interval) => toCidrs(family, interval));
  });
  const groups = grouped(exact, most);
  const everything = FAMILIES.filter(
    (family) => groups.filter(([first]) => first?.family === family).length > Math.max(most, EVERYWHERE),
  );
  const few = groups.filter(([first]) => first !== undefined && !everything.includes(first.family));
  const blocks = [
    ...few.flatMap((group) => {
      const block = toIPBlock(commonBlock(group), avoid);
      return (block.except ?? []).length > MOST_EXCEPTIONS
        ? group.map((one) => toIPBlock(one, avoid))
        : [block];
    }),
    ...everything.map((family) => toIPBlock({ family, value: 0n, length: 0 }, avoid)),
  ];
  const isWider = groups.some((group) => group.length > 1) || everything.length > 0;
  return { blocks, isWider, everything };
}

/** Neighbours to be joined, until `most` groups are left or the rest is too far apart. */
function grouped(exact: readonly Cidr[], most: number): Cidr[][] {
  const joints = exact.slice(1).flatMap((next, i) => {
    const last = exact[i];
    if (last === undefined || last.family !== next.family) return [];
    const { length, family } = commonBlock([last, next]);
    return length < WIDEST[family] ? [] : [{ next, closeness: length / BITS[family] }];
  });
  joints.sort((a, b) => b.closeness - a.closeness);
  const joined = new Set(joints.slice(0, Math.max(0, exact.length - most)).map(({ next }) => next));
  const groups: Cidr[][] = [];
  for (const one of exact) {
    const group = groups.at(-1);
    if (group !== undefined && (joined.has(one) || covers(commonBlock(group), one))) group.push(one);
    else groups.push([one]);
  }
  return groups;
}

/** The longest prefix that covers all; they are sorted, and of one family. */
function commonBlock(group: readonly Cidr[]): Cidr {
  const [first, last] = [group[0], group.at(-1)];
  if (first === undefined || last === undefined) throw new TypeError('no CIDR has no common prefix');
  const { family } = first;
  const difference = first.value ^ lastAddress(last);
  const free = difference === 0n ? 0 : difference.toString(2).length;
  return { family, value: (first.value >> BigInt(free)) << BigInt(free), length: BITS[family] - free };
}

/** With the length, also of a single address, as `ipBlock.cidr` needs it. */
function toIPBlock(block: Cidr, avoid: readonly Address[] = []): IPBlock {
  const bits = BITS[block.family];
  const own = avoid
    .map((one): Cidr => ({ ...one, length: BITS[one.family] }))
    .filter((one) => block.length < bits && covers(block, one));
  const except = [...new Set(own.map((one) => toIPBlock(one).cidr))].sort();
  const cidr = block.length < bits ? formatCidr(block) : `${formatCidr(block)}/${bits}`;
  return { cidr, ...(except.length === 0 ? {} : { except }) };
}
