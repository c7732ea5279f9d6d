import { asFields, type FieldMap, type FieldPath } from '../schema/json-schema.ts';

/** One object out of a document, with its place there. */
export interface Item {
  readonly raw: unknown;
  readonly path: FieldPath;
}

/** Lists in lists in lists: nobody writes more by intention. */
const DEEPEST = 10;

/** Whether an object is a List (v1 List, PodList, …): its `items` are objects of their own. */
export function isList(raw: FieldMap): boolean {
  return typeof raw.kind === 'string' && raw.kind.endsWith('List') && Array.isArray(raw.items);
}

/** Kinds that are lists of what is read here; another kind may end in List and be none. */
const LISTS = [
  'List',
  'NodeList',
  'PodList',
  'NamespaceList',
  'ServiceList',
  'EndpointSliceList',
  'TierList',
  'ClusterNetworkPolicyList',
  'ClusterGroupList',
];

/**
 * Whether an object says that it is a List and holds no list: what it should hold would be lost
 * without a word.
 */
export function isListWithoutItems(raw: FieldMap): boolean {
  return typeof raw.kind === 'string' && LISTS.includes(raw.kind) && !Array.isArray(raw.items);
}

/**
 * The objects in a document: itself, or what a list in it holds, at any depth. What the API hands
 * out as a typed list (PodList) doesn't repeat kind and apiVersion in its items; they are filled
 * in.
 */
export function* unwrapList(raw: unknown, path: FieldPath = []): Generator<Item> {
  const fields = asFields(raw);
  if (fields === null || !isList(fields) || path.length >= 2 * DEEPEST) {
    yield { raw, path };
    return;
  }
  for (const [index, item] of (fields.items as readonly unknown[]).entries()) {
    yield* unwrapList(withKind(item, fields), [...path, 'items', index]);
  }
}

/** An item of a typed list with the kind and apiVersion of its list. */
export function withKind(item: unknown, { kind, apiVersion }: FieldMap): unknown {
  const fields = asFields(item);
  if (fields === null || kind === 'List' || 'kind' in fields || 'apiVersion' in fields) return item;
  return { ...fields, apiVersion, kind: String(kind).slice(0, -'List'.length) };
}
