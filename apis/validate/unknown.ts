import { nearest } from './nearest.ts';
import { show } from './problem.ts';

/** As many names are listed where none is near. */
const MOST_LISTED = 8;

export interface KnownNames {
  readonly known: Iterable<string>;
  /** Goes before the names where all are listed. */
  readonly label?: string;
}

/** A reference to nothing, in words that say what there is. */
export function describeUnknown(kind: string, name: string, names: KnownNames): string {
  const known = [...new Set(names.known)].sort();
  const near = nearest(name, known);
  const { label = `there ${known.length === 1 ? 'is' : 'are'}` } = names;
  if (near !== null) return `there is no ${kind} ${show(name)}; did you mean ${near}?`;
  if (known.length === 0) return `there is no ${kind} ${show(name)}, nor any other`;
  const listed = known.slice(0, MOST_LISTED).join(', ');
  const more = known.length > MOST_LISTED ? ` and ${known.length - MOST_LISTED} more` : '';
  return `there is no ${kind} ${show(name)}; ${label} ${listed}${more}`;
}
