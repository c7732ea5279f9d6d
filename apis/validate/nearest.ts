import { show } from './problem.ts';

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

/** Number of names that are listed if none is near. */
const MOST_LISTED = 8;
/** With more names than this none is suggested: each unknown name is compared with all of them. */
const MOST_COMPARED = 500;

interface KnownNames {
  /** As sortedNames returns them. */
  readonly known: readonly string[];
  /** Text before the names where they are listed. */
  readonly label?: string;
}

/** The names of objects, each once. */
export function sortedNames(objects: Iterable<{ readonly name: string }>): readonly string[] {
  return [...new Set(Array.from(objects, ({ name }) => name))].sort();
}

/** The message for a reference to something that does not exist, with the names that do. */
export function describeUnknown(kind: string, name: string, names: KnownNames): string {
  const { known, label = `there ${names.known.length === 1 ? 'is' : 'are'}` } = names;
  const near = known.length > MOST_COMPARED ? null : nearest(name, known);
  if (near !== null) return `there is no ${kind} ${show(name)}; did you mean ${near}?`;
  if (known.length === 0) return `there is no ${kind} ${show(name)}; no ${kind} exists`;
  const listed = known.slice(0, MOST_LISTED).join(', ');
  const more = known.length > MOST_LISTED ? ` and ${known.length - MOST_LISTED} more` : '';
  return `there is no ${kind} ${show(name)}; ${label} ${listed}${more}`;
}

/**
 * The consequence for an object that names it. The message may end with a suggestion as a question.
 */
export function untilThen(message: string): string {
  const then = 'ntil it exists, this version is not enforced';
  return message.endsWith('?') ? `${message} U${then}` : `${message}; u${then}`;
}
