import type { HeldKind } from '../../apis/held-view.ts';
import type { Bodies, Line } from './bodies.ts';
import type { NodeCounts, PublishedState } from './changes.ts';
import type { GroupContent } from './rule-groups.ts';
import type { Span } from './spans.ts';

/** A set or a rule group of a view. */
export interface ViewObject {
  readonly kind: HeldKind;
  /** The id of a set, the name of a rule group. */
  readonly id: string;
  readonly line: Line;
}

/** The part of a node's view that is not specific to the node. */
export interface SharedView {
  readonly counts: NodeCounts;
  /** Sets sorted by id, then rules by rule group. Shared by all nodes with the same view. */
  objects(): readonly ViewObject[];
  has(kind: HeldKind, id: string): boolean;
}

/**
 * The views of nodes at one position. Nodes with the same spans share one result: a cluster has as
 * many as it has kinds of nodes, and thousands of watchers that connect at the same time get the
 * same list of the same buffers.
 */
export function viewsAt(
  state: PublishedState,
  bodies: Bodies,
  revision: string,
): (node: string) => SharedView {
  const known = new Map<string, SharedView>();
  const spans = [...state.bySpan.keys()];
  return (node) => {
    const own: number[] = [];
    for (const [i, span] of spans.entries()) if (span.has(node)) own.push(i);
    const key = own.join(' ');
    const same = known.get(key);
    if (same !== undefined) return same;
    const of = own.flatMap((i) => spans[i] ?? []);
    const view = toView(state, of, bodies, revision);
    known.set(key, view);
    return view;
  };
}

function toView(state: PublishedState, spans: readonly Span[], bodies: Bodies, revision: string): SharedView {
  const { compiled, bySpan } = state;
  const contents = spans.flatMap((span): GroupContent[] => [...(bySpan.get(span)?.values() ?? [])]);
  const addressSets = new Set([
    compiled.allNodes,
    compiled.controllers,
    ...contents.flatMap((one) => one.addressSets),
  ]);
  const serviceSets = new Set(contents.flatMap((one) => one.serviceSets));
  const toObject = (kind: HeldKind, id: string, body: Buffer): ViewObject => {
    return { kind, id, line: { revision, body } };
  };
  let objects: readonly ViewObject[] | null = null;
  let parts: ReadonlySet<string> | null = null;
  return {
    counts: {
      rules: contents.reduce((count, { rules }) => count + rules.length, 0),
      addressSets: addressSets.size,
      serviceSets: serviceSets.size,
    },
    objects() {
      objects ??= [
        ...picked(addressSets, compiled.addressSets).map((set) =>
          toObject('addressSets', set.id, bodies.addressSet(set)),
        ),
        ...picked(serviceSets, compiled.serviceSets).map((set) =>
          toObject('serviceSets', set.id, bodies.serviceSet(set)),
        ),
        ...contents
          .toSorted(byRuleGroup)
          .map((content) => toObject('rules', content.part, bodies.rules(content))),
      ];
      return objects;
    },
    has(kind, id) {
      if (kind === 'addressSets') return addressSets.has(id);
      if (kind === 'serviceSets') return serviceSets.has(id);
      parts ??= new Set(contents.map(({ part }) => part));
      return parts.has(id);
    },
  };
}

function picked<T>(ids: Iterable<string>, sets: ReadonlyMap<string, T>): T[] {
  return [...ids].sort().map((id) => {
    const set = sets.get(id);
    if (set === undefined) throw new Error(`unknown set ${id}`);
    return set;
  });
}

function byRuleGroup(a: GroupContent, b: GroupContent): number {
  return a.part < b.part ? -1 : 1;
}
