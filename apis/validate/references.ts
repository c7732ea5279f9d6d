import { DEFAULT_CONFIG } from '../config.ts';
import {
  API_GROUPS,
  type ApiGroup,
  type AppliedTo,
  type ClusterGroup,
  type ClusterNetworkPolicy,
  type ClusterObject,
  type NamespacedName,
  type NetworkPolicyPeer,
  type Tier,
} from '../objects.ts';
import { BUILT_IN_TIERS, isBuiltInTier } from './builtin-tiers.ts';
import { describeUnknownGroup, type GroupLookup, groupLookup, membersOf } from './groups.ts';
import { identityOf } from './identity.ts';
import type { CrossProblem } from './objects.ts';
import { type FieldPath, show } from './problem.ts';
import { describeUnknown } from './unknown.ts';

/** A field that refers to something outside of its object. */
export type Reference = { readonly path: FieldPath } & (
  | { readonly to: 'Tier' | 'ClusterGroup' | 'Nodes' | 'interfaceGroup'; readonly name: string }
  | { readonly to: 'Service'; readonly service: NamespacedName }
  /** The priority of a Tier, which no other Tier may have. */
  | { readonly to: 'Tiers' }
);

/**
 * All references of an object, in the order of its fields. `Nodes` is a ClusterGroup that must
 * select Nodes.
 */
export function referencesOf(object: ClusterObject): readonly Reference[] {
  switch (object.kind) {
    case 'Tier':
      return [{ to: 'Tiers', path: ['spec', 'priority'] }];
    case 'ClusterGroup':
      return groupReferences(object);
    case 'ClusterNetworkPolicy':
      return policyReferences(object);
    case 'Node':
    case 'Namespace':
    case 'Pod':
    case 'Service':
    case 'EndpointSlice':
      return NONE;
    default:
      return object satisfies never;
  }
}

const NONE: readonly Reference[] = [];

function groupReferences({ spec }: ClusterGroup): Reference[] {
  const { childGroups = [], serviceReference: service } = spec;
  const children = childGroups.map((name, index): Reference => {
    return { to: 'ClusterGroup', name, path: ['spec', 'childGroups', index] };
  });
  if (service === undefined) return children;
  return [...children, { to: 'Service', service, path: ['spec', 'serviceReference'] }];
}

function policyReferences({ spec }: ClusterNetworkPolicy): Reference[] {
  const { tier } = spec;
  const references: Reference[] =
    tier === undefined ? [] : [{ to: 'Tier', name: tier, path: ['spec', 'tier'] }];
  references.push(...targetReferences(spec.appliedTo, ['spec']));
  for (const direction of ['ingress', 'egress'] as const) {
    for (const [index, rule] of (spec[direction] ?? []).entries()) {
      const path = ['spec', direction, index];
      references.push(
        ...peerReferences(rule.from, [...path, 'from']),
        ...peerReferences(rule.to, [...path, 'to']),
      );
      for (const [at, service] of (rule.toServices ?? []).entries()) {
        references.push({ to: 'Service', service, path: [...path, 'toServices', at] });
      }
      references.push(...targetReferences(rule.appliedTo, path));
    }
  }
  return references;
}

function targetReferences(items: readonly AppliedTo[] = [], path: FieldPath): Reference[] {
  return items.flatMap(({ group: name }, index): Reference[] => {
    return name === undefined ? [] : [{ to: 'Nodes', name, path: [...path, 'appliedTo', index, 'group'] }];
  });
}

function peerReferences(peers: readonly NetworkPolicyPeer[] = [], path: FieldPath): Reference[] {
  return peers.flatMap(({ group, interfaceGroup: name }, index): Reference[] => {
    if (group !== undefined) return [{ to: 'ClusterGroup', name: group, path: [...path, index, 'group'] }];
    if (typeof name !== 'string') return [];
    return [{ to: 'interfaceGroup', name, path: [...path, index, 'interfaceGroup'] }];
  });
}

/** The names that policies can refer to. */
export interface Named {
  readonly tiers: readonly Tier[];
  readonly groups: readonly ClusterGroup[];
  /** Names of link groups in the agent's configuration; absent: those that always exist. */
  readonly interfaceGroups?: readonly string[] | undefined;
  /** Identities of groups and tiers that exist and were rejected. */
  readonly invalid: ReadonlySet<string>;
}

/**
 * Reports policies that refer to something that does not exist, or that are applied to a group of
 * something else than Nodes.
 */
export function checkPolicyReferences(
  policies: readonly ClusterNetworkPolicy[],
  named: Named,
): CrossProblem<ClusterNetworkPolicy>[] {
  const lookup = groupLookup(named.groups, named.invalid);
  const knowsTier = tierLookup(named);
  const interfaceGroups = named.interfaceGroups ?? Object.keys(DEFAULT_CONFIG.interfaceGroups);
  const messageOf = (reference: Reference, policy: ClusterNetworkPolicy): string | null => {
    switch (reference.to) {
      case 'Tier':
        return isBuiltInTier(reference.name) || knowsTier(policy.apiGroup, reference.name)
          ? null
          : describeTier(reference.name, named);
      case 'ClusterGroup':
      case 'Nodes':
        return groupMessage(reference, policy, named, lookup);
      case 'interfaceGroup':
        return interfaceGroups.includes(reference.name)
          ? null
          : describeInterfaceGroup(reference.name, interfaceGroups);
      case 'Service':
      case 'Tiers':
        return null;
      default:
        return reference satisfies never;
    }
  };
  return policies.flatMap((policy) =>
    referencesOf(policy).flatMap((reference) => {
      const message = messageOf(reference, policy);
      if (message === null) return [];
      return [{ object: policy, problem: { severity: 'error', path: reference.path, message } }];
    }),
  );
}

/** The identity of a Tier, which need not exist. */
export function tierIdentity(apiGroup: ApiGroup, name: string): string {
  return identityOf({ kind: 'Tier', apiGroup, name, priority: 0 });
}

/**
 * A Tier of the other API group does not stand in for one of the policy's own group that exists and
 * was rejected.
 */
function tierLookup({ tiers, invalid }: Named): (apiGroup: ApiGroup, name: string) => boolean {
  const known = new Set(tiers.map(identityOf));
  const names = new Set(tiers.map(({ name }) => name));
  return (apiGroup, name) => {
    const own = tierIdentity(apiGroup, name);
    return known.has(own) || (names.has(name) && !invalid.has(own));
  };
}

function describeTier(name: string, { tiers, invalid }: Named): string {
  if (API_GROUPS.some((apiGroup) => invalid.has(tierIdentity(apiGroup, name)))) {
    return `Tier ${show(name)} is itself invalid; correct it first`;
  }
  const builtIn = Object.keys(BUILT_IN_TIERS);
  const hint = describeUnknown('Tier', name, { known: [...builtIn, ...tiers.map((tier) => tier.name)] });
  if (hint.includes('did you mean')) return hint;
  return `there is no Tier ${show(name)}; built in: ${builtIn.join(', ')}`;
}

function describeInterfaceGroup(name: string, known: readonly string[]): string {
  const hint = describeUnknown('interface group', name, { known, label: 'known:' });
  return `${hint}${hint.endsWith('?') ? ` Known: ${known.join(', ')};` : ';'} names are given in the agent's configuration (--config FILE)`;
}

function groupMessage(
  { to, name }: Reference & { readonly name: string },
  { apiGroup }: ClusterNetworkPolicy,
  { groups, invalid }: Named,
  lookup: GroupLookup,
): string | null {
  const group = lookup(apiGroup, name);
  if (group === undefined) return describeUnknownGroup(name, groups, invalid);
  if (to !== 'Nodes') return null;
  const members = membersOf(group, lookup);
  if (members === 'Nodes') return null;
  const what = members === null ? 'does not select Nodes only' : `stands for ${members}`;
  return `ClusterGroup ${show(name)} ${what}; appliedTo needs a group with a nodeSelector, or with childGroups that all have one`;
}

/**
 * Warns about references to Services that do not exist: they match nothing. `hasService` takes
 * `namespace/name`.
 */
export function checkServiceReferences<T extends ClusterGroup | ClusterNetworkPolicy>(
  objects: readonly T[],
  hasService: (name: string) => boolean,
): CrossProblem<T>[] {
  return objects.flatMap((object) =>
    referencesOf(object).flatMap((reference): CrossProblem<T>[] => {
      if (reference.to !== 'Service') return [];
      const name = `${reference.service.namespace}/${reference.service.name}`;
      if (hasService(name)) return [];
      const message = `there is no Service ${name}; until it exists, this matches nothing`;
      return [{ object, problem: { severity: 'warning', path: reference.path, message } }];
    }),
  );
}
