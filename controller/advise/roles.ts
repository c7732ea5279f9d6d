import type { LabelSelector, Node } from '../../apis/objects.ts';
import { allHold, canonicalRequirements } from '../index/selector.ts';
import type { NodeClass } from './node-class.ts';
import { hostnameSelector, nodeSelector, ROLE_PREFIX } from './node-selector.ts';

/** Nodes that get the same policies. */
export interface Role {
  readonly name: string;
  /** Sorted. */
  readonly nodes: readonly string[];
  /** Null: not even names select them, because a Node lacks the label of its host name. */
  readonly selector: LabelSelector | null;
  /** Whether the selector lists names, because no label tells these nodes apart. */
  readonly isByName: boolean;
  /** Nodes that the selector selects too, and of which nothing is known. */
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
  const known = new Set(classes.flatMap(({ nodes: some }) => some));
  const isKnown = ({ name }: Node): boolean => known.has(name);
  const select = (names: readonly string[]) => nodeSelector(new Set(names), nodes, isKnown);
  const found: { readonly seen: NodeClass; readonly selector: LabelSelector | null }[] = [];
  const left: NodeClass[] = [];
  for (const same of Map.groupBy(classes, ({ served }) => [...served].join()).values()) {
    const [first] = same;
    const selector = select(same.flatMap(({ nodes: some }) => some));
    if (first === undefined || first.served.size === 0) left.push(...same);
    else if (selector !== null) found.push({ seen: mergedOf(same), selector });
    else {
      for (const seen of same) {
        const own = same.length === 1 ? null : select(seen.nodes);
        if (own === null) left.push(seen);
        else found.push({ seen, selector: own });
      }
    }
  }
  for (const seen of joined(left)) found.push({ seen, selector: select(seen.nodes) });
  const names = new Set<string>();
  return found
    .map(({ seen, selector }) => toRole(seen, selector, nodes, isKnown))
    .sort((a, b) => ((a.nodes[0] ?? '') < (b.nodes[0] ?? '') ? -1 : 1))
    .map((role) => ({ ...role, name: unique(role.name, names) }))
    .sort((a, b) => (a.name < b.name ? -1 : 1));
}

function mergedOf([first, ...others]: readonly NodeClass[]): NodeClass {
  if (first === undefined) throw new TypeError('no class');
  for (const other of others) first.merge(other);
  return first;
}

function joined(classes: readonly NodeClass[]): NodeClass[] {
  const groups: { readonly core: ReadonlySet<string>; readonly one: NodeClass }[] = [];
  const bySize = [...classes].sort(
    (a, b) => b.nodes.length - a.nodes.length || ([...a.served].join() < [...b.served].join() ? -1 : 1),
  );
  // Quiet nodes join those that are not.
  for (const seen of [...bySize.filter(isServing), ...bySize.filter((one) => !isServing(one))]) {
    const group = groups.find(
      ({ core, one }) => one.roleLabels === seen.roleLabels && isAlike(core, seen.served),
    );
    if (group === undefined) groups.push({ core: new Set(seen.served), one: seen });
    else group.one.merge(seen);
  }
  return groups.map(({ one }) => one);
}

function isServing({ served }: NodeClass): boolean {
  return served.size > 0;
}

/** A quiet node is like any other, and one service more or less tells no role. */
export function isAlike(a: ReadonlySet<string>, b: ReadonlySet<string>): boolean {
  if (a.size === 0 || b.size === 0) return true;
  const shared = [...a].filter((one) => b.has(one)).length;
  const all = a.size + b.size - shared;
  return all - shared <= 1 || shared / all >= ALIKE;
}

function toRole(
  seen: NodeClass,
  selector: LabelSelector | null,
  all: readonly Node[],
  isKnown: (node: Node) => boolean,
): Role {
  const names = [...seen.nodes].sort();
  const own = all.filter(({ name }) => seen.nodes.includes(name));
  if (selector === null) {
    const byName = hostnameSelector(own);
    return {
      name: nameOf(null, names),
      nodes: names,
      selector: byName,
      isByName: true,
      unknownNodes: [],
      seen,
    };
  }
  const selected = selectedBy(selector, all);
  const unknownNodes = selected.filter((node) => !isKnown(node)).map(({ name }) => name);
  return {
    name: nameOf(selector, names),
    nodes: names,
    selector,
    isByName: false,
    unknownNodes: unknownNodes.sort(),
    seen,
  };
}

function selectedBy(selector: LabelSelector, nodes: readonly Node[]): Node[] {
  const requirements = canonicalRequirements(selector);
  return nodes.filter(({ labels }) => allHold(requirements, labels));
}

/** The longest part of a policy's name that comes from a role. */
const LONGEST = 40;

function nameOf(selector: LabelSelector | null, [first = '', ...more]: readonly string[]): string {
  if (selector === null) return more.length === 0 ? word(first) : 'group';
  const [label] = Object.entries(selector.matchLabels ?? {}).sort(
    ([a], [b]) => Number(b.startsWith(ROLE_PREFIX)) - Number(a.startsWith(ROLE_PREFIX)) || (a < b ? -1 : 1),
  );
  if (label !== undefined) {
    const [key, value] = label;
    const isFlag = value === '' || value === 'true' || value === 'yes';
    return word(isFlag ? (key.split('/').at(-1) ?? key) : value);
  }
  return (selector.matchExpressions ?? []).length > 0 ? 'worker' : 'node';
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
