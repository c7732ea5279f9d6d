import type { FieldMap, FieldPath } from '../../apis/schema/json-schema.ts';
import { asFields } from '../../apis/schema/json-schema.ts';
import { listManifests, unreadableProblems } from './manifests.ts';
import { readRaw } from './read-file.ts';
import type { LoadProblem } from './source.ts';

/** An object as it is written, whatever its API group. */
export interface WrittenObject {
  readonly raw: FieldMap;
  readonly file: string;
  readonly lineOf: (path: FieldPath) => number;
}

/**
 * All objects of manifests, as they are written. A path is a directory, read recursively, a file,
 * or `-` for standard input. Never throws for the content of files: `problems` has what is not
 * readable, or no YAML or JSON.
 */
export async function readRawObjects(
  paths: readonly string[],
): Promise<{ readonly objects: readonly WrittenObject[]; readonly problems: readonly LoadProblem[] }> {
  const list = await listManifests(paths);
  const objects: WrittenObject[] = [];
  const problems = unreadableProblems(list);
  for (const file of list.files) {
    const content = await readRaw(file, (value, lineOf) => {
      const raw = asFields(value);
      if (raw !== null) objects.push({ raw, file, lineOf });
    });
    problems.push(...content.problems);
  }
  return { objects, problems };
}
