/** Names of nodes. Immutable, so that spans can be compared by object identity first. */
export type Span = ReadonlySet<string>;

/** The receivers of a message: the nodes of any of these spans; null: every node. */
export type Audience = readonly Span[] | null;

export const NOBODY: Span = new Set();

/** Nodes that only one of two spans has. */
export interface SpanChange {
  readonly gained: Span;
  readonly lost: Span;
}

/** Compares spans; each pair once, however many rules it concerns. */
export function spanChanges(): (before: Span, now: Span) => SpanChange {
  const known = new Map<Span, Map<Span, SpanChange>>();
  return (before, now) => {
    const changes = known.get(before) ?? new Map<Span, SpanChange>();
    known.set(before, changes);
    const change = changes.get(now) ?? compare(before, now);
    changes.set(now, change);
    return change;
  };
}

function compare(before: Span, now: Span): SpanChange {
  if (before === now) return { gained: NOBODY, lost: NOBODY };
  if (before.size === 0) return { gained: now, lost: NOBODY };
  if (now.size === 0) return { gained: NOBODY, lost: before };
  return { gained: now.difference(before), lost: before.difference(now) };
}

/** The nodes of both spans; one of the spans itself if it is equal to that. */
export function keptOf(before: Span, now: Span, { gained, lost }: SpanChange): Span {
  if (lost.size === 0) return before;
  return gained.size === 0 ? now : before.difference(lost);
}

export function isFor(audience: Audience, node: string): boolean {
  return audience === null || audience.some((span) => span.has(node));
}
