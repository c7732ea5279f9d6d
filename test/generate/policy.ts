import fc from 'fast-check';
import type { AppliedToManifest, PolicyManifest, RuleManifest, TierManifest } from '../oracle/manifest.ts';
import { policyApiVersions } from '../oracle/manifest.ts';
import type { AddressPlan } from './address.ts';
import { maybe, oneOf, weighted, withoutUndefined } from './choice.ts';
import type { RuleContext } from './rule.ts';
import { rule } from './rule.ts';
import { nodeLabels, selectorOver } from './selector.ts';
import { builtInTierNames, tiers } from './tier.ts';

/** Policies with the Tiers they name. */
export interface PolicyObjects {
  tiers: TierManifest[];
  policies: PolicyManifest[];
}

/** Names whose order by code point differs from a dictionary's. */
const names = ['a', 'a-b', 'a.b', 'a0', 'aa', 'b', 'b-1', 'b-10', 'b-2'];

/** Up to `size` valid policies of both API groups, with custom Tiers. */
export function policies(size: number, plan?: AddressPlan): fc.Arbitrary<PolicyObjects> {
  return tiers().chain((found) => {
    const known = [...builtInTierNames, ...found.map((tier) => tier.metadata.name)];
    const list = fc.uniqueArray(policy(size, known, plan), {
      minLength: Math.ceil(size / 2),
      maxLength: size,
      selector: (item) => `${item.apiVersion} ${item.metadata.name}`,
    });
    return fc.record({ tiers: fc.constant(found), policies: list });
  });
}

function policy(size: number, tierNames: string[], plan?: AddressPlan): fc.Arbitrary<PolicyManifest> {
  const numbered = fc.nat({ max: size * 20 }).map((number) => `policy-${number}`);
  return oneOf(policyApiVersions).chain((apiVersion) => {
    const isAntrea = apiVersion !== policyApiVersions[0];
    const draft = fc.record({
      name: size > names.length ? weighted([1, oneOf(names)], [4, numbered]) : oneOf(names),
      tier: maybe(60, oneOf(tierNames)),
      priority: priority(),
      plus: isAntrea ? fc.constant({}) : plusFields(),
      ingress: ruleList({ direction: 'ingress', isAntrea, plan }),
      egress: ruleList({ direction: 'egress', isAntrea, plan }),
      applied: applied(),
    });
    return draft.map(({ name, tier, priority: number, plus, ingress, egress, applied: place }) => {
      const spec = { tier, priority: number, ...plus, ...place({ ingress, egress }) };
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

/** Fields that only our own API group has, here with their defaults spelt out. */
function plusFields(): fc.Arbitrary<object> {
  return weighted<object>(
    [6, fc.constant({})],
    [1, fc.constant({ mode: 'Enforce' })],
    [1, fc.constant({ traffic: 'Host' })],
  );
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
function applied(): fc.Arbitrary<(rules: RuleLists) => Rules & { appliedTo?: AppliedToManifest[] }> {
  const items = weighted<AppliedToManifest[]>(
    [4, fc.constant([{ nodeSelector: {} }])],
    [
      4,
      fc.array(
        selectorOver(nodeLabels).map((nodeSelector) => ({ nodeSelector })),
        { minLength: 1, maxLength: 2 },
      ),
    ],
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
