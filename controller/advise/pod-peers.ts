import type { LabelSelector, LabelSelectorRequirement, NetworkPolicyPeer } from '../../apis/objects.ts';
import { BITS, type Cidr, parseAddress } from '../../lib/net/address.ts';
import { allHold, type Requirements } from '../index/selector.ts';
import { toSelector } from './node-selector.ts';
import type { PodShape } from './pod-shape.ts';

const NAMESPACE = 'kubernetes.io/metadata.name';

/** Keys that say which workload a pod is of, the best first; others follow by name. */
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

/**
 * Above so many peers of pods, namespaces are selected of which half of the workloads were seen.
 */
const MOST_WORKLOADS = 6;
/** Above so many namespaces they are one list. */
const MOST_NAMESPACES = 3;

export interface PodPeers {
  readonly peers: readonly NetworkPolicyPeer[];
  /** Addresses of pods that no selector tells from others. */
  readonly blocks: readonly Cidr[];
}

/**
 * Pods as peers: by few labels that select no other workload, in their namespace. A namespace is
 * selected whole if all of its workloads were seen. O(shapes) for each label that is tried.
 *
 * @param all by namespace
 */
export function podPeers(seen: readonly PodShape[], all: ReadonlyMap<string, readonly PodShape[]>): PodPeers {
  const byNamespace = Map.groupBy(seen, ({ namespace }) => namespace);
  const isMany = seen.length > MOST_WORKLOADS;
  const whole: string[] = [];
  const peers: NetworkPolicyPeer[] = [];
  const blocks: Cidr[] = [];
  for (const [namespace, some] of [...byNamespace].sort(([a], [b]) => (a < b ? -1 : 1))) {
    const own = all.get(namespace) ?? some;
    const isAll = some.length === own.length;
    if ((isAll && own.length > 1) || (isMany && some.length * 2 >= own.length)) whole.push(namespace);
    else {
      for (const peer of workloadPeers(some, own)) {
        if ('cidrs' in peer) blocks.push(...peer.cidrs);
        else peers.push(peer);
      }
    }
  }
  const isEverything = whole.length === all.size && whole.length > 1;
  if (isEverything) return { peers: [{ namespaceSelector: {} }], blocks: [] };
  if (whole.length > MOST_NAMESPACES)
    peers.push({ namespaceSelector: toSelector([{ key: NAMESPACE, operator: 'In', values: whole }]) });
  else peers.push(...whole.map((name) => ({ namespaceSelector: inNamespace(name) })));
  return { peers, blocks };
}

type WorkloadPeer = NetworkPolicyPeer | { readonly cidrs: readonly Cidr[] };

/** The peers of some workloads of a namespace that has these `own`, without duplicates. */
function workloadPeers(seen: readonly PodShape[], own: readonly PodShape[]): WorkloadPeer[] {
  const keys = new Set(seen.map(({ key }) => key));
  const others = own.filter(({ key }) => !keys.has(key));
  const found = new Map<string, WorkloadPeer>();
  for (const shape of seen) {
    const peer = workloadPeer(shape, others);
    found.set(
      JSON.stringify(peer, (_, value) => (typeof value === 'bigint' ? `${value}` : value)),
      peer,
    );
  }
  return [...found].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, peer]) => peer);
}

function workloadPeer(shape: PodShape, others: readonly PodShape[]): WorkloadPeer {
  const { namespace, labels, serviceAccount, addresses } = shape;
  const requirements = requirementsFor(labels, others);
  if (requirements !== null)
    return { podSelector: toSelector(requirements), namespaceSelector: inNamespace(namespace) };
  if (!others.some((other) => other.serviceAccount === serviceAccount))
    return { serviceAccount: { name: serviceAccount, namespace } };
  return {
    cidrs: addresses.flatMap((text) => {
      const address = parseAddress(text);
      return address === null ? [] : { ...address, length: BITS[address.family] };
    }),
  };
}

/** Few requirements that these labels meet and no other workload; null: there are none. */
function requirementsFor(
  labels: PodShape['labels'],
  others: readonly PodShape[],
): LabelSelectorRequirement[] | null {
  const place = (key: string): number =>
    PREFERRED.includes(key) ? PREFERRED.indexOf(key) : PREFERRED.length;
  const keys = Object.keys(labels).sort((a, b) => place(a) - place(b) || (a < b ? -1 : 1));
  const chosen: LabelSelectorRequirement[] = [];
  let left = others;
  const choose = (requirement: LabelSelectorRequirement): void => {
    const still = without(left, [requirement]);
    if (chosen.length > 0 && still.length === left.length) return;
    chosen.push(requirement);
    left = still;
  };
  for (const key of keys) {
    if (chosen.length > 0 && left.length === 0) break;
    choose({ key, operator: 'In', values: [labels[key] ?? ''] });
  }
  // Others that have all of these labels have another one.
  for (const other of left) {
    const [extra] = Object.keys(other.labels).filter((key) => !Object.hasOwn(labels, key));
    if (extra !== undefined && chosen.length > 0) choose({ key: extra, operator: 'DoesNotExist' });
  }
  return chosen.length > 0 && left.length === 0 ? chosen : null;
}

function without(shapes: readonly PodShape[], requirements: Requirements): readonly PodShape[] {
  return shapes.filter(({ labels }) => allHold(requirements, labels));
}

function inNamespace(name: string): LabelSelector {
  return { matchLabels: { [NAMESPACE]: name } };
}
