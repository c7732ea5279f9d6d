import type { Labels, Pod } from '../../apis/objects.ts';

/** Pods of one namespace that no lasting label tells apart: those of one workload. */
export interface PodShape {
  readonly key: string;
  readonly namespace: string;
  /** Labels that stay when the pods are replaced, by key. */
  readonly labels: Labels;
  readonly serviceAccount: string;
  /** Their addresses, of all of them. */
  readonly addresses: readonly string[];
}

/**
 * Labels that controllers give to single pods, or that change with each version: a policy that
 * selects by them selects nothing tomorrow. ReplicaSet, DaemonSet, StatefulSet, Job, Argo Rollouts,
 * Helm; see kubernetes.io/docs/reference/labels-annotations-taints.
 */
const PASSING =
  /(^|[./-])(hash|uid|generation|revision|revision-hash|job-name|pod-name|pod-index|job-completion-index|version|chart)$/;

export function isLasting(key: string): boolean {
  return !PASSING.test(key);
}

export function lastingLabels(labels: Labels): Labels {
  const kept = Object.entries(labels).filter(([key]) => isLasting(key));
  return Object.fromEntries(kept.sort(([a], [b]) => (a < b ? -1 : 1)));
}

/** The shapes of pods, by key, and the key of each pod. Costs one pass. */
export function podShapes(pods: readonly Pod[]): {
  readonly shapes: ReadonlyMap<string, PodShape>;
  readonly keyOf: (pod: Pod) => string;
} {
  const shapes = new Map<string, PodShape & { readonly addresses: string[] }>();
  const keys = new Map<Pod, string>();
  for (const pod of pods) {
    const { namespace, serviceAccount } = pod;
    if (pod.addresses.length === 0) continue;
    const labels = lastingLabels(pod.labels);
    const key = JSON.stringify([namespace, serviceAccount, labels]);
    keys.set(pod, key);
    const known = shapes.get(key);
    if (known === undefined)
      shapes.set(key, { key, namespace, labels, serviceAccount, addresses: [...pod.addresses] });
    else known.addresses.push(...pod.addresses);
  }
  return { shapes, keyOf: (pod) => keys.get(pod) ?? '' };
}
