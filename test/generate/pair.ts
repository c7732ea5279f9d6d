import fc from 'fast-check';
import { type GroupManifest, type Manifest, policyApiVersions } from '../oracle/manifest.ts';
import { ALL_FEATURES, fields, maybe } from './choice.ts';
import { groups, memberKinds, union } from './group.ts';
import { customPriority, customTierNames, policies } from './policy.ts';

const [OURS = ''] = policyApiVersions;

type Spec = Readonly<Record<string, unknown>>;

/** Two valid specs of one object of nodewall.io: that it has, and that it is changed to. */
export interface Pair {
  readonly kind: 'ClusterNetworkPolicy' | 'ClusterGroup' | 'Tier';
  readonly before: Spec;
  readonly after: Spec;
}

/** Pairs, and the objects that they name. */
export interface PairsOfObjects {
  readonly cast: readonly (Manifest & { readonly spec: object })[];
  readonly pairs: readonly Pair[];
}

/**
 * So many pairs of each kind. What can't be changed in a Tier is the same in both, and in all draws
 * for the Tiers that are named.
 */
export function pairsOfObjects(count: number): fc.Arbitrary<PairsOfObjects> {
  const named = customTierNames.map((name, i): Manifest & { spec: object } => {
    return { apiVersion: OURS, kind: 'Tier', metadata: { name }, spec: { priority: i + 1 } };
  });
  const free = customPriority().filter((priority) => priority > named.length);
  return groups().chain((drawn) => {
    const known = ours(drawn);
    return fc
      .record({
        policies: policySpecs(2 * count, known),
        groups: fc.array(groupPair(known), { minLength: count, maxLength: count }),
        tiers: fc
          .uniqueArray(free, { minLength: count, maxLength: count })
          .chain((priorities) => fc.tuple(...priorities.map(tierPair))),
      })
      .map(({ policies: specs, groups: ofGroups, tiers }) => {
        const ofPolicies = specs.slice(0, count).map((before, i): Pair => {
          return { kind: 'ClusterNetworkPolicy', before, after: specs[count + i] ?? before };
        });
        return { cast: [...named, ...known], pairs: [...ofPolicies, ...ofGroups, ...tiers] };
      });
  });
}

/** Antrea's are ours too: they have less. */
function policySpecs(count: number, known: GroupManifest[]): fc.Arbitrary<Spec[]> {
  const interfaceGroups = ['pods', 'clusternet', 8, 20];
  const scope = { features: new Set(ALL_FEATURES), plan: undefined, groups: known, interfaceGroups };
  // At least half of what is asked for.
  return policies(2 * count, scope).map((drawn) => drawn.policies.map(({ spec }) => spec).slice(0, count));
}

/** As objects of our own API group, one of each name. */
function ours<T extends Manifest>(objects: readonly T[]): T[] {
  const byName = new Map(objects.map((one) => [one.metadata.name, { ...one, apiVersion: OURS }]));
  return [...byName.values()];
}

/** Of one kind of members as often as not: so that selectors change, and don't only come and go. */
function groupPair(known: GroupManifest[]): fc.Arbitrary<Pair> {
  const flat = known.filter(({ spec }) => spec.childGroups === undefined);
  const kinds = [...memberKinds().map(([, spec]) => spec), union(flat)];
  const alike = fc.constantFrom(...kinds).chain((kind) => fc.tuple(kind, kind));
  const any = fc.tuple(fc.oneof(...kinds), fc.oneof(...kinds));
  return fc.oneof(alike, any).map(([before, after]) => ({ kind: 'ClusterGroup', before, after }));
}

function tierPair(priority: number): fc.Arbitrary<Pair> {
  const spec = fields<{ priority: number; description?: string }>({
    priority: fc.constant(priority),
    description: maybe(60, fc.constantFrom('', 'a', 'b: c')),
  });
  return fc.tuple(spec, spec).map(([before, after]) => ({ kind: 'Tier', before, after }));
}
