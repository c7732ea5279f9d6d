import type { ClusterObject, Problem } from '../../apis/objects.ts';
import type { FieldMap } from '../../apis/schema/json-schema.ts';
import { claimedIdentity, displayName } from '../../apis/validate/metadata.ts';
import {
  type CrossProblem,
  formatPath,
  formatProblem,
  type ObjectProblem,
} from '../../apis/validate/problem.ts';
import type { Admission, Rejection } from './review.ts';

export const ALLOWED: Admission = { rejection: null, patch: [], warnings: [] };

/** All problems of the object itself that its validation lists; a few of those of others. */
export const MOST_OWN = 100;
export const MOST_OTHERS = 10;

export function refuse(
  lines: readonly string[],
  isTransient: boolean,
  reason: Rejection['reason'] = 'Invalid',
): Admission {
  return { ...ALLOWED, rejection: { reason, message: lines.join('\n'), isTransient } };
}

export function shown(problems: readonly CrossProblem<ClusterObject>[], most: number): string[] {
  const lines = problems.slice(0, most).map(({ object, problem }) => {
    return formatLine(object.kind, displayName(object), problem);
  });
  return problems.length > most ? [...lines, `and ${problems.length - most} more`] : lines;
}

/** The problems of an object as it was sent. */
export function problemLines(raw: FieldMap, problems: readonly ObjectProblem[]): string[] {
  const { kind, name } = claimedIdentity(raw);
  if (problems.length === 0) return [`${kind}/${name}: is of an unknown kind`];
  return problems.map((problem) => formatLine(kind, name, problem));
}

function formatLine(kind: string, name: string, { path, ...problem }: ObjectProblem): string {
  const whole: Problem = { ...problem, file: '', line: 0, kind, name, path: formatPath(path) };
  return formatProblem(whole);
}

/** Without severity and the object's name, which are added to all of its warnings. */
export function toWarning({ path, message }: ObjectProblem): string {
  return path.length === 0 ? message : `${formatPath(path)}: ${message}`;
}
