import type { EgressGateway } from '../egress/objects.ts';
import type { ClusterNetworkPolicySpec, LabelSelector } from '../objects.ts';
import { type FieldPath, type Findings, formatPath } from './problem.ts';

/**
 * Labels of kubernetes.io and k8s.io that a kubelet may write to its own Node; any other of theirs
 * the API server refuses to it (admission plugin NodeRestriction).
 */
const KUBELET_LABELS: ReadonlySet<string> = new Set([
  'kubernetes.io/hostname',
  'kubernetes.io/arch',
  'kubernetes.io/os',
  'beta.kubernetes.io/arch',
  'beta.kubernetes.io/os',
  'beta.kubernetes.io/instance-type',
  'topology.kubernetes.io/region',
  'topology.kubernetes.io/zone',
  'failure-domain.beta.kubernetes.io/region',
  'failure-domain.beta.kubernetes.io/zone',
]);
/** It may write every label of these prefixes. */
const KUBELET_PREFIXES = ['kubelet.kubernetes.io', 'node.kubernetes.io'];

/** Warns where a kubelet can make its Node a gateway of other Nodes' pods. */
export function checkGatewayLabels({ spec, apiGroup }: EgressGateway, found: Findings): void {
  if (!isOpenToKubelets(spec.nodeSelector)) return;
  const path = apiGroup === 'nodewall.io' ? ['spec', 'nodeSelector'] : ['spec', 'nodeSelector', 'selector'];
  found.warning(
    path,
    "a kubelet may write these labels to its own Node, so a compromised node can make itself a gateway of other nodes' pods; " +
      KUBELET_ADVICE,
  );
}

/**
 * Warns of the Nodes that Allow rules of ingress name by labels: a kubelet can give its Node such
 * labels, and so the rule's access.
 */
export function checkNodePeers(spec: ClusterNetworkPolicySpec, found: Findings): void {
  if (spec.mode === 'Audit') return;
  const places = (spec.ingress ?? []).flatMap((rule, index) =>
    rule.action !== 'Allow'
      ? []
      : (rule.from ?? []).flatMap((peer, at): FieldPath[] =>
          namesNodesByLabels(peer) ? [['spec', 'ingress', index, 'from', at, 'nodeSelector']] : [],
        ),
  );
  const [first, ...more] = places;
  if (first === undefined) return;
  const others =
    more.length === 0
      ? ''
      : ` (so may the nodes of ${formatPath(more[0] ?? [])}${more.length > 1 ? ` and ${more.length - 1} more` : ''})`;
  found.warning(
    first,
    `a kubelet may write these labels to its own Node, so any compromised node can use the rule${others}; ${KUBELET_ADVICE}`,
  );
}

export const KUBELET_ADVICE =
  'select by a label that only administrators write: node-restriction.kubernetes.io/…';

/** `{}` is every Node, which no label changes. */
export function namesNodesByLabels(peer: object): boolean {
  const { nodeSelector } = peer as { readonly nodeSelector?: LabelSelector };
  if (nodeSelector === undefined) return false;
  const { matchLabels = {}, matchExpressions = [] } = nodeSelector;
  return Object.keys(matchLabels).length + matchExpressions.length > 0 && isOpenToKubelets(nodeSelector);
}

/** Whether no label that a kubelet can't write has to be there. */
function isOpenToKubelets({ matchLabels = {}, matchExpressions = [] }: LabelSelector): boolean {
  const demanded = [
    ...Object.keys(matchLabels),
    ...matchExpressions
      .filter(({ operator }) => operator === 'In' || operator === 'Exists')
      .map(({ key }) => key),
  ];
  return demanded.every(mayWrite);
}

function mayWrite(key: string): boolean {
  const slash = key.indexOf('/');
  const prefix = slash < 0 ? '' : key.slice(0, slash);
  const isKubernetes = /(?:^|\.)(?:kubernetes|k8s)\.io$/.test(prefix);
  if (!isKubernetes) return true;
  return (
    KUBELET_LABELS.has(key) || KUBELET_PREFIXES.some((one) => prefix === one || prefix.endsWith(`.${one}`))
  );
}
