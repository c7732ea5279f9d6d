/** Names of nodes. Never changed once it is made: who compares spans compares objects first. */
export type Span = ReadonlySet<string>;

/** Whom a message is for: the nodes of any of these spans, or (null) every node. */
export type Audience = readonly Span[] | null;

export const NOBODY: Span = new Set();

/** Nodes that one span has and the other doesn't. */
export interface SpanChange {
  readonly gained: Span;
  readonly lost: Span;
}

/** Compares spans; each pair once, however many rules went from the one to the other. */
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

/** The nodes of both; one of the spans itself where that says it. */
export function keptOf(before: Span, now: Span, { gained, lost }: SpanChange): Span {
  if (lost.size === 0) return before;
  return gained.size === 0 ? now : before.difference(lost);
}

export function isFor(audience: Audience, node: string): boolean {
  return audience === null || audience.some((span) => span.has(node));
}
