import { type GroupContent, NOBODY, type RuleGroupChange, type Span, type SpanChange } from './messages.ts';

/**
 * The nodes that have a set after a change, compared to before. The three lists have no node in
 * common.
 */
export interface SetToNodesChange {
  readonly kept: readonly Span[];
  readonly gained: readonly Span[];
  readonly lost: readonly Span[];
}

/**
 * The set-to-nodes index: a set is on the nodes of every rule group that names it. Counted by span,
 * never by node.
 */
export interface SetToNodesIndex {
  /** The nodes of any of these spans have the set; empty if no node has it. */
  spansOf(id: string): readonly Span[];
  /** The changes by set id, for the sets whose spans changed. */
  change(
    groupChanges: readonly RuleGroupChange[],
    changeOf: (before: Span, now: Span) => SpanChange,
  ): Map<string, SetToNodesChange>;
}

interface Use {
  /** The number of rule groups with that span that name the set. */
  readonly counts: Map<Span, number>;
  spans: readonly Span[];
}

interface Touched {
  readonly before: readonly Span[];
  /**
   * The span changes of rule groups that name the set; for a node in none of these, nothing
   * changes.
   */
  readonly changes: Set<SpanChange>;
}

/** @param idsOf returns the ids of the sets of one kind that a rule group names */
export function setToNodesIndex(idsOf: (content: GroupContent) => readonly string[]): SetToNodesIndex {
  const uses = new Map<string, Use>();
  const spansOf = (id: string): readonly Span[] => uses.get(id)?.spans ?? [];
  const count = (id: string, span: Span, by: number): void => {
    const use = uses.get(id) ?? { counts: new Map<Span, number>(), spans: [] };
    uses.set(id, use);
    const now = (use.counts.get(span) ?? 0) + by;
    if (now === 0) use.counts.delete(span);
    else use.counts.set(span, now);
  };
  return {
    spansOf,
    change(groupChanges, changeOf) {
      const touched = new Map<string, Touched>();
      for (const { before, now } of groupChanges) {
        const was = new Set(before === null ? [] : idsOf(before.content));
        const is = new Set(now === null ? [] : idsOf(now.content));
        for (const id of was.union(is)) {
          const [then, since] = [
            was.has(id) ? (before?.span ?? NOBODY) : NOBODY,
            is.has(id) ? (now?.span ?? NOBODY) : NOBODY,
          ];
          if (then === since) continue;
          const touch = touched.get(id) ?? { before: spansOf(id), changes: new Set() };
          touched.set(id, touch);
          touch.changes.add(changeOf(then, since));
          if (then !== NOBODY) count(id, then, -1);
          if (since !== NOBODY) count(id, since, 1);
        }
      }
      const share = sharing();
      const result = new Map<string, SetToNodesChange>();
      for (const [id, { before, changes }] of touched) {
        const use = uses.get(id);
        if (use === undefined) continue;
        use.spans = [...use.counts.keys()];
        if (use.spans.length === 0) uses.delete(id);
        result.set(id, compare(before, use.spans, changes, share));
      }
      return result;
    },
  };
}

function compare(
  before: readonly Span[],
  now: readonly Span[],
  changes: ReadonlySet<SpanChange>,
  share: (span: Span) => Span,
): SetToNodesChange {
  if (before.length === 0) return { kept: [], gained: now, lost: [] };
  if (now.length === 0) return { kept: [], gained: [], lost: before };
  const gained = new Set<string>();
  const lost = new Set<string>();
  const has = (spans: readonly Span[], node: string) => spans.some((span) => span.has(node));
  for (const change of changes) {
    for (const nodes of [change.gained, change.lost]) {
      for (const node of nodes) {
        const [was, is] = [has(before, node), has(now, node)];
        if (is && !was) gained.add(node);
        if (was && !is) lost.add(node);
      }
    }
  }
  return {
    kept: lost.size === 0 ? before : gained.size === 0 ? now : [allBut(before, lost)],
    gained: gained.size === 0 ? [] : [share(gained)],
    lost: lost.size === 0 ? [] : [share(lost)],
  };
}

function allBut(spans: readonly Span[], less: Span): Span {
  const nodes = new Set<string>();
  for (const span of spans) for (const node of span) if (!less.has(node)) nodes.add(node);
  return nodes;
}

const FEW = 16;

/**
 * Makes equal spans of few nodes one object: a relabelled node gains thousands of sets, each with a
 * span of this node only.
 */
function sharing(): (span: Span) => Span {
  const known = new Map<string, Span>();
  return (span) => {
    if (span.size > FEW) return span;
    const key = [...span].join(' ');
    const same = known.get(key);
    if (same === undefined) known.set(key, span);
    return same ?? span;
  };
}
