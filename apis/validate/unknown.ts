import { nearest } from './nearest.ts';
import { show } from './problem.ts';

/** Number of names that are listed if none is near. */
const MOST_LISTED = 8;

export interface KnownNames {
  readonly known: Iterable<string>;
  /** Text before the names where they are listed. */
  readonly label?: string;
}

/** The message for a reference to something that does not exist, with the names that do. */
export function describeUnknown(kind: string, name: string, names: KnownNames): string {
  const known = [...new Set(names.known)].sort();
  const near = nearest(name, known);
  const { label = `there ${known.length === 1 ? 'is' : 'are'}` } = names;
  if (near !== null) return `there is no ${kind} ${show(name)}; did you mean ${near}?`;
  if (known.length === 0) return `there is no ${kind} ${show(name)}; no ${kind} exists`;
  const listed = known.slice(0, MOST_LISTED).join(', ');
  const more = known.length > MOST_LISTED ? ` and ${known.length - MOST_LISTED} more` : '';
  return `there is no ${kind} ${show(name)}; ${label} ${listed}${more}`;
}
