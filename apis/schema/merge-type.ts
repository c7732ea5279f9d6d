/**
 * How server-side apply merges what several field managers state. Every object and list of the
 * CustomResourceDefinitions says it: the API server takes objects for granular otherwise, and where
 * the last field of a granular object is taken away the merge leaves null, not {}.
 */

/** Each field is its own manager's. */
export const GRANULAR_OBJECT = { type: 'object', 'x-kubernetes-map-type': 'granular' } as const;

/**
 * One value: whoever states it states all of it. A selector of two halves from two managers would
 * select what neither asked for.
 */
export const ATOMIC_OBJECT = { type: 'object', 'x-kubernetes-map-type': 'atomic' } as const;

/** One value: the order counts, or items have no name by which they could be told apart. */
export const ATOMIC_LIST = { type: 'array', 'x-kubernetes-list-type': 'atomic' } as const;

/** Items are told apart by a field of theirs. */
export function listByKey(key: string) {
  return { type: 'array', 'x-kubernetes-list-type': 'map', 'x-kubernetes-list-map-keys': [key] } as const;
}
