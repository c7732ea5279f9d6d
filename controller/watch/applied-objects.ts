import type { ClusterObject, ClusterObjects } from '../../apis/objects.ts';
import { displayName, identityOf } from '../../apis/validate/metadata.ts';
import type { ValidateOptions } from '../../apis/validate/object.ts';
import { withAcceptedAddresses } from '../index/accepted-addresses.ts';
import { assemble } from './assemble.ts';
import { contentOf, type FileContent, LIST_NAMES } from './content.ts';
import { NO_LAST_VALID } from './last-valid-versions.ts';
import { ownershipOf } from './manifests.ts';
import type { LoadProblem } from './source.ts';

/** A change of objects: files with those that are applied, and those that are removed. */
interface AppliedChange {
  readonly contents: readonly FileContent[];
  readonly removed: readonly RemovedObject[];
}

/** Objects of both API groups, if both have it. */
export interface RemovedObject {
  /** Without regard to case. */
  readonly kind: string;
  /** With the namespace, where the kind has one. */
  readonly name: string;
}

export interface AppliedObjects {
  readonly objects: ClusterObjects;
  /** Problems of the files, and of objects that refer to removed ones. */
  readonly problems: readonly LoadProblem[];
  /** Objects that should be removed and are not there. */
  readonly absent: readonly RemovedObject[];
}

/**
 * The objects after a change, as `kubectl apply` and `kubectl delete` would leave them: the files'
 * objects take the place of those of the same identity, and may refer to the others.
 */
export function appliedObjects(
  inForce: ClusterObjects,
  { contents, removed }: AppliedChange,
  options: ValidateOptions,
): AppliedObjects {
  const given = new Set(contents.flatMap(identitiesOf));
  const found = new Set<RemovedObject>();
  const stays = (object: ClusterObject): boolean => {
    const matching = removed.filter((one) => isNamed(object, one));
    for (const one of matching) found.add(one);
    return matching.length === 0 && !given.has(identityOf(object));
  };
  const others = contentOf(inForce, LIST_NAMES, stays);
  const { objects, problems } = assemble({
    contents: [others, ...contents],
    lastValidVersions: NO_LAST_VALID,
    unreadable: [],
    lastValid: () => undefined,
    interfaceGroups: options.interfaceGroups,
    namespaceLimits: options.egressConfig?.namespaceLimits,
    egress: null,
  });
  const accepted = withAcceptedAddresses(objects, ownershipOf(options));
  return { objects: accepted, problems, absent: removed.filter((one) => !found.has(one)) };
}

/** Names of all objects, also of those of which their groups decide whether they are for Nodes. */
function identitiesOf(content: FileContent): string[] {
  const own = LIST_NAMES.flatMap((list) => content[list].objects.map(identityOf));
  return [...own, ...content.undecided.flatMap(({ otherwise }) => identitiesOf(otherwise))];
}

function isNamed(object: ClusterObject, { kind, name }: RemovedObject): boolean {
  return object.kind.toLowerCase() === kind.toLowerCase() && displayName(object) === name;
}
