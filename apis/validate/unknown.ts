import { nearest } from './nearest.ts';
import { show } from './problem.ts';

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
