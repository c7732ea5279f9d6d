import type { ClusterObjects, Labels, Namespace, Node, Pod } from '../../apis/objects.ts';
import { type ListChange, listChange } from '../../lib/sharing/lists.ts';
import { type KeyIndex, keyIndex, type LabelIndex, labelIndex } from './key-index.ts';
import { allHold, type Requirements } from './selector.ts';

type Indexed = Pick<ClusterObjects, 'nodes' | 'namespaces' | 'pods'>;

export type Holder = Node | Pod;

/** The addresses that a Node or Pod stands for as a peer, or as a controller. */
export function addressesOf(holder: Holder): readonly string[] {
  if (holder.kind === 'Pod') return holder.hostAddresses ?? holder.addresses;
  if (holder.reportedAddresses === undefined) return holder.addresses;
  return [...holder.addresses, ...holder.reportedAddresses];
}

/** Differences by object identity. */
export interface IndexChange {
  readonly nodes: ListChange<Node>;
  readonly namespaces: ListChange<Namespace>;
  readonly pods: ListChange<Pod>;
  /** Pods that were neither added nor removed, in a namespace whose labels changed. */
  readonly moved: readonly Pod[];
}

/**
 * A namespace that has an object or a pod, with the label that every namespace has
 * (kubernetes.io/metadata.name).
 */
interface Home {
  readonly name: string;
  readonly labels: Labels;
  readonly declared: boolean;
}

interface Homes {
  readonly byName: Map<string, Home>;
  readonly byLabel: LabelIndex<Home>;
}

/**
 * Resolves the selectors of peers and appliedTo to Nodes and Pods, over successive states of the
 * objects. Each part of the index is built on first use, and follows the changes from then on.
 */
export class ObjectIndex {
  #objects: Indexed;
  #nodes: LabelIndex<Node> | null = null;
  #pods: LabelIndex<Pod> | null = null;
  #byNamespace: KeyIndex<Pod> | null = null;
  #byAccount: KeyIndex<Pod> | null = null;
  #byAddress: KeyIndex<Holder> | null = null;
  #homes: Homes | null = null;

  constructor(start: Indexed) {
    this.#objects = start;
  }

  /** The labels of any namespace, with or without a Namespace object. */
  namespaceLabels(name: string): Labels {
    return this.#allHomes().byName.get(name)?.labels ?? { [NAME_LABEL]: name };
  }

  selectNodes(requirements: Requirements): readonly Node[] {
    this.#nodes ??= labelIndex(this.#objects.nodes);
    return this.#nodes.select(requirements);
  }

  /** Pods that meet `ofPod`, in the namespaces that meet `ofNamespace`. */
  selectPods(ofPod: Requirements, ofNamespace: Requirements): readonly Pod[] {
    if (ofNamespace.length === 0) return this.#podsByLabel().select(ofPod);
    const { byLabel } = this.#allHomes();
    const podsPerNamespace = this.#objects.pods.length / Math.max(1, byLabel.size);
    const found: Pod[] = [];
    // By label, each pod costs a look-up of its namespace; by namespace, each pod costs one test.
    if (2 * this.#podsByLabel().effort(ofPod) <= byLabel.effort(ofNamespace) * podsPerNamespace) {
      for (const pod of this.#podsByLabel().select(ofPod))
        if (allHold(ofNamespace, this.namespaceLabels(pod.namespace))) found.push(pod);
      return found;
    }
    for (const { name } of byLabel.select(ofNamespace)) {
      for (const pod of this.#podsByNamespace().get(name)) if (allHold(ofPod, pod.labels)) found.push(pod);
    }
    return found;
  }

  serviceAccountPods(namespace: string, name: string): Iterable<Pod> {
    this.#byAccount ??= keyIndex(this.#objects.pods, (pod) => [`${pod.namespace}/${pod.serviceAccount}`]);
    return this.#byAccount.get(`${namespace}/${name}`);
  }

  /** Pods of one namespace that have all these labels, as a Service's selector selects them. */
  labelledPods(namespace: string, labels: Labels): readonly Pod[] {
    const wanted = Object.entries(labels);
    return [...this.#podsByNamespace().get(namespace)].filter((pod) =>
      wanted.every(([key, value]) => Object.hasOwn(pod.labels, key) && pod.labels[key] === value),
    );
  }

  /** The Nodes and Pods that have this address. */
  holders(address: string): Iterable<Holder> {
    this.#byAddress ??= keyIndex<Holder>([...this.#objects.nodes, ...this.#objects.pods], addressesOf);
    return this.#byAddress.get(address);
  }

  /** The differences between the current state and this one. */
  difference(next: Indexed): IndexChange {
    const change = {
      nodes: listChange(this.#objects.nodes, next.nodes),
      namespaces: listChange(this.#objects.namespaces, next.namespaces),
      pods: listChange(this.#objects.pods, next.pods),
    };
    // No namespace labels have been used so far.
    if (this.#homes === null) return { ...change, moved: [] };
    const removed = new Set(change.pods.removed);
    const moved: Pod[] = [];
    for (const name of relabelled(this.#homes, change.namespaces)) {
      for (const pod of this.#podsByNamespace().get(name)) if (!removed.has(pod)) moved.push(pod);
    }
    return { ...change, moved };
  }

  /** Advances to this state. */
  advance(next: Indexed, change: IndexChange): void {
    this.#objects = next;
    this.#nodes?.change(change.nodes);
    this.#pods?.change(change.pods);
    this.#byNamespace?.change(change.pods);
    this.#byAccount?.change(change.pods);
    this.#byAddress?.change(change.nodes);
    this.#byAddress?.change(change.pods);
    if (this.#homes !== null) changeHomes(this.#homes, change, this.#podsByNamespace());
  }

  #podsByLabel(): LabelIndex<Pod> {
    this.#pods ??= labelIndex(this.#objects.pods);
    return this.#pods;
  }

  #podsByNamespace(): KeyIndex<Pod> {
    this.#byNamespace ??= keyIndex(this.#objects.pods, (pod) => [pod.namespace]);
    return this.#byNamespace;
  }

  #allHomes(): Homes {
    this.#homes ??= toHomes(this.#objects.namespaces, this.#podsByNamespace().keys());
    return this.#homes;
  }
}

function toHomes(namespaces: readonly Namespace[], ofPods: Iterable<string>): Homes {
  const byName = new Map(namespaces.map((namespace) => [namespace.name, toHome(namespace)]));
  for (const name of ofPods) if (!byName.has(name)) byName.set(name, undeclared(name));
  return { byName, byLabel: labelIndex(byName.values()) };
}

function toHome({ name, labels }: Namespace): Home {
  return {
    name,
    labels: labels[NAME_LABEL] === name ? labels : { ...labels, [NAME_LABEL]: name },
    declared: true,
  };
}

function undeclared(name: string): Home {
  return { name, labels: { [NAME_LABEL]: name }, declared: false };
}

/** Names of the namespaces whose labels changed. */
function relabelled({ byName }: Homes, { removed, added }: ListChange<Namespace>): string[] {
  const now = new Map(removed.map(({ name }) => [name, undeclared(name)]));
  for (const namespace of added) now.set(namespace.name, toHome(namespace));
  return [...now.values()].flatMap(({ name, labels }) => {
    const before = byName.get(name);
    return before === undefined || sameLabels(before.labels, labels) ? [] : [name];
  });
}

function sameLabels(a: Labels, b: Labels): boolean {
  const keys = Object.keys(a);
  return (
    keys.length === Object.keys(b).length && keys.every((key) => Object.hasOwn(b, key) && a[key] === b[key])
  );
}

function changeHomes(
  { byName, byLabel }: Homes,
  { namespaces, pods }: IndexChange,
  podsIn: KeyIndex<Pod>,
): void {
  const now = new Map(namespaces.added.map((namespace) => [namespace.name, toHome(namespace)]));
  const declared = (name: string): boolean => now.has(name) || byName.get(name)?.declared === true;
  const names = new Set([...namespaces.removed, ...namespaces.added].map(({ name }) => name));
  for (const { namespace } of [...pods.removed, ...pods.added])
    if (!declared(namespace)) names.add(namespace);
  const removed: Home[] = [];
  const added: Home[] = [];
  for (const name of names) {
    const home = now.get(name) ?? (podsIn.has(name) ? undeclared(name) : null);
    const before = byName.get(name);
    if (before !== undefined) removed.push(before);
    if (home === null) byName.delete(name);
    else {
      byName.set(name, home);
      added.push(home);
    }
  }
  byLabel.change({ removed, added });
}

const NAME_LABEL = 'kubernetes.io/metadata.name';
