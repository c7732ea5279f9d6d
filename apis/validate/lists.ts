import { asFields, type FieldMap, type FieldPath } from '../schema/json-schema.ts';

/** One object of a document, with its path there. */
interface Item {
  readonly raw: unknown;
  readonly path: FieldPath;
}

/** Limit of lists nested in lists; deeper nesting is not expected in practice. */
const DEEPEST = 10;

/** Whether an object is a List (v1 List, PodList, …), whose `items` are objects. */
export function isList(raw: FieldMap): boolean {
  return typeof raw.kind === 'string' && raw.kind.endsWith('List') && Array.isArray(raw.items);
}

/** Lists of the kinds that nodewall reads. Another kind may end in List without being a list. */
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
  'EgressGatewayList',
  'EgressPolicyList',
  'ClusterEgressPolicyList',
  'ServiceCIDRList',
  'IPPoolList',
];

/**
 * Whether an object is of a List kind but has no list of items: its objects would be lost silently.
 */
export function isListWithoutItems(raw: FieldMap): boolean {
  return typeof raw.kind === 'string' && LISTS.includes(raw.kind) && !Array.isArray(raw.items);
}

/**
 * The objects in a document: the document itself, or the items of a list in it, at any depth. The
 * API's typed lists (PodList) omit kind and apiVersion in their items; these are filled in.
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

/** An item of a typed list, with kind and apiVersion taken from the list. */
export function withKind(item: unknown, { kind, apiVersion }: FieldMap): unknown {
  const fields = asFields(item);
  if (fields === null || kind === 'List' || 'kind' in fields || 'apiVersion' in fields) return item;
  return { ...fields, apiVersion, kind: String(kind).slice(0, -'List'.length) };
}
