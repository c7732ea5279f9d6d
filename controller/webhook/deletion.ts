import type { Definition } from '../../apis/last-definition.ts';
import type {
  ClusterGroup,
  ClusterNetworkPolicy,
  ClusterObjects,
  Guardrail,
  Tier,
} from '../../apis/objects.ts';
import { checkGroups, groupLookup } from '../../apis/validate/groups.ts';
import { identityOf } from '../../apis/validate/metadata.ts';
import { type CrossProblem, formatPath } from '../../apis/validate/problem.ts';
import { checkPolicyReferences, referenceCheck, referencesOf } from '../../apis/validate/references.ts';
import { checkTiers } from '../../apis/validate/tier.ts';
import { olderVersions } from '../rollout/order.ts';
import type { Deletion } from '../status/definition-keeper.ts';

/** The object that is to be deleted. */
interface Deleted extends Pick<Deletion, 'kind' | 'name' | 'uid'> {
  readonly identity: string;
  /** As the API server has it, where valid: `related` may lack an edit just before. */
  readonly latest: Definition | null;
}

/**
 * The policies and Guardrails in force that would lose the object, or a group that has it as a
 * child, and what each would lose.
 *
 * @param problems of other objects without it
 */
export function deletionLosses(
  { identity, kind, name, uid, latest }: Deleted,
  related: Related,
  problems: readonly RelatedProblem[],
): Deletion {
  const { groups, tiers } = related;
  const all: readonly Definition[] = [...tiers, ...groups];
  const own = all.find((one) => identityOf(one) === identity);
  if (own === undefined) return { kind, name, uid, objects: [], users: [] };
  const parents = new Set(problems.flatMap(({ object }) => (object.kind === 'ClusterGroup' ? [object] : [])));
  const indexed = [own, ...parents];
  const usesOf = usedBy(related, identity, parents);
  const users = new Map<string, { readonly user: Namer; readonly uses: Set<number> }>();
  for (const user of namers(related, identity)) {
    const found = usesOf(user).map((object) => indexed.indexOf(object));
    if (found.length === 0) continue;
    const known = users.get(identityOf(user)) ?? { user, uses: new Set<number>() };
    users.set(identityOf(user), known);
    for (const index of [0, ...found]) known.uses.add(index);
  }
  const inForce = new Map(
    [...related.policies, ...(related.guardrails ?? [])].map((one) => [identityOf(one), one]),
  );
  return {
    kind,
    name,
    uid,
    objects: [latest ?? own, ...parents],
    users: [...users].map(([key, { user, uses }]) => ({
      kind: user.kind,
      apiGroup: user.apiGroup,
      name: user.name,
      uid: user.uid,
      // An older version in a rollout is stored beside the present one.
      generation: (inForce.get(key) ?? user).generation,
      uses: [...uses],
    })),
  };
}

/** Which of the object and its parents a user names. */
function usedBy(
  related: Related,
  identity: string,
  parents: ReadonlySet<ClusterGroup>,
): (user: Namer) => readonly Definition[] {
  const { groups, tiers } = related;
  const isOwn = (one: Definition): boolean => identityOf(one) === identity;
  const own = [...tiers, ...groups].find(isOwn);
  const left = {
    invalid: NOTHING,
    interfaceGroups: [],
    tiers: tiers.filter((one) => !isOwn(one)),
    groups: groups.filter((one) => !isOwn(one)),
  };
  const lookup = groupLookup(groups);
  const check = referenceCheck(left);
  return (user) =>
    referencesOf(user).flatMap((reference): readonly Definition[] => {
      if (!('name' in reference) || reference.to === 'interfaceGroup') return [];
      const isOfKind = (reference.to === 'Tier') === (own?.kind === 'Tier');
      const isNamed = isOfKind && reference.name === own?.name;
      if (isNamed && check(reference, user.apiGroup)?.reason === 'unknown') return [own];
      if (reference.to === 'Tier') return [];
      const group = lookup(user.apiGroup, reference.name);
      return group !== undefined && parents.has(group) ? [group] : [];
    });
}

const NOTHING: ReadonlySet<string> = new Set();

/** The kinds of objects that refer to each other. */
type Related = Pick<ClusterObjects, 'policies' | 'groups' | 'tiers'> &
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
  named: Naming,
): Consequences {
  const after: Related = {
    ...related,
    policies: replaced(related.policies, identity, 'ClusterNetworkPolicy', next),
    groups: replaced(related.groups, identity, 'ClusterGroup', next),
    tiers: replaced(related.tiers, identity, 'Tier', next),
  };
  const isPolicy = identity.startsWith('ClusterNetworkPolicy|');
  const affected = isPolicy ? after.policies.filter((policy) => policy === next) : namers(after, identity);
  const before = new Set(isPolicy ? [] : problemsOf(related, namers(related, identity), named).map(keyOf));
  const found = problemsOf(after, affected, named);
  return {
    own: found.filter(({ object }) => object === next),
    // A policy is named by no object.
    others: isPolicy ? [] : found.filter((problem) => problem.object !== next && !before.has(keyOf(problem))),
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

/** Names that objects may use besides tiers and groups in force. */
interface Naming {
  readonly interfaceGroups: readonly string[];
  /** Identities of the groups that wait for a child group. */
  readonly waiting: ReadonlySet<string>;
}

type Namer = ClusterNetworkPolicy | Guardrail;

/**
 * Policies, in all versions that nodes have, and Guardrails that name the Tier or ClusterGroup, or
 * a group that has it as a child.
 */
function namers({ policies, groups, guardrails = [] }: Related, identity: string): readonly Namer[] {
  const name = identity.slice(identity.lastIndexOf('|') + 1);
  const parents = groups.filter(({ spec }) => spec.childGroups?.includes(name)).map((group) => group.name);
  const names = new Set([name, ...parents]);
  return [...policies, ...policies.flatMap(olderVersions), ...guardrails].filter((object) =>
    referencesOf(object).some((reference) => 'name' in reference && names.has(reference.name)),
  );
}

function problemsOf(
  { groups, tiers, policies: present }: Related,
  policies: readonly Namer[],
  { interfaceGroups, waiting }: Naming,
): RelatedProblem[] {
  const named = { tiers, groups, interfaceGroups, waiting, invalid: waiting };
  const found = checkPolicyReferences(policies, named).map((one): RelatedProblem => {
    const { object, problem } = one;
    if (object.kind === 'Guardrail' || present.includes(object)) return one;
    const message = `${problem.message} (in generation ${object.generation}, which nodes still have)`;
    return { object, problem: { ...problem, message } };
  });
  return [...checkTiers(tiers), ...checkGroups(groups, named), ...found];
}

function keyOf({ object, problem }: RelatedProblem): string {
  return `${identityOf(object)} ${formatPath(problem.path)} ${problem.message}`;
}

/** Policies that one warning names. */
const MOST_NAMED = 5;

/**
 * The warning of an edit of a group that policies with a rollout name: it is in no version of them,
 * so no step holds it back.
 */
export function unstagedWarnings(group: ClusterGroup, related: Related): readonly string[] {
  const names = namers(related, identityOf(group)).flatMap((object) =>
    object.kind === 'ClusterNetworkPolicy' && object.rollout !== undefined ? object.name : [],
  );
  const staged = [...new Set(names)].sort();
  if (staged.length === 0) return [];
  const others = staged.length - MOST_NAMED;
  const named = staged.slice(0, MOST_NAMED).join(', ') + (others > 0 ? ` and ${others} more` : '');
  return [
    `this edit is in force on all nodes at once: groups are not part of a rollout, and ${named} ${staged.length === 1 ? 'has' : 'have'} one`,
  ];
}
