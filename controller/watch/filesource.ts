import { resolve } from 'node:path';
import type { ClusterObject } from '../../apis/objects.ts';
import { identityOf } from '../../apis/validate/identity.ts';
import type { ValidateOptions } from '../../apis/validate/object.ts';
import { type AssembleInput, assemble, compareProblems, type MergeCache } from './assemble.ts';
import { debounce } from './debounce.ts';
import { type FileList, listFiles } from './filelist.ts';
import { type FileStates, readChanged } from './filestate.ts';
import { unreadableProblems } from './manifests.ts';
import { fromMemoryJson, type MemoryJson, toMemoryJson } from './memory.ts';
import { NO_OBJECTS, type ObjectSource, type Snapshot } from './source.ts';
import { watchPaths } from './watchpaths.ts';

export interface FileSourceOptions extends ValidateOptions {
  /** What `remember` gave before a restart. */
  readonly remembered?: unknown;
  /** Reads when nothing has happened for so long … (milliseconds) */
  readonly quiet?: number;
  /** … or when the first change is so long ago. */
  readonly longest?: number;
  /** Looks by itself at this interval, should the system have told nothing; ten times as often while a path is missing. */
  readonly poll?: number;
}

export interface FileSource extends ObjectSource {
  /** The policies, groups and tiers in force, to be written down: given back as `remembered` after a restart. */
  remember(): MemoryJson;
}

/**
 * The objects of manifest files and directories, delivered again after every change. What becomes invalid or unreadable keeps its
 * last valid version; what is deleted from a file that can be read is gone.
 */
export function fileSource(paths: readonly string[], options: FileSourceOptions = {}): FileSource {
  const { quiet = 15, longest = 100, poll = 5000 } = options;
  const state: State = {
    paths: paths.map((path) => resolve(path)),
    options,
    files: new Map(),
    memory: fromMemoryJson(options.remembered),
    merged: new Map(),
    readable: new Set(),
    snapshot: null,
    unreadable: [],
  };
  let deliver: (snapshot: Snapshot) => void = () => undefined;
  const pass = async (): Promise<void> => {
    const before = state.unreadable.length;
    if (await readAll(state)) deliver(state.snapshot ?? EMPTY);
    if (before > 0 && state.unreadable.length === 0) watcher?.restart();
    timer.refresh(state.unreadable.length > 0 || watcher?.isDeaf() ? poll / 10 : poll);
  };
  const timer = debounce(pass, { quiet, longest });
  let watcher: ReturnType<typeof watchPaths> | null = null;
  return {
    async start(receiver) {
      deliver = receiver;
      watcher = watchPaths(state.paths, timer.trigger);
      await timer.now();
    },
    async close() {
      await Promise.all([timer.close(), watcher?.close()]);
    },
    remember: () => toMemoryJson(state.memory),
  };
}

const EMPTY: Snapshot = { objects: NO_OBJECTS, problems: [], files: 0, complete: false };

interface State {
  readonly paths: readonly string[];
  readonly options: ValidateOptions;
  readonly files: FileStates;
  readonly merged: MergeCache;
  /** Paths that could be read at least once. */
  readonly readable: Set<string>;
  memory: AssembleInput['memory'];
  snapshot: Snapshot | null;
  unreadable: FileList['unreadable'];
}

/** One look at all paths; true where the snapshot is another than before. */
async function readAll(state: State): Promise<boolean> {
  const list = await listFiles(state.paths);
  const changed = await readChanged(state.files, list, state.options);
  const sameTrouble = JSON.stringify(list.unreadable) === JSON.stringify(state.unreadable);
  state.unreadable = list.unreadable;
  if (!changed && sameTrouble && state.snapshot !== null) return false;
  const missing = list.unreadable.map(({ path }) => path);
  for (const path of state.paths) if (!missing.includes(path)) state.readable.add(path);
  const contents = [...state.files.values()].map(({ content }) => content);
  const { objects, problems, memory } = assemble({
    contents,
    memory: state.memory,
    unreadable: missing,
    lastValid: lastValidOf(state.snapshot),
    merged: state.merged,
    interfaceGroups: state.options.interfaceGroups,
  });
  state.memory = memory;
  state.snapshot = {
    objects,
    problems: [...unreadableProblems(list), ...problems].sort(compareProblems),
    files: contents.length,
    complete: state.paths.every((path) => state.readable.has(path)),
  };
  return true;
}

/** Looks objects up in the last snapshot; the index is made when the first is asked for, which is rare. */
function lastValidOf(snapshot: Snapshot | null): AssembleInput['lastValid'] {
  let index: Map<string, ClusterObject> | null = null;
  return (identity) => {
    const { nodes, namespaces, pods, services, endpointSlices } = snapshot?.objects ?? NO_OBJECTS;
    const objects = [nodes, namespaces, pods, services, endpointSlices];
    index ??= new Map(objects.flat().map((object) => [identityOf(object), object]));
    return index.get(identity);
  };
}
