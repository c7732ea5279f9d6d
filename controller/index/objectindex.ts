import type {
  ClusterObjects,
  LabelSelector,
  Labels,
  Namespace,
  NetworkPolicyPeer,
  Node,
  Pod,
} from '../../apis/objects.ts';
import { labelIndex } from './labelindex.ts';

/** Which addresses the selectors of peers and appliedTo stand for, over one state of the objects. */
export interface ObjectIndex {
  selectNodes(selector: LabelSelector): readonly Node[];
  /** Pods that `podSelector` selects in the namespaces that `namespaceSelector` selects; absent is all. */
  selectPods(peer: Pick<NetworkPolicyPeer, 'podSelector' | 'namespaceSelector'>): readonly Pod[];
  serviceAccountPods(namespace: string, name: string): readonly Pod[];
  /** Pods of one namespace that have all these labels: what a Service's selector selects. */
  labelledPods(namespace: string, labels: Labels): readonly Pod[];
}

export function objectIndex(objects: Pick<ClusterObjects, 'nodes' | 'namespaces' | 'pods'>): ObjectIndex {
  const nodes = labelIndex(objects.nodes);
  const pods = labelIndex(objects.pods);
  const namespaces = labelIndex(allNamespaces(objects));
  let byAccount: Map<string, Pod[]> | null = null;
  return {
    selectNodes: (selector) => nodes.select(selector),
    selectPods({ podSelector, namespaceSelector }) {
      const selected = pods.select(podSelector ?? {});
      if (namespaceSelector === undefined) return selected;
      const names = new Set(namespaces.select(namespaceSelector).map((namespace) => namespace.name));
      return selected.filter((pod) => names.has(pod.namespace));
    },
    serviceAccountPods(namespace, name) {
      byAccount ??= Map.groupBy(objects.pods, (pod) => `${pod.namespace}/${pod.serviceAccount}`);
      return byAccount.get(`${namespace}/${name}`) ?? [];
    },
    labelledPods(namespace, labels) {
      return pods.select({ matchLabels: labels }).filter((pod) => pod.namespace === namespace);
    },
  };
}

/** A namespace that pods name but nobody declared has the one label that every namespace has. */
function allNamespaces({
  namespaces,
  pods,
}: Pick<ClusterObjects, 'namespaces' | 'pods'>): readonly Namespace[] {
  const byName = new Map<string, Namespace>();
  for (const { namespace: name } of pods) {
    if (byName.has(name)) continue;
    byName.set(name, { kind: 'Namespace', name, labels: { [NAME_LABEL]: name } });
  }
  for (const namespace of namespaces) {
    const labels = { ...namespace.labels, [NAME_LABEL]: namespace.name };
    byName.set(namespace.name, { ...namespace, labels });
  }
  return [...byName.values()];
}

const NAME_LABEL = 'kubernetes.io/metadata.name';
