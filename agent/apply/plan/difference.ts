import { others } from '../../render/alike.ts';
import { NamedList } from '../../render/named-list.ts';

/** What two maps of named things differ in. */
export interface Difference<Held, Desired> {
  /** In the order in which they are wanted. */
  readonly added: readonly Desired[];
  /** There under the same name, but not the same object. */
  readonly changed: readonly Change<Held, Desired>[];
  /** Names. */
  readonly gone: readonly string[];
}

export interface Change<Held, Desired> {
  readonly held: Held;
  readonly desired: Desired;
}

/**
 * Told by identity: what is the same object costs no look at it. Both maps are walked side by side,
 * so where they have the same order, as two rulesets of which one was made of the other do, only
 * what differs is looked up by name.
 */
export function difference<Held, Desired extends Held & { readonly name: string }>(
  held: ReadonlyMap<string, Held>,
  desired: ReadonlyMap<string, Desired>,
): Difference<Held, Desired> {
  const added: Desired[] = [];
  const changed: Change<Held, Desired>[] = [];
  const gone: string[] = [];
  if ((held as ReadonlyMap<string, unknown>) === desired) return { added, changed, gone };
  if (held instanceof NamedList && desired instanceof NamedList) return listDifference(held, desired);
  // Names are asked for where the objects differ only, hence two iterators: one of them is mostly
  // behind.
  const objects = held.values();
  const names = held.keys();
  let behind = 0;
  let next = objects.next();
  let nextName: string | undefined;
  const advance = (): void => {
    next = objects.next();
    nextName = undefined;
    behind++;
  };
  const nameOfNext = (): string | undefined => {
    if (next.done) return undefined;
    if (nextName !== undefined) return nextName;
    for (; behind > 0; behind--) names.next();
    nextName = names.next().value;
    behind--;
    return nextName;
  };
  for (const wanted of desired.values()) {
    if (!next.done && (next.value as unknown) === wanted) {
      advance();
      continue;
    }
    const { name } = wanted;
    for (let other = nameOfNext(); other !== undefined && other !== name; other = nameOfNext()) {
      if (desired.has(other)) break;
      gone.push(other);
      advance();
    }
    const isBeside = nameOfNext() === name;
    const there = isBeside ? next.value : held.get(name);
    if (there === undefined) added.push(wanted);
    else if ((there as unknown) !== wanted) changed.push({ held: there, desired: wanted });
    if (isBeside) advance();
  }
  for (let other = nameOfNext(); other !== undefined; other = nameOfNext()) {
    if (!desired.has(other)) gone.push(other);
    advance();
  }
  return { added, changed, gone };
}

/**
 * The same of two lists: what is the same object in the same place, from the beginning or from the
 * end, is passed over without a look at it.
 */
function listDifference<Thing extends { readonly name: string }>(
  held: NamedList<Thing>,
  desired: NamedList<Thing>,
): Difference<Thing, Thing> {
  const apart = others(held.items, desired.items);
  const added: Thing[] = [];
  const changed: Change<Thing, Thing>[] = [];
  for (const wanted of apart.added) {
    const there = held.get(wanted.name);
    if (there === undefined) added.push(wanted);
    else if (there !== wanted) changed.push({ held: there, desired: wanted });
  }
  const gone = apart.gone.flatMap(({ name }) => (desired.has(name) ? [] : [name]));
  return { added, changed, gone };
}
