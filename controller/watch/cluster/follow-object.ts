import { isDeepStrictEqual } from 'node:util';
import type { FieldMap } from '../../../apis/schema/json-schema.ts';
import { type Reflector, type ReflectorOptions, reflector } from './reflector.ts';
import type { Resource } from './resources.ts';

/** The options common to all followers of single objects. */
export type Following = Pick<ReflectorOptions<unknown>, 'get' | 'times' | 'random' | 'notice'>;

interface FollowOptions<T> extends Following {
  readonly apiVersion: string;
  readonly kind: string;
  readonly plural: string;
  /** Absent: the object is cluster-scoped. */
  readonly namespace?: string;
  readonly name: string;
  /** Extracts the relevant part of the object. */
  readonly read: (object: FieldMap) => T;
  /** Called at first, and whenever the relevant part changes; null if the object doesn't exist. */
  readonly changed: (now: T | null) => void;
}

/**
 * Follows one object. For RBAC, the list and the watch are restricted to its name (list and watch
 * with resourceNames).
 */
export function followObject<T>(options: FollowOptions<T>): Reflector {
  const { apiVersion, kind, plural, namespace, name, read, changed, ...following } = options;
  let isFirst = true;
  const resource = {
    name: [plural, namespace, name].filter((part) => part !== undefined).join('/'),
    kind,
    apiVersion,
    plural: namespace === undefined ? plural : `namespaces/${namespace}/${plural}`,
    isCustom: false,
    fieldSelector: `metadata.name=${name}`,
  };
  return reflector<{ readonly value: T }>({
    ...following,
    // The reflector uses a resource's kind only to set it in the objects.
    resource: resource as unknown as Resource,
    narrow({ raw }, before) {
      const value = read(raw);
      return before !== null && isDeepStrictEqual(before.value, value) ? before : { value };
    },
    changed(changes) {
      for (const { before, now } of changes) if (before !== now) changed(now?.value ?? null);
      if (isFirst && changes.length === 0) changed(null);
      isFirst = false;
    },
  });
}
