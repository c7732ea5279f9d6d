import type { Definition } from '../../apis/last-definition.ts';
import type { ClusterGroup, ClusterNetworkPolicy, Guardrail } from '../../apis/objects.ts';
import { groupLookup } from '../../apis/validate/groups.ts';
import { identityOf } from '../../apis/validate/metadata.ts';
import { referenceCheck, referencesOf } from '../../apis/validate/references.ts';
import type { Deletion } from '../status/definition-keeper.ts';
import { namers, type Related, type RelatedProblem } from './dependants.ts';

/** The object that is to be deleted. */
export interface Deleted extends Pick<Deletion, 'kind' | 'name' | 'uid'> {
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

type Namer = ClusterNetworkPolicy | Guardrail;

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
