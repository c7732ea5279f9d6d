/**
 * The candidate that a mistyped word most likely stands for, or null. A candidate that differs in
 * case, or by at most two edits (fewer for short words), counts as near.
 */
export function nearest(word: string, candidates: readonly string[]): string | null {
  if (word.length > 64) return null;
  const lower = word.toLowerCase();
  let best: string | null = null;
  let least = Math.min(2, Math.floor(word.length / 3)) + 1;
  for (const candidate of candidates) {
    if (Math.abs(candidate.length - word.length) >= least) continue;
    const distance = edits(lower, candidate.toLowerCase(), least);
    if (distance < least) {
      least = distance;
      best = candidate;
    }
  }
  return best;
}

/** `; did you mean X?`, or '' if no candidate is near. */
export function suggestion(word: string, candidates: readonly string[]): string {
  const near = nearest(word, candidates);
  return near === null || near === word ? '' : `; did you mean ${near}?`;
}

/**
 * The number of insertions, deletions and replacements that turn one word into the other; `limit`
 * if it is that or more.
 */
function edits(a: string, b: string, limit: number): number {
  let row = Array.from({ length: b.length + 1 }, (_, i) => i);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const replace = (row[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1);
      next.push(Math.min((row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1, replace));
    }
    if (Math.min(...next) >= limit) return limit;
    row = next;
  }
  return row[b.length] ?? 0;
}
