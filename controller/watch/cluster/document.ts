import { type LastDefinition, readDefinition, type StoredText } from '../../../apis/last-definition.ts';
import type { ClusterNetworkPolicy, Guardrail } from '../../../apis/objects.ts';
import { asFields, type FieldMap } from '../../../apis/schema/json-schema.ts';
import { type ValidateOptions, validateObject } from '../../../apis/validate/object.ts';
import { referencesOf } from '../../../apis/validate/references.ts';
import { formatName } from '../../index/service-index.ts';
import { addObject, emptyContent, type FileContent, LIST_NAMES } from '../content.ts';
import { keepObjects } from '../keep-objects.ts';
import { sameValue } from '../same-value.ts';
import type { Narrow } from './object-store.ts';
import { GUARDRAIL, NODEWALL_API, type Resource } from './resources.ts';
import { rolloutReader } from './rollout-status.ts';

/**
 * A policy, group or Tier, narrowed to the content of a file that holds only this object, so that
 * the rules for files apply to it.
 */
export interface Document {
  /** The object's uid; a different one means a different object with the same name. */
  readonly uid: string;
  readonly generation: number;
  readonly content: FileContent;
  /**
   * Set when this process sees the object, or definitions in its status, for the first time: the
   * version that the status says is in force instead, or with them.
   */
  readonly lastValid: ClusterNetworkPolicy | Guardrail | null;
  /** Those in the status; the same list while they do not change. */
  readonly definitions: readonly LastDefinition[];
  /** Those in the status that are not valid in this version; the same list likewise. */
  readonly unread: readonly StoredText[];
  /** The generation of which the status has the spec; null: of none. */
  readonly saved: number | null;
  /** The Services that it names, as `NAMESPACE/NAME`. */
  readonly services: readonly string[];
}

export function documenting(resource: Resource, options: ValidateOptions): Narrow<Document> {
  return ({ key, raw, version }, before) => {
    const { uid, generation } = raw.metadata as { uid?: unknown; generation?: unknown };
    const fresh = emptyContent(`${resource.name}/${key}`);
    addObject({ content: fresh, options, interned: new Map() }, raw, () => 0);
    const isOurs = NODEWALL_API.includes(resource);
    const withRollout = rolloutReader(raw, version, options, before?.content.policies.objects[0]?.rollout);
    const policies = isOurs ? fresh.policies.objects : [];
    for (const [i, policy] of policies.entries()) policies[i] = withRollout(policy);
    const content = withoutEmpty(keepObjects(fresh, before?.content ?? null));
    const mayStore = isOurs || resource === GUARDRAIL;
    const { definitions, unread } = mayStore ? definitionsIn(raw, options, before ?? NONE) : NONE;
    const isFirst = before === null || definitions !== before.definitions;
    const now = {
      uid: typeof uid === 'string' ? uid : '',
      generation: typeof generation === 'number' ? generation : 0,
      content,
      lastValid: null,
      definitions,
      unread,
      saved: savedIn(raw),
      services: servicesOf(content),
    };
    if (before !== null && isSame(now, before)) return before;
    const enforced = (): ClusterNetworkPolicy | null =>
      isOurs ? enforcedInPlaceOf(raw, options, withRollout) : null;
    return isFirst ? { ...now, lastValid: lastValidOf(now, enforced) } : now;
  };
}

type Stored = Pick<Document, 'definitions' | 'unread'>;

const NONE: Stored = { definitions: [], unread: [] };

/**
 * The definitions in a status were written before the objects could go, when one generation was in
 * force with them: if it is the present one, this is in force. If the present one came with it and
 * was not recorded any more, it is better than none.
 */
function lastValidOf(
  { definitions, generation, content }: Omit<Document, 'lastValid'>,
  enforced: () => ClusterNetworkPolicy | null,
): Document['lastValid'] {
  const present = content.policies.objects[0] ?? content.guardrails.objects[0] ?? null;
  if (definitions.length === 0) return enforced();
  const newest = Math.max(...definitions.map((one) => one.generation));
  return newest === generation ? present : (enforced() ?? present);
}

/** The same lists as before if they are the same. */
function definitionsIn(raw: FieldMap, options: ValidateOptions, before: Stored): Stored {
  const texts = Object.entries(asFields(asFields(raw.status)?.lastDefinitions) ?? {});
  const known = new Map([...before.definitions, ...before.unread].map(({ key, text }) => [key, text]));
  if (texts.length === known.size && texts.every(([key, text]) => known.get(key) === text)) return before;
  const definitions: LastDefinition[] = [];
  const unread: StoredText[] = [];
  for (const [key, text] of texts) {
    const found = readDefinition(key, text, options);
    if (found === null) unread.push({ key, text: String(text) });
    else definitions.push(found);
  }
  return { definitions, unread };
}

function savedIn(raw: FieldMap): number | null {
  const { enforcedGeneration: generation, enforcedSpec } = asFields(raw.status) ?? {};
  return typeof enforcedSpec === 'string' && typeof generation === 'number' ? generation : null;
}

/**
 * Reads the status that controller/status writes; null if there is none, or if it is not valid any
 * more.
 */
function enforcedInPlaceOf(
  raw: FieldMap,
  options: ValidateOptions,
  withRollout: (policy: ClusterNetworkPolicy) => ClusterNetworkPolicy,
): ClusterNetworkPolicy | null {
  const { enforcedGeneration: generation, enforcedSpec } = asFields(raw.status) ?? {};
  if (typeof enforcedSpec !== 'string') return null;
  try {
    const metadata = { ...asFields(raw.metadata), generation };
    const { object } = validateObject({ ...raw, metadata, spec: JSON.parse(enforcedSpec) }, options);
    return object?.kind === 'ClusterNetworkPolicy' ? withRollout(object) : null;
  } catch {
    // Only controllers write this field; a value that isn't JSON is ignored.
    return null;
  }
}

function isSame(now: Document, before: Document): boolean {
  if (now.uid !== before.uid || now.content.rejected.size !== before.content.rejected.size) return false;
  if (now.generation !== before.generation || now.saved !== before.saved) return false;
  if (now.definitions !== before.definitions || now.unread !== before.unread) return false;
  const { rejected: _, ...said } = now.content;
  const { rejected: __, ...was } = before.content;
  return sameValue(said, was);
}

/** Shares one object for all empty lists: there may be 75,000 documents, with eleven lists each. */
function withoutEmpty(content: FileContent): FileContent {
  const lists = LIST_NAMES.filter((list) => content[list].objects.length === 0);
  return { ...content, ...Object.fromEntries(lists.map((list) => [list, EMPTY[list]])) };
}

const EMPTY = emptyContent('');

function servicesOf({ policies, groups, undecided }: FileContent): readonly string[] {
  const objects = [...policies.objects, ...groups.objects];
  const own = objects.flatMap(referencesOf).flatMap((reference) => {
    return reference.to === 'Service' ? [formatName(reference.service)] : [];
  });
  return [...own, ...undecided.flatMap(({ otherwise }) => servicesOf(otherwise))];
}
