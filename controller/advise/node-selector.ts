import type { LabelSelector, LabelSelectorRequirement, Labels, Node } from '../../apis/objects.ts';
import { allHold, canonicalRequirements, type Requirements } from '../index/selector.ts';

export const HOSTNAME = 'kubernetes.io/hostname';
export const ROLE_PREFIX = 'node-role.kubernetes.io/';

/**
 * Labels that say where or what a machine is, not what it is for: a selector by them would be
 * exact by chance.
 */
const BY_CHANCE =
  /^(beta\.)?kubernetes\.io\/|^failure-domain\.beta|topology|instance-type|^feature\.node\.|zone|region|(^|[./-])(uid|id|hash|name|ip|created-by|machine)$/;

/** The most requirements of a selector that a person would read as one role. */
const MOST_REQUIREMENTS = 4;

/**
 * The selector of few labels that selects exactly these nodes; null if there is none. Labels of
 * roles come first. If none is exact, nodes of which nothing is known may be selected with them,
 * but not by a selector of everything for a minority. Costs a pass over `nodes` for each label.
 */
export function nodeSelector(
  wanted: ReadonlySet<string>,
  nodes: readonly Node[],
  isKnown: (node: Node) => boolean,
): LabelSelector | null {
  const own = nodes.filter(({ name }) => wanted.has(name));
  if (own.length === 0) return null;
  const others = nodes.filter(({ name }) => !wanted.has(name));
  const exact = bestOf(own, others);
  if (exact !== null) return toSelector(exact);
  const tolerant = bestOf(own, others.filter(isKnown));
  if (tolerant === null || (tolerant.length === 0 && own.length * 2 <= nodes.length)) return null;
  return toSelector(tolerant);
}

function bestOf(own: readonly Node[], others: readonly Node[]): Requirements | null {
  const starts: Requirements[] = [[], ...sharedLabels(own).map((one) => [one])];
  const exact = starts.flatMap((start) => {
    const found = narrowed(start, own, others);
    return found === null ? [] : [found];
  });
  exact.sort((a, b) => rankOf(a) - rankOf(b) || (JSON.stringify(a) < JSON.stringify(b) ? -1 : 1));
  return exact[0] ?? null;
}

/** Fewer requirements first, then those of roles. */
function rankOf(requirements: Requirements): number {
  const foreign = requirements.filter(({ key }) => !key.startsWith(ROLE_PREFIX)).length;
  const absent = requirements.filter(({ operator }) => operator !== 'In').length;
  return requirements.length * 10 + foreign * 4 + absent;
}

/** Labels with one value that all of them have. */
function sharedLabels([first, ...rest]: readonly Node[]): LabelSelectorRequirement[] {
  return Object.entries(first?.labels ?? {})
    .filter(([key, value]) => isOfRoles(key) && rest.every(({ labels }) => labelOf(labels, key) === value))
    .map(([key, value]) => ({ key, operator: 'In', values: [value] }));
}

function isOfRoles(key: string): boolean {
  return key.startsWith(ROLE_PREFIX) || !BY_CHANCE.test(key);
}

function labelOf(labels: Labels, key: string): string | undefined {
  return Object.hasOwn(labels, key) ? labels[key] : undefined;
}

/** Adds requirements until none of the others is selected; null if that takes too many. */
function narrowed(start: Requirements, own: readonly Node[], others: readonly Node[]): Requirements | null {
  let requirements = start;
  let left = others.filter(({ labels }) => allHold(requirements, labels));
  while (left.length > 0 && requirements.length < MOST_REQUIREMENTS) {
    const best = bestExclusion(own, left);
    if (best === null) return null;
    requirements = [...requirements, best];
    left = left.filter(({ labels }) => allHold([best], labels));
  }
  return left.length === 0 ? requirements : null;
}

/** The requirement that all of `own` meet and that excludes most of `left`. */
function bestExclusion(own: readonly Node[], left: readonly Node[]): LabelSelectorRequirement | null {
  const counts = new Map<string, number>();
  for (const { labels } of left)
    for (const key of Object.keys(labels)) if (isOfRoles(key)) counts.set(key, (counts.get(key) ?? 0) + 1);
  let best: { readonly requirement: LabelSelectorRequirement; readonly count: number } | null = null;
  const byRole = [...counts].sort(([a], [b]) => Number(isRole(b)) - Number(isRole(a)) || (a < b ? -1 : 1));
  for (const [key, count] of byRole) {
    if (own.some(({ labels }) => Object.hasOwn(labels, key))) continue;
    if (best !== null && (count <= best.count || isRole(best.requirement.key))) continue;
    best = { requirement: { key, operator: 'DoesNotExist' }, count };
  }
  return best?.requirement ?? null;
}

/** The labels of roles as one text. */
export function roleLabels({ labels }: Node): string {
  return Object.keys(labels).filter(isRole).sort().join();
}

function isRole(key: string): boolean {
  return key.startsWith(ROLE_PREFIX);
}

/** `matchLabels` where it can say it. */
export function toSelector(requirements: Requirements): LabelSelector {
  const labels: [string, string][] = [];
  const expressions: LabelSelectorRequirement[] = [];
  for (const requirement of canonicalRequirements({ matchExpressions: requirements })) {
    const { key, operator, values = [] } = requirement;
    const [only, ...more] = values;
    if (operator === 'In' && only !== undefined && more.length === 0) labels.push([key, only]);
    else expressions.push(requirement);
  }
  return {
    ...(labels.length === 0 ? {} : { matchLabels: Object.fromEntries(labels) }),
    ...(expressions.length === 0 ? {} : { matchExpressions: expressions }),
  };
}

/** Selects nodes by their names; null if one of them has no such label. */
export function hostnameSelector(nodes: readonly Node[]): LabelSelector | null {
  const values = nodes.flatMap(({ labels }) => labelOf(labels, HOSTNAME) ?? []);
  if (values.length === 0 || values.length < nodes.length) return null;
  return toSelector([{ key: HOSTNAME, operator: 'In', values }]);
}
