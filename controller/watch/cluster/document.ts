import type { ClusterNetworkPolicy, NamespacedName } from '../../../apis/objects.ts';
import { asFields, type FieldMap } from '../../../apis/schema/json-schema.ts';
import { type ValidateOptions, validateObject } from '../../../apis/validate/object.ts';
import { referencesOf } from '../../../apis/validate/references.ts';
import { addObject, emptyContent, type FileContent, LISTS } from '../content.ts';
import { keepObjects } from '../keep-objects.ts';
import { sameValue } from '../same-value.ts';
import type { Narrow } from './entries.ts';
import { NODEWALL, type Resource } from './resources.ts';

/**
 * What is made of a policy, group or Tier: the content of a file that holds it alone, since what
 * holds for files holds for it.
 */
export interface Document {
  /** Of the object; with another it is another object of the same name. */
  readonly uid: string;
  readonly content: FileContent;
  /** When this process saw it first: the version that its status says is enforced in its place. */
  readonly lastValid: ClusterNetworkPolicy | null;
  /** Services it names, `NAMESPACE/NAME`. */
  readonly services: readonly string[];
}

export function documenting(resource: Resource, options: ValidateOptions): Narrow<Document> {
  return ({ key, raw }, before) => {
    const { uid } = raw.metadata as { uid?: unknown };
    const fresh = emptyContent(`${resource.name}/${key}`);
    addObject({ content: fresh, options, interned: new Map() }, raw, () => 0);
    const content = withoutEmpty(keepObjects(fresh, before?.content ?? null));
    const now = {
      uid: typeof uid === 'string' ? uid : '',
      content,
      lastValid: before === null && NODEWALL.includes(resource) ? enforcedInPlaceOf(raw, options) : null,
      services: servicesOf(content),
    };
    return before !== null && isSame(now, before) ? before : now;
  };
}

/**
 * Of the status that status/ writes; null where there is none, or where it can't be read any more.
 */
function enforcedInPlaceOf(raw: FieldMap, options: ValidateOptions): ClusterNetworkPolicy | null {
  const { enforcedGeneration: generation, enforcedSpec } = asFields(raw.status) ?? {};
  if (typeof enforcedSpec !== 'string') return null;
  try {
    const metadata = { ...asFields(raw.metadata), generation };
    const { object } = validateObject({ ...raw, metadata, spec: JSON.parse(enforcedSpec) }, options);
    return object?.kind === 'ClusterNetworkPolicy' ? object : null;
  } catch {
    // Nobody but a controller writes it; what isn't JSON is as good as none.
    return null;
  }
}

function isSame(now: Document, before: Document): boolean {
  if (now.uid !== before.uid || now.content.rejected.size !== before.content.rejected.size) return false;
  const { rejected: _, ...said } = now.content;
  const { rejected: __, ...was } = before.content;
  return sameValue(said, was);
}

/** Lists without items are one object: there may be 75,000 documents, with eight lists each. */
function withoutEmpty(content: FileContent): FileContent {
  const lists = Object.values(LISTS).filter((list) => content[list].objects.length === 0);
  return { ...content, ...Object.fromEntries(lists.map((list) => [list, EMPTY[list]])) };
}

const EMPTY = emptyContent('');

function servicesOf({ policies, groups, undecided }: FileContent): readonly string[] {
  const objects = [...policies.objects, ...groups.objects];
  const own = objects.flatMap(referencesOf).flatMap((reference) => {
    return reference.to === 'Service' ? [serviceName(reference.service)] : [];
  });
  return [...own, ...undecided.flatMap(({ otherwise }) => servicesOf(otherwise))];
}

function serviceName({ namespace, name }: NamespacedName): string {
  return `${namespace}/${name}`;
}
