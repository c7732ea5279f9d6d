import { type Overview, type OverviewChange, type OverviewPolicy, policyKey } from '../../apis/console.ts';
import { present } from '../../lib/sharing/present.ts';

/**
 * The Overview after a change. What did not change is the same object as before, so that it need
 * not be shown again. Throws where a change does not fit the Overview: then a whole one is needed.
 */
export function withChange(overview: Overview, change: OverviewChange): Overview {
  const { time, revision, isEnabled, remark, rollouts, problems } = change;
  return {
    ...overview,
    time,
    revision,
    ...present({ isEnabled, remark, rollouts, problems }),
    nodes: withNodes(overview, change),
    policies: withPolicies(overview, change),
  };
}

function withNodes({ nodes }: Overview, change: OverviewChange): Overview['nodes'] {
  if (change.nodes === undefined || change.nodes.length === 0) return nodes;
  const changed = [...nodes];
  for (const { index, node } of change.nodes) {
    if (nodes[index]?.name !== node.name) throw new Error(`node ${index} is not ${node.name}`);
    changed[index] = node;
  }
  return changed;
}

function withPolicies({ policies }: Overview, change: OverviewChange): Overview['policies'] {
  if (change.policies === undefined && change.order === undefined) return policies;
  const byKey = new Map<string, OverviewPolicy>();
  for (const policy of [...policies, ...(change.policies ?? [])]) byKey.set(policyKey(policy), policy);
  const order = change.order ?? policies.map(policyKey);
  if (change.order === undefined && byKey.size > order.length) throw new Error('a policy without a place');
  return order.map((key) => {
    const policy = byKey.get(key);
    if (policy === undefined) throw new Error(`no policy ${key}`);
    return policy;
  });
}
