import { DEFAULT_CONFIG } from '../config.ts';
import {
  API_GROUPS,
  type ApiGroup,
  type ClusterGroup,
  type ClusterNetworkPolicy,
  type ClusterObject,
  type Guardrail,
  type NamespacedName,
  type Tier,
} from '../objects.ts';
import { BUILT_IN_TIERS, isBuiltInTier } from '../order.ts';
import { asFields, asList, type FieldMap } from '../schema/json-schema.ts';
import { egressPaths } from './egress/kinds.ts';
import { type GroupLookup, groupLookup, membersOf, type UnusableGroups, unknownGroup } from './groups.ts';
import { REQUIRED_LISTS } from './guardrail.ts';
import { identityOf } from './metadata.ts';
import { describeUnknown, sortedNames } from './nearest.ts';
import { PEER_FIELD } from './peer.ts';
import { type CrossProblem, type FieldPath, show } from './problem.ts';

/** A field that refers to something outside of its object. */
export type Reference =
  | NameReference
  | { readonly to: 'Service'; readonly service: NamespacedName; readonly path: FieldPath }
  /** The priority of a Tier, which no other Tier may have. */
  | { readonly to: 'Tiers'; readonly path: FieldPath };

export interface NameReference {
  readonly to: 'Tier' | 'ClusterGroup' | 'Nodes' | 'interfaceGroup';
  readonly name: string;
  readonly path: FieldPath;
}

/**
 * All references of an object, in the order of its fields. `Nodes` is a ClusterGroup that must
 * select Nodes.
 */
export function referencesOf(object: ClusterObject): readonly Reference[] {
  switch (object.kind) {
    case 'Tier':
      return [{ to: 'Tiers', path: ['spec', 'priority'] }];
    case 'ClusterGroup':
    case 'ClusterNetworkPolicy':
    case 'Guardrail':
      return readableReferences(object.kind, object.spec);
    case 'Node':
    case 'Namespace':
    case 'Pod':
    case 'Service':
    case 'EndpointSlice':
    case 'EgressGateway':
    case 'EgressPolicy':
    case 'ClusterEgressPolicy':
    case 'ServiceCIDR':
    case 'IPPool':
      return NONE;
    default:
      return object satisfies never;
  }
}

const NONE: readonly Reference[] = [];

/** The fields of an object at which problems that other objects cause are reported. */
export function crossPaths(object: ClusterObject): readonly FieldPath[] {
  switch (object.kind) {
    case 'EgressGateway':
    case 'EgressPolicy':
    case 'ClusterEgressPolicy':
      return egressPaths(object);
    default:
      return referencesOf(object).map(({ path }) => path);
  }
}

/** As referencesOf, of a spec that may be invalid: fields of the wrong type are passed over. */
export function readableReferences(kind: string, spec: unknown): readonly Reference[] {
  if (kind === 'ClusterGroup') return groupReferences(asFields(spec) ?? {});
  if (kind === 'Guardrail') return guardrailReferences(asFields(spec) ?? {});
  return kind === 'ClusterNetworkPolicy' ? policyReferences(asFields(spec) ?? {}) : NONE;
}

function groupReferences({ childGroups, serviceReference }: FieldMap): Reference[] {
  return [
    ...asList(childGroups).flatMap((name, index) =>
      nameReference('ClusterGroup', name, ['spec', 'childGroups', index]),
    ),
    ...serviceReferenceAt(serviceReference, ['spec', 'serviceReference']),
  ];
}

function policyReferences(spec: FieldMap): Reference[] {
  const references = [
    ...nameReference('Tier', spec.tier, ['spec', 'tier']),
    ...targetReferences(spec.appliedTo, ['spec']),
  ];
  for (const direction of ['ingress', 'egress'] as const) {
    const peers = PEER_FIELD[direction];
    for (const [index, item] of asList(spec[direction]).entries()) {
      const rule = asFields(item) ?? {};
      const path = ['spec', direction, index];
      references.push(...peerReferences(rule[peers], [...path, peers]));
      for (const [at, service] of asList(rule.toServices).entries()) {
        references.push(...serviceReferenceAt(service, [...path, 'toServices', at]));
      }
      references.push(...targetReferences(rule.appliedTo, path));
    }
  }
  return references;
}

function guardrailReferences(spec: FieldMap): Reference[] {
  return REQUIRED_LISTS.flatMap((list) =>
    asList(spec[list]).flatMap((item, index) =>
      Object.values(PEER_FIELD).flatMap((field) =>
        peerReferences(asFields(item)?.[field], ['spec', list, index, field]),
      ),
    ),
  );
}

function targetReferences(items: unknown, path: FieldPath): Reference[] {
  return asList(items).flatMap((item, index) =>
    nameReference('Nodes', asFields(item)?.group, [...path, 'appliedTo', index, 'group']),
  );
}

function peerReferences(peers: unknown, path: FieldPath): Reference[] {
  return asList(peers).flatMap((item, index) => {
    const { group, interfaceGroup } = asFields(item) ?? {};
    return [
      ...nameReference('ClusterGroup', group, [...path, index, 'group']),
      ...nameReference('interfaceGroup', interfaceGroup, [...path, index, 'interfaceGroup']),
    ];
  });
}

function nameReference(to: NameReference['to'], name: unknown, path: FieldPath): NameReference[] {
  return typeof name === 'string' && name !== '' ? [{ to, name, path }] : [];
}

function serviceReferenceAt(raw: unknown, path: FieldPath): Reference[] {
  const { name, namespace } = asFields(raw) ?? {};
  if (typeof name !== 'string' || typeof namespace !== 'string') return [];
  return [{ to: 'Service', service: { name, namespace }, path }];
}

/** The names that policies can refer to. */
export interface Named extends UnusableGroups {
  readonly tiers: readonly Tier[];
  readonly groups: readonly ClusterGroup[];
  /** Names of link groups in the agent's configuration; absent: those that always exist. */
  readonly interfaceGroups?: readonly string[] | undefined;
  /** Identities of groups and tiers that exist and that nothing can use. */
  readonly invalid: ReadonlySet<string>;
}

/**
 * The problem with a reference; `unknown`: it ends when the object is created, or what that waits
 * for; of `invalid`, the object exists and was rejected.
 */
interface ReferenceProblem {
  readonly reason: 'unknown' | 'invalid' | 'unsuitable';
  readonly message: string;
}

/** Finds what is wrong with a reference of a policy or a group of the API group. */
type ReferenceCheck = (reference: Reference, apiGroup: ApiGroup) => ReferenceProblem | null;

export function referenceCheck(named: Named): ReferenceCheck {
  const lookup = groupLookup(named.groups, named.invalid);
  const knowsTier = tierLookup(named);
  let groupNames: readonly string[] | null = null;
  const names = (): readonly string[] => {
    groupNames ??= sortedNames(named.groups);
    return groupNames;
  };
  const interfaceGroups = named.interfaceGroups ?? Object.keys(DEFAULT_CONFIG.interfaceGroups);
  return (reference, apiGroup) => {
    switch (reference.to) {
      case 'Tier':
        return isBuiltInTier(reference.name) || knowsTier(apiGroup, reference.name)
          ? null
          : tierProblem(reference.name, named);
      case 'ClusterGroup':
      case 'Nodes': {
        const { to, name } = reference;
        const group = lookup(apiGroup, name);
        if (group !== undefined) return to === 'Nodes' ? targetProblem(group, lookup) : null;
        return unknownGroup(name, names, named);
      }
      case 'interfaceGroup':
        return interfaceGroups.includes(reference.name)
          ? null
          : { reason: 'unsuitable', message: describeInterfaceGroup(reference.name, interfaceGroups) };
      case 'Service':
      case 'Tiers':
        return null;
      default:
        return reference satisfies never;
    }
  };
}

/**
 * Reports policies and Guardrails that refer to something that does not exist, or that are applied
 * to a group of something else than Nodes.
 */
export function checkPolicyReferences<T extends ClusterNetworkPolicy | Guardrail>(
  policies: readonly T[],
  named: Named,
): CrossProblem<T>[] {
  const check = referenceCheck(named);
  return policies.flatMap((policy) =>
    referencesOf(policy).flatMap((reference) => {
      const problem = check(reference, policy.apiGroup);
      if (problem === null) return [];
      const { message, reason } = problem;
      const found = { severity: 'error', path: reference.path, message } as const;
      return [{ object: policy, problem: reason === 'unknown' ? { ...found, isMissing: true } : found }];
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

function tierProblem(name: string, { tiers, invalid }: Named): ReferenceProblem {
  if (API_GROUPS.some((apiGroup) => invalid.has(tierIdentity(apiGroup, name)))) {
    return { reason: 'invalid', message: `Tier ${show(name)} is itself invalid; correct it first` };
  }
  const builtIn = Object.keys(BUILT_IN_TIERS);
  const known = sortedNames([...builtIn.map((tier) => ({ name: tier })), ...tiers]);
  const hint = describeUnknown('Tier', name, { known });
  const message = hint.includes('did you mean')
    ? hint
    : `there is no Tier ${show(name)}; built in: ${builtIn.join(', ')}`;
  return { reason: 'unknown', message };
}

function describeInterfaceGroup(name: string, known: readonly string[]): string {
  const hint = describeUnknown('interface group', name, { known: known.toSorted(), label: 'known:' });
  return `${hint}${hint.endsWith('?') ? ` Known: ${known.join(', ')};` : ';'} names are given in the agent's configuration (--config FILE)`;
}

function targetProblem(group: ClusterGroup, lookup: GroupLookup): ReferenceProblem | null {
  const members = membersOf(group, lookup);
  if (members === 'Nodes') return null;
  const what = members === null ? 'does not select Nodes only' : `stands for ${members}`;
  const message = `ClusterGroup ${show(group.name)} ${what}; appliedTo needs a group with a nodeSelector, or with childGroups that all have one`;
  return { reason: 'unsuitable', message };
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
