import type { PartChange, PartContent } from './parts.ts';
import { NOBODY, type Span, type SpanChange } from './spans.ts';

/**
 * Which nodes hold a set after a change, by what they held before. No two of the three share a
 * node.
 */
export interface HolderChange {
  readonly kept: readonly Span[];
  readonly gained: readonly Span[];
  readonly lost: readonly Span[];
}

/** Who holds which set: the nodes of every part that names it. Counted by span, never by node. */
export interface Holders {
  /** The nodes of any of these hold the set; empty where nobody does. */
  spansOf(id: string): readonly Span[];
  /** By id, for the sets whose spans are others than before. */
  change(
    parts: readonly PartChange[],
    changeOf: (before: Span, now: Span) => SpanChange,
  ): Map<string, HolderChange>;
}

interface Use {
  /** How many parts of that span name the set. */
  readonly counts: Map<Span, number>;
  spans: readonly Span[];
}

interface Touched {
  readonly before: readonly Span[];
  /**
   * What happened to the spans of parts that name it; a node outside of these holds it if it held
   * it.
   */
  readonly changes: Set<SpanChange>;
}

/** `idsOf` picks the sets of one kind that a part names. */
export function holders(idsOf: (content: PartContent) => readonly string[]): Holders {
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
    change(parts, changeOf) {
      const touched = new Map<string, Touched>();
      for (const { before, now } of parts) {
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
      const result = new Map<string, HolderChange>();
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
): HolderChange {
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
 * Equal spans of a few nodes are one object: a node that is relabelled gains thousands of sets, and
 * they are all for it alone.
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
