import { lstat } from 'node:fs/promises';
import { basename, resolve } from 'node:path';
import { type ClusterObject, NO_OBJECTS } from '../../apis/objects.ts';
import { identityOf } from '../../apis/validate/metadata.ts';
import type { ValidateOptions } from '../../apis/validate/object.ts';
import { Debounce } from '../../lib/process/timers.ts';
import { AcceptedAddresses } from '../index/accepted-addresses.ts';
import { type AssembleInput, compareProblems, type MergeCache } from './assemble.ts';
import { assembler } from './assembler.ts';
import { type FileStates, readChanged, readFiles } from './file-state.ts';
import { type FileList, isManifestName, listFiles } from './files.ts';
import { fromLastValidJson, type LastValidJson, toLastValidJson } from './last-valid-versions.ts';
import { acceptNodes, ownershipOf, unreadableProblems } from './manifests.ts';
import type { ObjectSource, Snapshot } from './source.ts';
import { type PathWatcher, watchPaths } from './watch-paths.ts';

export interface FileSourceOptions extends ValidateOptions {
  /** The value of `remember` before a restart. */
  readonly remembered?: unknown;
  /** Reads when there was no event for this time (milliseconds) … */
  readonly quiet?: number;
  /** … or when the first event is this long ago (milliseconds). */
  readonly longest?: number;
  /**
   * Polls at this interval, in case an event was missed (milliseconds); ten times as often while a
   * path is missing or can't be watched.
   */
  readonly poll?: number;
}

export interface FileSource extends ObjectSource {
  /**
   * The policies, groups and tiers in force, to be saved and passed as `remembered` after a
   * restart.
   */
  remember(): LastValidJson;
}

/**
 * The objects of manifest files and directories, delivered again after every change. An object that
 * becomes invalid or unreadable keeps its last valid version; an object that was deleted from a
 * readable file is removed.
 */
export function fileSource(paths: readonly string[], options: FileSourceOptions = {}): FileSource {
  const { quiet = 15, longest = 100, poll = 5000 } = options;
  const state: State = {
    paths: paths.map((path) => resolve(path)),
    options,
    files: new Map(),
    lastValidVersions: fromLastValidJson(options.remembered, options.egress ?? false),
    merged: new Map(),
    assemble: assembler(),
    accepted: new AcceptedAddresses(ownershipOf(options)),
    readable: new Set(),
    snapshot: null,
    unreadable: [],
    directories: new Set(),
    hasLinks: false,
  };
  let deliver: (snapshot: Snapshot) => void = () => undefined;
  let touched: Touched = new Set();
  const watcher = watchPaths(state.paths, (path) => {
    if (path === null) touched = null;
    else touched?.add(path);
    timer.trigger();
  });
  let look = { at: Number.NEGATIVE_INFINITY, wait: poll };
  /**
   * Reads the files with events; reads all if an event isn't specific enough, or if a poll is due.
   */
  const pass = async (): Promise<void> => {
    const paths = touched;
    touched = new Set();
    const start = performance.now();
    const isTime = start >= look.at + look.wait - 1;
    const some = paths?.size === 0 && !isTime ? false : await readSome(state, paths, watcher);
    const changed = some ?? (await readAll(state, watcher));
    if (some === null) look = lookedNow(changed ? 0 : performance.now() - start);
    if (changed) deliver(state.snapshot ?? EMPTY);
    timer.refresh(Math.max(0, look.at + look.wait - performance.now()));
  };
  /**
   * The next poll. One over many files that takes long (milliseconds) and finds nothing to read is
   * repeated less often, so that polling takes only a small share of a core.
   */
  const lookedNow = (took: number): { at: number; wait: number } => {
    const wait = Math.max(poll, took * REST);
    const isBlind = state.unreadable.length > 0 || watcher.isDeaf();
    return { at: performance.now(), wait: isBlind ? wait / 10 : wait };
  };
  const timer = new Debounce(pass, { quiet, longest });
  return {
    async start(receiver) {
      deliver = receiver;
      await timer.now();
    },
    async close() {
      watcher.close();
      await timer.close();
    },
    remember: () => toLastValidJson(state.lastValidVersions),
  };
}

/**
 * The paths with events since the last read; null: an event without a path. Empty: a poll is due.
 */
type Touched = Set<string> | null;

/** A poll is followed by a pause of this many times its duration. */
const REST = 200;

const EMPTY: Snapshot = { objects: NO_OBJECTS, problems: [], files: 0, complete: false };

interface State {
  readonly paths: readonly string[];
  readonly options: ValidateOptions;
  readonly files: FileStates;
  readonly merged: MergeCache;
  readonly assemble: ReturnType<typeof assembler>;
  readonly accepted: AcceptedAddresses;
  /** Paths that could be read at least once. */
  readonly readable: Set<string>;
  lastValidVersions: AssembleInput['lastValidVersions'];
  snapshot: Snapshot | null;
  unreadable: FileList['unreadable'];
  /** From the last list; so is `hasLinks`, whether a symbolic link led to anything. */
  directories: ReadonlySet<string>;
  hasLinks: boolean;
}

/**
 * Reads the files with events if all of them are known files. Returns true if the snapshot changed,
 * null if all paths must be read.
 */
async function readSome(state: State, touched: Touched, watcher: PathWatcher): Promise<boolean | null> {
  if (touched === null || touched.size === 0 || touched.size > MOST_TOUCHED) return null;
  if (state.snapshot === null || state.unreadable.length > 0 || watcher.isDeaf()) return null;
  const files: string[] = [];
  for (const path of touched) {
    const what = await whatChanged(state, path);
    if (what === 'much') return null;
    if (what === 'file') files.push(path);
  }
  if (!(await readFiles(state.files, files, state.options))) return false;
  takeUp(state, { unreadable: [] });
  return true;
}

/** For more files, reading all of them is as fast. */
const MOST_TOUCHED = 100;

/**
 * `file`: a known manifest; `nothing`: not a manifest, such as an editor's temporary file; `much`:
 * all paths must be read.
 */
async function whatChanged(
  { files, directories, hasLinks }: State,
  path: string,
): Promise<'file' | 'nothing' | 'much'> {
  const name = basename(path);
  const known = files.has(path);
  // A link elsewhere may lead through it.
  if (name.startsWith('.') && !known) return hasLinks ? 'much' : 'nothing';
  try {
    const info = await lstat(path);
    if (!info.isFile()) return 'much';
    if (known) return 'file';
    return isManifestName(name) ? 'much' : 'nothing';
  } catch {
    return known || directories.has(path) ? 'much' : 'nothing';
  }
}

/**
 * Limit of repeated lists that each find something new to watch; later changes cause events,
 * because by then everything found is watched.
 */
const MOST_LISTS = 5;

/** Reads all paths; returns true if the snapshot changed. */
async function readAll(state: State, watcher: PathWatcher): Promise<boolean> {
  let list = await listFiles(state.paths);
  for (let i = 0; watcher.follow(list) && i < MOST_LISTS; i++) list = await listFiles(state.paths);
  state.directories = new Set(list.directories.map(({ path }) => path));
  state.hasLinks = list.links.length > 0;
  const changed = await readChanged(state.files, list, state.options);
  const sameTrouble = JSON.stringify(list.unreadable) === JSON.stringify(state.unreadable);
  state.unreadable = list.unreadable;
  if (!changed && sameTrouble && state.snapshot !== null) return false;
  const missing = list.unreadable.map(({ path }) => path);
  for (const path of state.paths) if (!missing.includes(path)) state.readable.add(path);
  takeUp(state, list);
  return true;
}

/** Makes the snapshot from the current content of the files. */
function takeUp(state: State, list: Pick<FileList, 'unreadable'>): void {
  const contents = [...state.files.values()].map(({ content }) => content);
  const { lastValidVersions, ...assembled } = state.assemble({
    contents,
    lastValidVersions: state.lastValidVersions,
    unreadable: list.unreadable.map(({ path }) => path),
    lastValid: lastValidOf(state.snapshot),
    merged: state.merged,
    interfaceGroups: state.options.interfaceGroups,
    egress: state.options.egressConfig,
    namespaceLimits: state.options.egressConfig?.namespaceLimits,
  });
  state.lastValidVersions = lastValidVersions;
  const { objects, problems } = acceptNodes(assembled, contents, state.accepted);
  state.snapshot = {
    objects,
    problems: [...unreadableProblems(list), ...problems].sort(compareProblems),
    files: contents.length,
    complete: state.paths.every((path) => state.readable.has(path)),
  };
}

/** Looks up objects in the last snapshot; the index is built on first use, which is rare. */
function lastValidOf(snapshot: Snapshot | null): AssembleInput['lastValid'] {
  let index: Map<string, ClusterObject> | null = null;
  return (identity) => {
    const { nodes, namespaces, pods, services, endpointSlices, insideNetworks } =
      snapshot?.objects ?? NO_OBJECTS;
    const objects = [nodes, namespaces, pods, services, endpointSlices, insideNetworks];
    index ??= new Map(objects.flat().map((object) => [identityOf(object), object]));
    return index.get(identity);
  };
}
