import type { NamespaceLimits } from '../../../apis/egress/config.ts';
import type { EgressPolicy } from '../../../apis/egress/objects.ts';
import { identityOf } from '../../../apis/validate/metadata.ts';
import type { CrossProblem, ObjectProblem } from '../../../apis/validate/problem.ts';
import { addToList, compareText } from '../../../lib/sharing/lists.ts';

/**
 * The EgressPolicies that are beyond the limits of their namespace, so that whoever may write them
 * in one namespace costs the others nothing. ClusterEgressPolicies have no limit.
 *
 * @param lists those of an earlier list have what they need before those of a later one; in a list
 *   the policies that were created first do
 */
export function beyondLimits(
  lists: readonly (readonly EgressPolicy[])[],
  limits: NamespaceLimits,
): CrossProblem<EgressPolicy>[] {
  const totals = new Map<string, NamespaceLimits>();
  return lists.flatMap((policies) => {
    const own = new Map<string, EgressPolicy[]>();
    for (const policy of policies) if (policy.namespace !== '') addToList(own, policy.namespace, policy);
    return [...own].flatMap(([namespace, there]) =>
      there.sort(compareAge).flatMap((object) => {
        const { policies: count, networks } = totals.get(namespace) ?? NONE;
        const total = { policies: count + 1, networks: networks + networksOf(object) };
        const problem = problemOf(object, total, limits);
        if (problem !== null) return [{ object, problem }];
        totals.set(namespace, total);
        return [];
      }),
    );
  });
}

/**
 * The problem of one policy that is written beside others; null: it is within the limits, or has no
 * more than before.
 */
export function limitProblem(
  policy: EgressPolicy,
  others: readonly EgressPolicy[],
  limits: NamespaceLimits,
): CrossProblem<EgressPolicy> | null {
  if (policy.namespace === '') return null;
  const identity = identityOf(policy);
  let [policies, networks] = [1, networksOf(policy)];
  for (const other of others) {
    if (other.namespace !== policy.namespace) continue;
    if (identityOf(other) !== identity) {
      policies++;
      networks += networksOf(other);
    } else if (networksOf(policy) <= networksOf(other)) return null;
  }
  const problem = problemOf(policy, { policies, networks }, limits);
  return problem === null ? null : { object: policy, problem };
}

const NONE: NamespaceLimits = { policies: 0, networks: 0 };

function networksOf({ spec: { to = [], except } }: EgressPolicy): number {
  return Math.max(1, to.length + except.length);
}

function compareAge(a: EgressPolicy, b: EgressPolicy): number {
  return compareText(a.created ?? '', b.created ?? '') || compareText(identityOf(a), identityOf(b));
}

function problemOf(
  policy: EgressPolicy,
  total: NamespaceLimits,
  limits: NamespaceLimits,
): ObjectProblem | null {
  const whose = `EgressPolicies of namespace ${policy.namespace}`;
  const otherwise = 'or ask an administrator to raise egress.namespaceLimits';
  if (total.policies > limits.policies) {
    const message = `there are more than ${limits.policies} ${whose}, the limit; delete or join some, ${otherwise}`;
    return { severity: 'error', path: [], message };
  }
  if (total.networks <= limits.networks) return null;
  const message = `${whose} have more than ${limits.networks} networks with it, the limit; name fewer and larger ones, ${otherwise}`;
  return { severity: 'error', path: [], message };
}
