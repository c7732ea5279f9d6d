import type { ClusterNetworkPolicy, ClusterObjects } from '../../apis/objects.ts';
import { KUBELET_ADVICE, namesNodesByLabels } from '../../apis/validate/kubelet-labels.ts';
import { directPeers, type FamilyOf } from '../compile/peers.ts';
import { groupIndex, knownFamily } from '../index/group-index.ts';
import { rulePath } from './risks.ts';

/**
 * Warns of Allow rules of ingress whose groups, or groups in these, name Nodes by labels that a
 * kubelet may write. Of rules that do so themselves the check of the policy warns.
 */
export function groupNodeWarnings(
  { spec, apiGroup }: ClusterNetworkPolicy,
  { groups }: Pick<ClusterObjects, 'groups'>,
): string[] {
  if (spec.mode === 'Audit' || groups.length === 0) return [];
  const index = groupIndex(groups);
  const familyOf: FamilyOf = (name) => knownFamily(index, name, apiGroup);
  return (spec.ingress ?? []).flatMap(({ action, from = [] }, at) => {
    const group = from.find(
      (peer) =>
        action === 'Allow' && 'group' in peer && directPeers([peer], familyOf).some(namesNodesByLabels),
    );
    if (group === undefined || !('group' in group)) return [];
    return [
      `${rulePath('ingress', at)}: a kubelet may write the labels by which ClusterGroup ${group.group} selects Nodes to ` +
        `its own Node, so any compromised node can use the rule; ${KUBELET_ADVICE}`,
    ];
  });
}
