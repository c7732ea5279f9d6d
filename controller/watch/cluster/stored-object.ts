import type { ClusterObject } from '../../../apis/objects.ts';
import { claimedIdentity } from '../../../apis/validate/metadata.ts';
import { type ValidateOptions, validateObject } from '../../../apis/validate/object.ts';
import { formatPath, hasError } from '../../../apis/validate/problem.ts';
import { type Interned, internObject } from '../content.ts';
import { sameValue } from '../same-value.ts';
import type { LoadProblem } from '../source.ts';
import type { Narrow } from './object-store.ts';

/**
 * The stored form of a Node, Namespace, Pod, Service or EndpointSlice: the object itself if it has
 * no problems.
 */
export type StoredObject = ClusterObject | FlawedObject;

export interface FlawedObject {
  readonly kind: 'Flawed';
  /**
   * The last valid version if the current one is invalid; null if there is none, or if nodewall
   * doesn't use the object.
   */
  readonly object: ClusterObject | null;
  readonly problems: readonly LoadProblem[];
}

/**
 * The most interned labels and strings. Beyond it the map is cleared, so that those of deleted
 * objects are released too.
 */
const MOST_INTERNED = 200_000;

export function narrowing(options: ValidateOptions): Narrow<StoredObject> {
  const interned: Interned = new Map();
  return ({ raw }, before) => {
    if (interned.size > MOST_INTERNED) interned.clear();
    const validated = validateObject(raw, options);
    const earlier = objectOf(before);
    const isRejected = validated.object === null && hasError(validated.problems);
    const found = validated.object === null ? null : internObject(validated.object, interned);
    const isSame = isRejected || (found !== null && sameValue(found, earlier));
    const object = isSame ? earlier : found;
    if (validated.problems.length === 0) return object;
    const { kind, name } = claimedIdentity(raw);
    const problems = validated.problems.map(({ severity, path, message }): LoadProblem => {
      return { severity, file: '', line: 0, kind, name, path: formatPath(path), message };
    });
    const same =
      before?.kind === 'Flawed' && before.object === object && sameValue(before.problems, problems);
    return same ? before : { kind: 'Flawed', object, problems };
  };
}

export function objectOf(stored: StoredObject | null): ClusterObject | null {
  return stored?.kind === 'Flawed' ? stored.object : stored;
}

export function problemsOf(stored: StoredObject | null): readonly LoadProblem[] {
  return stored?.kind === 'Flawed' ? stored.problems : NONE;
}

const NONE: readonly LoadProblem[] = [];
