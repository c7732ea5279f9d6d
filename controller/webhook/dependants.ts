import type {
  ClusterGroup,
  ClusterNetworkPolicy,
  ClusterObjects,
  Guardrail,
  Tier,
} from '../../apis/objects.ts';
import { checkGroups } from '../../apis/validate/groups.ts';
import { identityOf } from '../../apis/validate/identity.ts';
import { type CrossProblem, checkTiers } from '../../apis/validate/objects.ts';
import { formatPath } from '../../apis/validate/problem.ts';
import { checkPolicyReferences, referenceCheck, referencesOf } from '../../apis/validate/references.ts';

/** The kinds of objects that refer to each other. */
export type Related = Pick<ClusterObjects, 'policies' | 'groups' | 'tiers'> &
  Partial<Pick<ClusterObjects, 'guardrails'>>;
export type RelatedObject = ClusterNetworkPolicy | ClusterGroup | Tier;

export type RelatedProblem = CrossProblem<RelatedObject | Guardrail>;

export interface Consequences {
  /** Errors of the new object that are caused by other objects. */
  readonly own: readonly RelatedProblem[];
  /** New errors of other objects. */
  readonly others: readonly RelatedProblem[];
}

/**
 * The errors that would result if the object replaced the one with its identity; null: if that were
 * deleted.
 */
export function consequences(
  related: Related,
  identity: string,
  next: RelatedObject | null,
  interfaceGroups: readonly string[],
): Consequences {
  const after: Related = {
    ...related,
    policies: replaced(related.policies, identity, 'ClusterNetworkPolicy', next),
    groups: replaced(related.groups, identity, 'ClusterGroup', next),
    tiers: replaced(related.tiers, identity, 'Tier', next),
  };
  const isPolicy = identity.startsWith('ClusterNetworkPolicy|');
  const affected = isPolicy ? after.policies.filter((policy) => policy === next) : namers(after, identity);
  const before = new Set(
    isPolicy ? [] : problemsOf(related, namers(related, identity), interfaceGroups).map(keyOf),
  );
  const found = problemsOf(after, affected, interfaceGroups);
  return {
    own: found.filter(({ object }) => object === next),
    others: found.filter((problem) => problem.object !== next && !before.has(keyOf(problem))),
  };
}

function replaced<T extends RelatedObject>(
  objects: readonly T[],
  identity: string,
  kind: T['kind'],
  next: RelatedObject | null,
): readonly T[] {
  if (!identity.startsWith(`${kind}|`)) return objects;
  const others = objects.filter((object) => identityOf(object) !== identity);
  return next === null ? others : [...others, next as T];
}

/** The problems of an object that end when a Tier or ClusterGroup is created. */
export function missingReferences(
  found: readonly RelatedProblem[],
  related: Related,
  interfaceGroups: readonly string[],
): readonly RelatedProblem[] {
  const check = referenceCheck({ ...related, interfaceGroups, invalid: NOTHING });
  return found.filter(({ object, problem }) => {
    const path = formatPath(problem.path);
    return referencesOf(object).some(
      (reference) =>
        reference.to !== 'interfaceGroup' &&
        formatPath(reference.path) === path &&
        check(reference, object.apiGroup)?.reason === 'unknown',
    );
  });
}

type Naming = ClusterNetworkPolicy | Guardrail;

/**
 * Policies, in all versions that nodes have, and Guardrails that name the Tier or ClusterGroup, or
 * a group that has it as a child.
 */
export function namers({ policies, groups, guardrails = [] }: Related, identity: string): readonly Naming[] {
  const name = identity.slice(identity.lastIndexOf('|') + 1);
  const parents = groups.filter(({ spec }) => spec.childGroups?.includes(name)).map((group) => group.name);
  const names = new Set([name, ...parents]);
  return [...policies, ...policies.flatMap(olderVersions), ...guardrails].filter((object) =>
    referencesOf(object).some((reference) => 'name' in reference && names.has(reference.name)),
  );
}

/** What nodes have of a policy in a rollout besides its present version. */
function olderVersions(policy: ClusterNetworkPolicy): readonly ClusterNetworkPolicy[] {
  const { decision, versions = [] } = policy.rollout ?? {};
  const { from, to } = decision?.policies.find(({ uid }) => uid === policy.uid) ?? {};
  return versions
    .filter(({ generation }) => generation !== policy.generation && [from, to].includes(generation))
    .map((version) => ({ ...policy, ...version }));
}

function problemsOf(
  { groups, tiers, policies: present }: Related,
  policies: readonly Naming[],
  interfaceGroups: readonly string[],
): RelatedProblem[] {
  const named = { tiers, groups, interfaceGroups, invalid: NOTHING };
  const found = checkPolicyReferences(policies, named).map((one): RelatedProblem => {
    const { object, problem } = one;
    if (object.kind === 'Guardrail' || present.includes(object)) return one;
    const message = `${problem.message} (in generation ${object.generation}, which nodes still have)`;
    return { object, problem: { ...problem, message } };
  });
  return [...checkTiers(tiers), ...checkGroups(groups), ...found];
}

const NOTHING: ReadonlySet<string> = new Set();

function keyOf({ object, problem }: RelatedProblem): string {
  return `${identityOf(object)} ${formatPath(problem.path)} ${problem.message}`;
}
