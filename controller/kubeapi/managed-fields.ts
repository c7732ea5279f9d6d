import { compareText } from '../../lib/sharing/lists.ts';
/** metadata of an object, as far as it says when it was changed (meta/v1 ObjectMeta). */
export interface ObjectMetadata {
  readonly name: string;
  readonly namespace?: string;
  readonly generation?: number;
  readonly creationTimestamp?: string;
  readonly deletionTimestamp?: string;
  readonly managedFields?: readonly ManagedFields[];
}

interface ManagedFields {
  readonly manager?: string;
  readonly operation?: string;
  readonly time?: string;
  readonly subresource?: string;
  readonly fieldsV1?: unknown;
}

/** The last change of one program in an object. */
export interface ManagerChange {
  /** ISO 8601, of a second. */
  readonly time: string;
  /** The program that sent the request, by its own name: `kubectl-edit`, `argocd-controller`. */
  readonly manager: string;
  /** `Apply` is server-side apply, `Update` all others; `Delete`: it is being deleted. */
  readonly operation: string;
  /** The fields that it determines, as `spec.ingress`; sorted. */
  readonly fields: readonly string[];
  /** Whether the object was created by it. */
  readonly isNew: boolean;
}

/**
 * The last change that each program made to an object, newest first. Earlier ones of the same
 * program, and users' names, are in no object: the API server's audit log has them. Statuses are
 * left out.
 */
export function managerChanges({
  managedFields = [],
  creationTimestamp,
  deletionTimestamp,
}: ObjectMetadata): ManagerChange[] {
  const changes = managedFields
    .filter(({ subresource = '', time }) => subresource === '' && time !== undefined)
    .map(({ manager = '', operation = '', time = '', fieldsV1 }) => {
      return { time, manager, operation, fields: fieldsOf(fieldsV1), isNew: time === creationTimestamp };
    });
  if (deletionTimestamp !== undefined)
    changes.push({ time: deletionTimestamp, manager: '', operation: 'Delete', fields: [], isNew: false });
  return changes.sort((a, b) => compareText(b.time, a.time) || compareText(a.manager, b.manager));
}

/** FieldsV1: a field is a key `f:NAME`, with those below it; two levels are named. */
function fieldsOf(fieldsV1: unknown): string[] {
  return namesOf(fieldsV1)
    .flatMap(([name, below]) => {
      const inner = namesOf(below);
      return inner.length === 0
        ? [name]
        : inner.flatMap(([second, deeper]) => withKeys(`${name}.${second}`, deeper));
    })
    .sort();
}

/** Paths with the keys of annotations and labels: `metadata.annotations:nodewall.io/rollout`. */
function withKeys(path: string, below: unknown): string[] {
  if (path !== 'metadata.annotations' && path !== 'metadata.labels') return [path];
  return namesOf(below).map(([key]) => `${path}:${key}`);
}

function namesOf(fields: unknown): [string, unknown][] {
  if (typeof fields !== 'object' || fields === null) return [];
  return Object.entries(fields).flatMap(([key, below]) =>
    key.startsWith('f:') ? [[key.slice(2), below]] : [],
  );
}
