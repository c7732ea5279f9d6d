import type { ClusterNetworkPolicy } from '../../apis/objects.ts';
import type { ValidateOptions } from '../../apis/validate/object.ts';
import { assemble, compareProblems } from './assemble.ts';
import type { FileContent } from './content.ts';
import { type FileList, listFiles } from './file-list.ts';
import { NO_LAST_VALID } from './last-valid-versions.ts';
import { readManifest } from './read-file.ts';
import type { Loaded, LoadProblem } from './source.ts';

/** The position of each policy, for later stages that report problems. */
export type Places = ReadonlyMap<ClusterNetworkPolicy, { readonly file: string; readonly line: number }>;

/**
 * Reads manifests once. A path is a directory, read recursively, or a file. Never throws for the
 * content of files: what is invalid, unreadable or not valid YAML is left out and reported in
 * `problems`.
 *
 * @param lastValidVersions stand for what is invalid, as for an agent that has saved them
 */
export async function loadManifests(
  paths: readonly string[],
  options: ValidateOptions = {},
  lastValidVersions = NO_LAST_VALID,
): Promise<Loaded & { readonly places: Places }> {
  const { contents, list } = await readManifests(paths, options);
  const assembled = assemble({
    ...{ contents, lastValidVersions },
    unreadable: list.unreadable.map(({ path }) => path),
    lastValid: () => undefined,
    interfaceGroups: options.interfaceGroups,
    egress: options.egressConfig,
    namespaceLimits: options.egressConfig?.namespaceLimits,
  });
  const problems = [...unreadableProblems(list), ...assembled.problems].sort(compareProblems);
  const places: Places = new Map(
    contents.flatMap(({ file, policies: { objects, lines } }) =>
      objects.map((policy, i) => [policy, { file, line: lines[i] ?? 0 }] as const),
    ),
  );
  return { objects: assembled.objects, problems, files: list.files.length, places };
}

/** Each file of manifests by itself, and which there are. */
export async function readManifests(
  paths: readonly string[],
  options: ValidateOptions,
): Promise<{ readonly contents: readonly FileContent[]; readonly list: FileList }> {
  const list = await listFiles(paths);
  const contents = [];
  for (const file of list.files) contents.push(await readManifest(file, options));
  return { contents, list };
}

export function unreadableProblems({ unreadable }: Pick<FileList, 'unreadable'>): LoadProblem[] {
  return unreadable.map(({ path, reason }) => {
    return {
      severity: 'error',
      file: path,
      line: 0,
      kind: '',
      name: '',
      path: '',
      message: reason,
      unreadable: true,
    };
  });
}
