import type { NamespacedName, NetworkPolicyPeer, Node } from '../../apis/objects.ts';
import { type Address, BITS, familyOf } from '../../lib/net/address.ts';
import { fewLabels, selectorOfRequirements } from './few-labels.ts';
import { toIPBlock } from './fold-cidrs.ts';
import type { Owner, PodShape } from './peer-owner.ts';
import { hostnameSelector, type Role } from './roles.ts';

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
