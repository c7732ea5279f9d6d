import { type Overview, type OverviewLine, overviewPolicyKey } from '../../apis/console.ts';
import { sameItems } from '../../lib/sharing/lists.ts';

/**
 * The line that leads a reader from one overview to the next; null: nothing. Unchanged parts must
 * be the same objects.
 */
export function overviewLine(before: Overview | null, overview: Overview): OverviewLine | null {
  if (before === null) return { type: 'overview', overview };
  const names = (one: Overview): string[] => one.nodes.map(({ name }) => name);
  if (before.nodes !== overview.nodes && !sameItems(names(before), names(overview)))
    return { type: 'overview', overview };
  const { isEnabled, remark, rollouts, problems } = overview;
  const changes = {
    ...(before.isEnabled === isEnabled ? {} : { isEnabled }),
    ...(before.remark === remark ? {} : { remark }),
    ...nodeChanges(before, overview),
    ...policyChanges(before, overview),
    ...(before.rollouts === rollouts ? {} : { rollouts }),
    ...(before.problems === problems ? {} : { problems }),
  };
  if (Object.keys(changes).length === 0) return null;
  return { type: 'change', time: overview.time, revision: overview.revision, ...changes };
}

function nodeChanges(before: Overview, { nodes }: Overview) {
  const changed = nodes.flatMap((node, index) => (node === before.nodes[index] ? [] : [{ index, node }]));
  return changed.length === 0 ? {} : { nodes: changed };
}

function policyChanges(before: Overview, now: Overview) {
  if (before.policies === now.policies) return {};
  const known = new Set(before.policies);
  const policies = now.policies.filter((one) => !known.has(one));
  const [was, order] = [before.policies.map(overviewPolicyKey), now.policies.map(overviewPolicyKey)];
  return {
    ...(policies.length === 0 ? {} : { policies }),
    ...(sameItems(was, order) ? {} : { order }),
  };
}
