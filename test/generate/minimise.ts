import type { GroupManifest, Manifest, PolicyManifest } from '../oracle/manifest.ts';
import { isBuiltIn } from './policy.ts';
import type { Scenario } from './scenario.ts';

/** Lists whose items can go one by one and leave a valid object, an empty list included. */
const shrinkableLists = [
  ...['ingress', 'egress', 'from', 'to', 'ports', 'protocols', 'except'],
  ...['addresses', 'podIPs', 'matchExpressions'],
  ...['toServices', 'endpoints', 'ipBlocks', 'childGroups'],
];

/** Where an item is: the keys that lead from the scenario to it. */
type Path = (string | number)[];

/**
 * A scenario that still fails, with what the failure doesn't need taken out: flows, objects, rules,
 * peers, ports. fast-check's own shrinking draws the flows anew whenever the policies change, and
 * so ends early. Every scenario that `isFailing` is asked about is valid; it may be asked some
 * hundred times.
 */
export async function minimise(
  scenario: Scenario,
  isFailing: (candidate: Scenario) => boolean | Promise<boolean>,
): Promise<Scenario> {
  let current = scenario;
  for (let size = Number.POSITIVE_INFINITY; sizeOf(current) < size; ) {
    size = sizeOf(current);
    // From the back: a removal leaves the paths before it as they are.
    for (const path of removablePaths(current).reverse()) {
      const candidate = without(current, path);
      if (isValid(candidate) && (await isFailing(candidate))) current = candidate;
    }
  }
  return current;
}

function sizeOf(scenario: Scenario): number {
  return JSON.stringify(scenario).length;
}

/** Outer items after their inner ones, so that reversed they are tried first. */
function removablePaths(scenario: Scenario): Path[] {
  const items = (list: 'objects' | 'flows') => scenario[list].map((_, index): Path => [list, index]);
  const fields = (part: 'config' | 'names') => Object.keys(scenario[part]).map((key): Path => [part, key]);
  const inner = scenario.objects.flatMap((object, index) => innerPaths(object, ['objects', index]));
  return [...fields('config'), ...fields('names'), ...inner, ...items('objects'), ...items('flows')];
}

function innerPaths(value: unknown, path: Path): Path[] {
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([key, child]) => {
    const here = [...path, Array.isArray(value) ? Number(key) : key];
    const isItem = Array.isArray(value) && shrinkableLists.includes(String(path.at(-1)));
    return [...innerPaths(child, here), ...(isItem ? [here] : [])];
  });
}

/** The scenario without the item at the path; the same scenario when there is none any more. */
function without(scenario: Scenario, path: Path): Scenario {
  const copy = structuredClone(scenario);
  let parent: unknown = copy;
  for (const key of path.slice(0, -1))
    parent = (parent as Record<string | number, unknown> | undefined)?.[key];
  const last = path.at(-1);
  if (Array.isArray(parent) && typeof last === 'number') parent.splice(last, 1);
  else if (typeof parent === 'object' && parent !== null && last !== undefined)
    Reflect.deleteProperty(parent, last);
  return copy;
}

function isValid({ objects, node, config }: Scenario): boolean {
  const manifests = objects as Manifest[];
  const ofKind = (wanted: string) => manifests.filter(({ kind }) => kind === wanted);
  const policies = ofKind('ClusterNetworkPolicy') as PolicyManifest[];
  const groups = ofKind('ClusterGroup') as GroupManifest[];
  const known = {
    tiers: ofKind('Tier').map(({ metadata }) => metadata.name),
    groups: groups.map(({ metadata }) => metadata.name),
    interfaceGroups: ['pods', 'clusternet', ...Object.keys(config.interfaceGroups ?? {})],
  };
  return (
    ofKind('Node').some(({ metadata }) => metadata.name === node) &&
    groups.every((group) => isWhole(group, known.groups)) &&
    policies.every(
      ({ spec }) =>
        isAppliedTo(spec) &&
        (isBuiltIn(spec.tier) || known.tiers.includes(spec.tier ?? '')) &&
        namesOnly(spec, known),
    )
  );
}

/** A group of nothing and a child that is gone are not what was drawn. */
function isWhole({ spec }: GroupManifest, groups: string[]): boolean {
  const lists = [spec.ipBlocks, spec.childGroups];
  return (
    lists.every((list) => list === undefined || list.length > 0) &&
    (spec.childGroups ?? []).every((child) => groups.includes(child))
  );
}

/** True when the groups and interface groups that rules and appliedTo name are there. */
function namesOnly(
  { appliedTo, ingress, egress }: PolicyManifest['spec'],
  known: { groups: string[]; interfaceGroups: string[] },
): boolean {
  const rules = [...(ingress ?? []), ...(egress ?? [])];
  const peers = rules.flatMap(({ from, to }) => [...(from ?? []), ...(to ?? [])]);
  const applied = [...(appliedTo ?? []), ...rules.flatMap((rule) => rule.appliedTo ?? [])];
  return (
    [...peers, ...applied].every(({ group }) => group === undefined || known.groups.includes(group)) &&
    peers.every(
      ({ interfaceGroup }) =>
        typeof interfaceGroup !== 'string' || known.interfaceGroups.includes(interfaceGroup),
    )
  );
}

function isAppliedTo({ appliedTo, ingress, egress }: PolicyManifest['spec']): boolean {
  return (appliedTo ?? []).length > 0 || (ingress ?? []).length + (egress ?? []).length > 0;
}
