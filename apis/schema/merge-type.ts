/**
 * How server-side apply merges the values of several field managers. Every object and list of the
 * CustomResourceDefinitions declares it: the API server treats objects as granular by default, and
 * when the last field of a granular object is removed, the merge leaves null instead of {}.
 */

/** Each field is managed separately. */
export const GRANULAR_OBJECT = { type: 'object', 'x-kubernetes-map-type': 'granular' } as const;

/**
 * Managed as one value: a manager that sets it sets all of it. A selector merged from two managers
 * would select what neither asked for.
 */
export const ATOMIC_OBJECT = { type: 'object', 'x-kubernetes-map-type': 'atomic' } as const;

/** Managed as one value: the order matters, or items have no key that identifies them. */
export const ATOMIC_LIST = { type: 'array', 'x-kubernetes-list-type': 'atomic' } as const;

/** Items are identified by the field `key`. */
export function listByKey(key: string) {
  return { type: 'array', 'x-kubernetes-list-type': 'map', 'x-kubernetes-list-map-keys': [key] } as const;
}
