import fc from 'fast-check';
import {
  type AppliedToManifest,
  type PolicyManifest,
  policyApiVersions,
  type RuleManifest,
  type TierManifest,
} from '../oracle/manifest.ts';
import { fields, maybe, oneOf, weighted, withoutUndefined } from './choice.ts';
import { nodeGroupNames } from './group.ts';
import { rule } from './rule.ts';
import { nodeLabels, type RuleContext, type Scope, selectorOver } from './selector.ts';

/** Policies with the Tiers they name. */
export interface PolicyObjects {
  tiers: TierManifest[];
  policies: PolicyManifest[];
}

/** Names whose order by code point differs from a dictionary's. */
const names = ['a', 'a-b', 'a.b', 'a0', 'aa', 'b', 'b-1', 'b-10', 'b-2'];

/** Up to `size` valid policies of both API groups, with custom Tiers. */
export function policies(size: number, scope: Scope): fc.Arbitrary<PolicyObjects> {
  return tiers().chain((found) => {
    const known = [...builtInTierNames, ...found.map((tier) => tier.metadata.name)];
    // A fifth, so that a Pass leads somewhere.
    const baseline: [number, fc.Arbitrary<string>][] = [[3, oneOf(baselineNames)]];
    const tier = weighted([9, oneOf(known)], ...(scope.features.has('pass') ? baseline : []));
    const list = fc.uniqueArray(policy(size, tier, scope), {
      minLength: Math.ceil(size / 2),
      maxLength: size,
      selector: (item) => `${item.apiVersion} ${item.metadata.name}`,
    });
    return fc.record({ tiers: fc.constant(found), policies: list });
  });
}

function policy(size: number, tier: fc.Arbitrary<string>, scope: Scope): fc.Arbitrary<PolicyManifest> {
  const numbered = fc.nat({ max: size * 20 }).map((number) => `policy-${number}`);
  return oneOf(policyApiVersions).chain((apiVersion) => {
    const isAntrea = apiVersion !== policyApiVersions[0];
    const draft = fc.record({
      name: size > names.length ? weighted([1, oneOf(names)], [4, numbered]) : oneOf(names),
      tier: maybe(60, tier),
      priority: priority(),
      plus: isAntrea ? fc.constant<PlusFields>({}) : plusFields(scope),
      ingress: ruleList({ direction: 'ingress', isAntrea, scope }),
      egress: ruleList({ direction: 'egress', isAntrea, scope }),
      applied: applied(scope),
    });
    return draft.map(({ name, priority: number, plus, applied: place, ...drawn }) => {
      const rules = {
        ingress: withoutPassIn(drawn.tier, drawn.ingress),
        egress: plus.traffic === 'NodePort' ? undefined : withoutPassIn(drawn.tier, drawn.egress),
      };
      const spec = { tier: drawn.tier, priority: number, ...plus, ...place(rules) };
      const metadata = { name };
      return {
        apiVersion,
        kind: 'ClusterNetworkPolicy',
        metadata,
        spec: withoutUndefined(spec),
      } as PolicyManifest;
    });
  });
}

/** Ties as often as not; a fraction and the limits rarely. */
function priority(): fc.Arbitrary<number> {
  return weighted(
    [8, fc.constantFrom(1, 5, 5, 10)],
    [4, fc.integer({ min: 1, max: 10000 })],
    [1, fc.constantFrom(1.5, 5.5, 10000)],
  );
}

type PlusFields = Pick<PolicyManifest['spec'], 'mode' | 'traffic' | 'established'>;

/** Fields that only our own API group has; their defaults are spelt out now and then. */
function plusFields({ features }: Scope): fc.Arbitrary<PlusFields> {
  return fields<PlusFields>({
    mode: weighted<string | undefined>(
      [8, fc.constantFrom(undefined, undefined, undefined, 'Enforce')],
      [features.has('audit') ? 2 : 0, fc.constant('Audit')],
    ),
    traffic: weighted<string | undefined>(
      [8, fc.constantFrom(undefined, undefined, undefined, 'Host')],
      [features.has('nodePort') ? 2 : 0, fc.constant('NodePort')],
    ),
    established: fc.constantFrom(undefined, undefined, undefined, 'Keep', 'Recheck'),
  });
}

/** In the baseline tier there is nothing left to pass to, so a Pass would be invalid. */
function withoutPassIn(tier: string | undefined, rules: RuleManifest[] | undefined) {
  if (!baselineNames.includes(tier ?? '')) return rules;
  return rules?.map((drawn) => (drawn.action === 'Pass' ? { ...drawn, action: 'Drop' } : drawn));
}

/** Rules with names by position, some without; the list itself absent or empty now and then. */
function ruleList(context: RuleContext): fc.Arbitrary<RuleManifest[] | undefined> {
  const item = fc.tuple(rule(context), fc.boolean());
  const rules = fc
    .array(item, { minLength: 1, maxLength: 4 })
    .map((list) =>
      list.map(([drawn, isNamed], index) =>
        isNamed ? { name: `${context.direction}-${index}`, ...drawn } : drawn,
      ),
    );
  return weighted<RuleManifest[] | undefined>([1, fc.constant(undefined)], [1, fc.constant([])], [8, rules]);
}

type Rules = Pick<PolicyManifest['spec'], 'ingress' | 'egress'>;
type RuleLists = { ingress: RuleManifest[] | undefined; egress: RuleManifest[] | undefined };

/** Puts appliedTo where it belongs: to the policy, or to every rule. */
function applied(
  scope: Scope,
): fc.Arbitrary<(rules: RuleLists) => Rules & { appliedTo?: AppliedToManifest[] }> {
  const group = () => oneOf(nodeGroupNames(scope.groups)).map((name): AppliedToManifest => ({ group: name }));
  const bySelector = selectorOver(nodeLabels).map((nodeSelector): AppliedToManifest => ({ nodeSelector }));
  const item = scope.features.has('appliedToGroup') ? weighted([3, bySelector], [2, group()]) : bySelector;
  const items = weighted<AppliedToManifest[]>(
    [4, fc.constant([{ nodeSelector: {} }])],
    [4, fc.array(item, { minLength: 1, maxLength: 2 })],
  );
  const empty = maybe(20, fc.constant<AppliedToManifest[]>([]));
  const atPolicy = fc.tuple(items, empty).map(([appliedTo, atRule]) => (rules: RuleLists) => ({
    appliedTo,
    ...onEach(rules, () => atRule),
  }));
  const atRules = fc
    .tuple(fc.array(items, { minLength: 2, maxLength: 3 }), empty)
    .map(([lists, appliedTo]) => (rules: RuleLists) => {
      const hasRules = (rules.ingress ?? []).length + (rules.egress ?? []).length > 0;
      if (!hasRules) return { appliedTo: lists[0], ...rules };
      return withoutUndefined({ appliedTo, ...onEach(rules, (index) => lists[index % lists.length]) });
    });
  return weighted([3, atPolicy], [1, atRules]) as ReturnType<typeof applied>;
}

function onEach(rules: RuleLists, appliedTo: (index: number) => AppliedToManifest[] | undefined): object {
  const toList = (list: RuleManifest[] | undefined) =>
    list?.map((item, index) => withoutUndefined({ ...item, appliedTo: appliedTo(index) }));
  return withoutUndefined({ ingress: toList(rules.ingress), egress: toList(rules.egress) });
}

/** Names of custom tiers. */
export const customTierNames = ['gold', 'silver', 'edge-first'];

/** The tier that Pass leads to. */
export const baselineNames = ['baseline', 'Baseline'];

/**
 * Names a policy may say without any Tier object, beside baseline, which is drawn together with
 * Pass.
 */
export const builtInTierNames = [
  ...['emergency', 'securityops', 'networkops', 'platform', 'application'],
  ...['Emergency', 'SecurityOps', 'NetworkOps', 'Platform', 'Application'],
];

/** Priorities of built-in tiers, which custom ones must not have. */
const builtInPriorities = [50, 100, 150, 200, 250, 253];

/** Custom tiers of both API groups: the same name may be in both, a priority is in one alone. */
function tiers(): fc.Arbitrary<TierManifest[]> {
  const tier = fc
    .record({
      name: oneOf(customTierNames),
      apiVersion: oneOf(policyApiVersions),
      priority: customPriority(),
    })
    .map(({ name, apiVersion, priority: number }) => {
      const spec = { priority: number };
      return { apiVersion, kind: 'Tier', metadata: { name }, spec };
    });
  return fc.uniqueArray(tier, {
    maxLength: 4,
    comparator: (a, b) =>
      a.spec.priority === b.spec.priority ||
      (a.apiVersion === b.apiVersion && a.metadata.name === b.metadata.name),
  });
}

/** What a custom Tier's priority may be. */
export function customPriority(): fc.Arbitrary<number> {
  return fc.integer({ min: 1, max: 252 }).filter((number) => !builtInPriorities.includes(number));
}

/** True for a tier that needs no object: a built-in name, or none, which means application. */
export function isBuiltIn(name: string | undefined): boolean {
  return name === undefined || [...builtInTierNames, ...baselineNames].includes(name);
}
