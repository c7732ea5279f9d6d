import type { LabelSelector, LabelSelectorRequirement, Labels, Node } from '../../apis/objects.ts';
import { compareText } from '../../lib/sharing/lists.ts';
import { allHold, canonicalRequirements, holds, type Requirements } from '../index/selector.ts';
import type { NodeClass } from './node-class.ts';

const HOSTNAME = 'kubernetes.io/hostname';
const ROLE_PREFIX = 'node-role.kubernetes.io/';

/**
 * Labels that say where or what a machine is, not what it is for: a selector by them would be
 * exact by chance.
 */
const BY_CHANCE =
  /^(beta\.)?kubernetes\.io\/|^failure-domain\.beta|topology|instance-type|^feature\.node\.|zone|region|(^|[./-])(uid|id|hash|name|ip|created-by|machine)$/;

/** Nodes that get the same policies. */
export interface Role {
  readonly name: string;
  /** Sorted. */
  readonly nodes: readonly string[];
  /** Null: not even names select them, because a Node lacks the label of its host name. */
  readonly selector: LabelSelector | null;
  /** Whether the selector lists names, because no label tells these nodes apart. */
  readonly isByName: boolean;
  /** Nodes that the selector selects too, and of which nothing is known; sorted. */
  readonly unknownNodes: readonly string[];
  /** The kinds that were seen on them. */
  readonly seen: NodeClass;
}

/** The share of all that two classes serve that both serve, at least, if they are one role. */
const ALIKE = 0.75;

/**
 * Groups classes of nodes to roles. Those that serve the same and that labels select are a role.
 * The others are joined with those that have the same labels of roles and serve nearly the same:
 * what was seen on some of them only is remarked later. Roles are sorted by name. Changes the
 * classes.
 */
export function toRoles(classes: readonly NodeClass[], nodes: readonly Node[]): Role[] {
  const known = new Set(classes.flatMap((one) => one.nodes));
  const select = (names: readonly string[]) => nodeSelector(new Set(names), nodes, known);
  const found: { readonly seen: NodeClass; readonly selector: LabelSelector | null }[] = [];
  let left = classes;
  for (const keyOf of [servedText, (one: NodeClass) => `${servedText(one)} ${one.roleLabels}`]) {
    left = [...Map.groupBy(left, keyOf).values()].flatMap((same) => {
      const selector = servedText(same[0]) === '' ? null : select(same.flatMap((one) => one.nodes));
      if (selector === null) return same;
      found.push(...joined(same, () => true).map((seen) => ({ seen, selector })));
      return [];
    });
  }
  for (const seen of joined(left, isOneRole)) found.push({ seen, selector: select(seen.nodes) });
  const names = new Set<string>();
  return found
    .map(({ seen, selector }) => toRole(seen, selector, nodes))
    .sort((a, b) => compareText(a.nodes[0] ?? '', b.nodes[0] ?? ''))
    .map((role) => ({ ...role, name: unique(role.name, names) }))
    .sort((a, b) => compareText(a.name, b.name));
}

function servedText(one: NodeClass | undefined): string {
  return [...(one?.served ?? [])].join();
}

/** Labels of roles come first. */
function nodeSelector(
  wanted: ReadonlySet<string>,
  nodes: readonly Node[],
  known: ReadonlySet<string>,
): LabelSelector | null {
  const own = nodes.filter(({ name }) => wanted.has(name));
  const others = nodes.filter(({ name }) => !wanted.has(name));
  if (own.length === 0) return null;
  const labelsOf = (some: readonly Node[]) => some.map(({ labels }) => labels);
  const placeOf = (key: string): number | null =>
    key.startsWith(ROLE_PREFIX) ? 0 : BY_CHANCE.test(key) ? null : 1;
  const select = (rest: readonly Node[]) =>
    fewLabels(labelsOf(own), labelsOf(rest), { placeOf, needsLabel: false });
  const exact = select(others);
  if (exact !== null) return exact;
  // Nodes of which nothing is known may be selected too, but not all for a minority.
  const tolerant = select(others.filter(({ name }) => known.has(name)));
  const isForAll = tolerant !== null && Object.keys(tolerant).length === 0;
  return isForAll && own.length * 2 <= nodes.length ? null : tolerant;
}

/** The labels of roles as one text. */
export function roleLabels({ labels }: Node): string {
  const keys = Object.keys(labels).filter((key) => key.startsWith(ROLE_PREFIX));
  return keys.sort().join();
}

/** Selects nodes by their names; null if one of them has no such label. */
export function hostnameSelector(nodes: readonly Node[]): LabelSelector | null {
  const values = nodes.flatMap(({ labels }) => labels[HOSTNAME] ?? []);
  if (values.length === 0 || values.length < nodes.length) return null;
  return selectorOfRequirements([{ key: HOSTNAME, operator: 'In', values }]);
}

/** Classes that are alike become the largest of them; quiet ones join those that are not. */
function joined(
  classes: readonly NodeClass[],
  isAlikeTo: (core: ReadonlySet<string>, a: NodeClass, b: NodeClass) => boolean,
): NodeClass[] {
  const groups: { readonly core: ReadonlySet<string>; readonly one: NodeClass }[] = [];
  const order = (one: NodeClass): number => (one.served.size === 0 ? 0 : one.nodes.length);
  const bySize = [...classes].sort(
    (a, b) =>
      order(b) - order(a) || b.nodes.length - a.nodes.length || compareText(servedText(a), servedText(b)),
  );
  for (const seen of bySize) {
    const group = groups.find(({ core, one }) => isAlikeTo(core, one, seen));
    if (group === undefined) groups.push({ core: new Set(seen.served), one: seen });
    else group.one.merge(seen);
  }
  return groups.map(({ one }) => one);
}

function isOneRole(core: ReadonlySet<string>, one: NodeClass, other: NodeClass): boolean {
  return one.roleLabels === other.roleLabels && isAlike(core, other.served);
}

/** A quiet node is like any other, and one service more or less tells no role. */
export function isAlike(a: ReadonlySet<string>, b: ReadonlySet<string>): boolean {
  const shared = a.intersection(b).size;
  const all = a.size + b.size - shared;
  return a.size === 0 || b.size === 0 || all - shared <= 1 || shared / all >= ALIKE;
}

function toRole(seen: NodeClass, byLabels: LabelSelector | null, all: readonly Node[]): Role {
  const nodes = [...seen.nodes].sort();
  const own = new Set(nodes);
  const isByName = byLabels === null;
  const selector = byLabels ?? hostnameSelector(all.filter(({ name }) => own.has(name)));
  const requirements = canonicalRequirements(selector ?? {});
  const unknown = all.filter(({ name, labels }) => !own.has(name) && allHold(requirements, labels));
  const unknownNodes = isByName ? [] : unknown.map(({ name }) => name).sort();
  return { name: nameOf(byLabels, nodes), nodes, selector, isByName, unknownNodes, seen };
}

/** The longest part of a policy's name that comes from a role. */
const LONGEST = 40;

function nameOf(selector: LabelSelector | null, [first = '', ...more]: readonly string[]): string {
  if (selector === null) return more.length === 0 ? word(first) : 'group';
  const [label] = Object.entries(selector.matchLabels ?? {}).sort(
    ([a], [b]) => Number(b.startsWith(ROLE_PREFIX)) - Number(a.startsWith(ROLE_PREFIX)) || compareText(a, b),
  );
  if (label === undefined) return selector.matchExpressions === undefined ? 'node' : 'worker';
  const [key, value] = label;
  return word(['', 'true', 'yes'].includes(value) ? (key.split('/').at(-1) ?? key) : value);
}

function word(text: string): string {
  const plain = text
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, '-')
    .slice(0, LONGEST);
  return plain.replaceAll(/^-|-$/g, '') || 'node';
}

function unique(name: string, taken: Set<string>): string {
  let free = name;
  for (let i = 2; taken.has(free); i++) free = `${name}-${i}`;
  taken.add(free);
  return free;
}

/** The most requirements of a selector that a person would read as one thing. */
const MOST_REQUIREMENTS = 4;

/** Which labels say what something is. */
interface LabelTaste {
  /** Null: the label says nothing of that kind; else the lower the better. */
  readonly placeOf: (key: string) => number | null;
  /** Whether a selector needs a label that is there, not only labels that are not. */
  readonly needsLabel: boolean;
}

/**
 * A selector of few labels that selects all of `own` and none of `others`; null: none was found.
 * Adds what excludes most, the better label first. Costs a pass over `others` for each label.
 */
export function fewLabels(
  own: readonly Labels[],
  others: readonly Labels[],
  { placeOf, needsLabel }: LabelTaste,
): LabelSelector | null {
  const [first = {}] = own;
  const shared = Object.entries(first).map(
    ([key, value]): LabelSelectorRequirement => ({ key, operator: 'In', values: [value] }),
  );
  const absent = [...new Set(others.flatMap((labels) => Object.keys(labels)))].map(
    (key): LabelSelectorRequirement => ({ key, operator: 'DoesNotExist' }),
  );
  const candidates = [...shared, ...absent]
    .filter((one) => placeOf(one.key) !== null && own.every((labels) => holds(one, labels)))
    .sort((a, b) => (placeOf(a.key) ?? 0) - (placeOf(b.key) ?? 0) || compareText(textOf(a), textOf(b)));
  const chosen: LabelSelectorRequirement[] = [];
  let left = others;
  while (left.length > 0 || (needsLabel && chosen.length === 0)) {
    const isFirst = needsLabel && chosen.length === 0;
    let best: { readonly one: LabelSelectorRequirement; readonly still: readonly Labels[] } | null = null;
    for (const one of candidates) {
      if (isFirst && one.operator !== 'In') continue;
      const still = left.filter((labels) => holds(one, labels));
      const isBetter = still.length < (best?.still ?? left).length;
      if (isBetter || (isFirst && best === null)) best = { one, still };
    }
    if (best === null || chosen.length === MOST_REQUIREMENTS) return null;
    chosen.push(best.one);
    left = best.still;
  }
  return selectorOfRequirements(chosen);
}

/** Labels that are there before those that are not. */
function textOf({ key, operator }: LabelSelectorRequirement): string {
  return `${operator === 'In' ? 0 : 1} ${key}`;
}

/** `matchLabels` where it can say it. */
export function selectorOfRequirements(requirements: Requirements): LabelSelector {
  const isLabel = ({ operator, values = [] }: LabelSelectorRequirement): boolean =>
    operator === 'In' && values.length === 1;
  const all = canonicalRequirements({ matchExpressions: requirements });
  const labels = all.filter(isLabel).map(({ key, values: [value = ''] = [] }) => [key, value]);
  const expressions = all.filter((one) => !isLabel(one));
  return {
    ...(labels.length === 0 ? {} : { matchLabels: Object.fromEntries(labels) }),
    ...(expressions.length === 0 ? {} : { matchExpressions: expressions }),
  };
}
