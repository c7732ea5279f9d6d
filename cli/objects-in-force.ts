import type { Config } from '../apis/config.ts';
import type { ClusterObjects } from '../apis/objects.ts';
import { validateOptions } from '../apis/validate/object.ts';
import {
  type AppliedObjects,
  appliedObjects,
  type RemovedObject,
} from '../controller/watch/applied-objects.ts';
import { loadManifests, readManifests, unreadableProblems } from '../controller/watch/manifests.ts';
import { CommandError, EXIT } from '../lib/process/exit.ts';
import { hasErrors, printProblems } from './load.ts';
import { MachineNode } from './machine-node.ts';
import { readSavedManifests, type SavedManifests } from './saved-manifests.ts';

/** A change as it is given on the command line. */
export interface ChangeOptions {
  /** Files or directories of manifests that are applied. */
  readonly file: readonly string[];
  /** KIND/NAME. */
  readonly remove: readonly string[];
}

/**
 * The objects that the stand-alone agent of this machine enforces: of the manifests that it reads,
 * with the last valid versions that it saved. Throws a CommandError if it reads none.
 */
export async function machineObjects(stateDir: string, config: Config): Promise<ClusterObjects> {
  let saved: SavedManifests | null;
  try {
    saved = await readSavedManifests(stateDir);
  } catch (error) {
    throw new CommandError(EXIT.refused, `${(error as Error).message}: this needs root`, { cause: error });
  }
  if (saved === null)
    throw new CommandError(
      EXIT.usage,
      `no agent with --manifests has saved its state in ${stateDir}: give --node or --all-nodes for nodes of a cluster, or the agent's --state-dir`,
    );
  const options = { ...validateOptions(config), failsafe: null, egress: true };
  const { objects } = await loadManifests(saved.paths, options, saved.lastValid);
  return new MachineNode(options).with(objects);
}

/**
 * The objects with a change. Throws a CommandError (EXIT.refused) if the files have errors, or if
 * objects refer to what is removed: of a part of a change nothing can be said.
 */
export async function objectsAfterChange(
  inForce: ClusterObjects,
  { file, remove }: ChangeOptions,
  config: Config,
): Promise<ClusterObjects> {
  if (file.length === 0 && remove.length === 0)
    throw new CommandError(EXIT.usage, 'give the change: -f FILE, --remove KIND/NAME, or both');
  const removed = remove.map(toRemoved);
  const options = { ...validateOptions(config), failsafe: null, egress: true };
  const { contents, list } = await readManifests(file, options);
  const { objects, problems, absent }: AppliedObjects = appliedObjects(
    inForce,
    { contents, removed },
    options,
  );
  const all = [...unreadableProblems(list), ...problems];
  printProblems(all, '');
  const [first] = absent;
  if (first !== undefined)
    throw new CommandError(EXIT.usage, `--remove: there is no ${first.kind}/${first.name}`);
  if (hasErrors(all)) throw new CommandError(EXIT.refused, 'the change cannot be applied; see above');
  return objects;
}

/** Kinds that rules are made of. */
const REMOVABLE = ['ClusterNetworkPolicy', 'ClusterGroup', 'Tier'];

function toRemoved(text: string): RemovedObject {
  const [kind = '', name = '', ...more] = text.split('/');
  const known = REMOVABLE.find((one) => one.toLowerCase() === kind.toLowerCase());
  if (known !== undefined && name !== '' && more.length === 0) return { kind: known, name };
  throw new CommandError(
    EXIT.usage,
    `--remove: ${JSON.stringify(text)}: must be KIND/NAME, with ${REMOVABLE.join(', ')} as KIND`,
  );
}
