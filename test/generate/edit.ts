import fc from 'fast-check';
import { type Random, seededRandom } from '../../perf/generate/random.ts';
import type { Manifest, PodManifest, PolicyManifest, RuleManifest } from '../oracle/manifest.ts';
import type { CrowdKind } from './crowd.ts';
import { ALL_FEATURES, type Scenario, scenario } from './scenario.ts';

/** The kinds of edits; a test counts them. */
export const EDITS = [
  'pod moves to other labels',
  'pod gets the address of another',
  'pod goes',
  'pod comes',
  'rule goes',
  'rule comes',
  'rule changes its action',
  'rules change places',
  'policy goes',
  'policy comes',
  'policy changes its priority',
  'group changes',
] as const;
type Edit = (typeof EDITS)[number];

/** What a cluster holds after some edits; objects that were not edited are the same. */
interface Step {
  readonly edits: readonly Edit[];
  readonly objects: readonly object[];
}

/**
 * A history: from the objects of a scenario on, one to four edits a step, with what comes taken
 * from another scenario. Every object stays valid. The same for the same seed.
 */
export function editSteps(
  from: Scenario,
  other: Scenario,
  { steps, seed }: { steps: number; seed: number },
): Step[] {
  const random = seededRandom(`edits ${seed}`);
  const found: Step[] = [{ edits: [], objects: from.objects }];
  let objects: readonly object[] = from.objects;
  for (let i = 0; i < steps; i++) {
    const edits: Edit[] = [];
    for (let left = 1 + random.below(4); left > 0; left--) {
      const [first, ...rest] = EDITS;
      const kind = random.pick([first, ...rest]);
      const next = edited(kind, objects, { other: other.objects, random, step: i });
      if (next === null) continue;
      edits.push(kind);
      objects = next;
    }
    found.push({ edits, objects });
  }
  return found;
}

interface Means {
  readonly other: readonly object[];
  readonly random: Random;
  readonly step: number;
}

/** Null where there is nothing to edit so. */
function edited(edit: Edit, objects: readonly object[], means: Means): readonly object[] | null {
  const { random, other } = means;
  switch (edit) {
    case 'pod moves to other labels':
      return changed<PodManifest>(objects, 'Pod', random, (pod) => {
        const labels = oneOfKind<PodManifest>(other, 'Pod', random)?.metadata.labels ?? {};
        return { ...pod, metadata: { ...pod.metadata, labels } };
      });
    case 'pod gets the address of another':
      return changed<PodManifest>(objects, 'Pod', random, (pod) => {
        const from = random.next() < 0.5 ? objects : other;
        return withStatus(pod, oneOfKind<PodManifest>(from, 'Pod', random)?.status);
      });
    case 'pod goes':
      return without(objects, oneOfKind<PodManifest>(objects, 'Pod', random));
    case 'pod comes':
      return withOther<PodManifest>(objects, 'Pod', means);
    case 'rule goes':
      return withRules(objects, random, (rules) => rules.toSpliced(random.below(rules.length), 1));
    case 'rule comes':
      return withRules(objects, random, (rules, policy, direction) => {
        const source = oneOfKind<PolicyManifest>(other, 'ClusterNetworkPolicy', random);
        const fits = source?.apiVersion === policy.apiVersion && sameSide(source, policy);
        const list = fits ? (source.spec[direction] ?? []) : rules;
        const one = list[random.below(list.length)];
        if (one === undefined || !fitsTier(policy, one) || !isKnown(one, objects)) return rules;
        const { name: _, ...unnamed } = one;
        const comes = withAppliedTo(unnamed, rules[0]);
        return rules.toSpliced(random.below(rules.length + 1), 0, comes);
      });
    case 'rule changes its action':
      return withRules(objects, random, (rules) => {
        const at = random.below(rules.length);
        return rules.map((rule, i) =>
          i === at ? { ...rule, action: random.pick(['Allow', 'Drop', 'Reject']) } : rule,
        );
      });
    case 'rules change places':
      return withRules(objects, random, (rules) => {
        const [one] = rules.slice(-1);
        return one === undefined ? rules : [one, ...rules.slice(0, -1)];
      });
    case 'policy goes':
      return without(objects, oneOfKind<PolicyManifest>(objects, 'ClusterNetworkPolicy', random));
    case 'policy comes':
      return withOther<PolicyManifest>(objects, 'ClusterNetworkPolicy', means);
    case 'policy changes its priority':
      return changed<PolicyManifest>(objects, 'ClusterNetworkPolicy', random, (policy) => ({
        ...policy,
        spec: { ...policy.spec, priority: 1 + random.below(9) },
      }));
    case 'group changes': {
      // Of the same name and API group, so that what names it stays valid.
      const theirs = ofKind<Manifest & { spec: object }>(other, 'ClusterGroup');
      return changed<Manifest & { spec: object }>(objects, 'ClusterGroup', random, (group) => {
        const same = theirs.find(
          (one) => one.apiVersion === group.apiVersion && one.metadata.name === group.metadata.name,
        );
        return same === undefined || 'childGroups' in same.spec ? group : { ...group, spec: same.spec };
      });
    }
  }
}

function ofKind<T extends Manifest>(objects: readonly object[], kind: string): T[] {
  return objects.filter((one): one is T => (one as Manifest).kind === kind);
}

function oneOfKind<T extends Manifest>(
  objects: readonly object[],
  kind: string,
  random: Random,
): T | undefined {
  const all = ofKind<T>(objects, kind);
  return all[random.below(all.length)];
}

function changed<T extends Manifest>(
  objects: readonly object[],
  kind: string,
  random: Random,
  change: (object: T) => object,
): readonly object[] | null {
  const chosen = oneOfKind<T>(objects, kind, random);
  return chosen === undefined ? null : objects.map((one) => (one === chosen ? change(chosen) : one));
}

function without(objects: readonly object[], object: object | undefined): readonly object[] | null {
  return object === undefined ? null : objects.filter((one) => one !== object);
}

/** One of the other scenario's, under a name of its own. */
function withOther<T extends Manifest>(
  objects: readonly object[],
  kind: string,
  { other, random, step }: Means,
): readonly object[] | null {
  const one = oneOfKind<T>(other, kind, random);
  if (one === undefined || !isKnown(one, objects)) return null;
  const name = `${one.metadata.name}-${step}`;
  if (
    objects.some((there) => (there as Manifest).kind === kind && (there as Manifest).metadata.name === name)
  )
    return null;
  return objects.toSpliced(random.below(objects.length), 0, { ...one, metadata: { ...one.metadata, name } });
}

/**
 * Names only groups and tiers that are there, and no link group that only the other scenario's
 * configuration has.
 */
function isKnown(object: object, objects: readonly object[]): boolean {
  const names = new Set(ofKind<Manifest>(objects, 'ClusterGroup').map(({ metadata }) => metadata.name));
  const { tier } = (object as Partial<PolicyManifest>).spec ?? {};
  const isOwnTier = tier !== undefined && !BUILT_IN_TIERS.has(tier.toLowerCase());
  if (isOwnTier && !ofKind<Manifest>(objects, 'Tier').some(({ metadata }) => metadata.name === tier))
    return false;
  const asked = JSON.stringify(object).matchAll(/"(group|interfaceGroup)":"([^"]*)"/g);
  return [...asked].every(([, kind, name = '']) =>
    kind === 'group' ? names.has(name) : ['pods', 'clusternet'].includes(name),
  );
}

const BUILT_IN_TIERS = new Set([
  'emergency',
  'securityops',
  'networkops',
  'platform',
  'application',
  'baseline',
]);

function withStatus(pod: PodManifest, status: PodManifest['status']): object {
  return status === undefined ? pod : { ...pod, status };
}

type Side = 'ingress' | 'egress';

/** Another list of rules in one policy; it keeps one at least. */
function withRules(
  objects: readonly object[],
  random: Random,
  change: (rules: RuleManifest[], policy: PolicyManifest, side: Side) => RuleManifest[],
): readonly object[] | null {
  return changed<PolicyManifest>(objects, 'ClusterNetworkPolicy', random, (policy) => {
    const side: Side = (policy.spec.ingress ?? []).length > 0 ? 'ingress' : 'egress';
    const rules = policy.spec[side] ?? [];
    if (rules.length === 0) return policy;
    const next = change(rules, policy, side);
    return next.length === 0 ? policy : { ...policy, spec: { ...policy.spec, [side]: next } };
  });
}

function sameSide(a: PolicyManifest, b: PolicyManifest): boolean {
  return a.spec.traffic === b.spec.traffic;
}

/** In the baseline tier nothing may Pass. */
function fitsTier({ spec }: PolicyManifest, { action }: RuleManifest): boolean {
  return action !== 'Pass' || spec.tier?.toLowerCase() !== 'baseline';
}

/** As the policy's own rules have it: all of them or none. */
function withAppliedTo(
  { appliedTo: _, ...rule }: RuleManifest,
  like: RuleManifest | undefined,
): RuleManifest {
  return like?.appliedTo === undefined ? rule : { ...rule, appliedTo: like.appliedTo };
}

/** A scenario, and the steps that lead on from it. */
export interface History {
  readonly from: Scenario;
  readonly steps: readonly Step[];
}

/** Crowds of so many rules, each with up to twelve steps. */
export function histories(kind: CrowdKind, sizes: readonly number[] = [10, 40, 120]): fc.Arbitrary<History> {
  const drawn = (rules: number) =>
    scenario({ size: 8, flows: 0, features: ALL_FEATURES, crowd: { rules, kind } });
  const all = fc.constantFrom(...sizes).chain((rules) =>
    fc
      .record({
        from: drawn(rules),
        other: drawn(30),
        seed: fc.nat(),
        steps: fc.integer({ min: 1, max: 12 }),
      })
      .map(({ from, other, seed, steps }) => ({ from, steps: editSteps(from, other, { steps, seed }) })),
  );
  // Shrinking one would take minutes, and give one that is as long.
  return fc.noShrink(all);
}
