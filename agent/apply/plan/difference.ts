import { sameMembers } from '../../../lib/net/member-set.ts';
import { NamedList, unequalElements } from '../../render/incremental-list.ts';
import { type Ruleset, TABLE } from '../../render/ruleset.ts';
import { type CurrentState, sameHook, sameKeys, samePolicy } from './current-state.ts';
import { sameElements } from './element-change.ts';

/**
 * The differences between two maps of named objects: the kernel's chains and sets, and the wanted
 * ones (transaction.ts).
 */
export interface Difference<CurrentState, Desired> {
  /** In the order of the desired map. */
  readonly added: readonly Desired[];
  /** Same name, but not the same object. */
  readonly changed: readonly Replacement<CurrentState, Desired>[];
  /** Names of the removed objects. */
  readonly gone: readonly string[];
}

export interface Replacement<CurrentState, Desired> {
  readonly current: CurrentState;
  readonly desired: Desired;
}

/**
 * Compares by identity: identical objects are never looked into. Both maps are walked side by side;
 * if their orders agree, as they do for two rulesets of which one was derived from the other, only
 * the differences are looked up by name.
 */
export function mapDifference<CurrentState, Desired extends CurrentState & { readonly name: string }>(
  current: ReadonlyMap<string, CurrentState>,
  desired: ReadonlyMap<string, Desired>,
): Difference<CurrentState, Desired> {
  const added: Desired[] = [];
  const changed: Replacement<CurrentState, Desired>[] = [];
  const gone: string[] = [];
  if ((current as ReadonlyMap<string, unknown>) === desired) return { added, changed, gone };
  if (current instanceof NamedList && desired instanceof NamedList) return listDifference(current, desired);
  // Names are read only where the objects differ, hence two iterators: that of the names is usually
  // behind.
  const objects = current.values();
  const names = current.keys();
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
    const there = isBeside ? next.value : current.get(name);
    if (there === undefined) added.push(wanted);
    else if ((there as unknown) !== wanted) changed.push({ current: there, desired: wanted });
    if (isBeside) advance();
  }
  for (let other = nameOfNext(); other !== undefined; other = nameOfNext()) {
    if (!desired.has(other)) gone.push(other);
    advance();
  }
  return { added, changed, gone };
}

/**
 * The difference of two lists. Objects that are identical at the same position, counted from the
 * start or from the end, are skipped without a lookup.
 */
function listDifference<Thing extends { readonly name: string }>(
  current: NamedList<Thing>,
  desired: NamedList<Thing>,
): Difference<Thing, Thing> {
  const apart = unequalElements(current.items, desired.items);
  const added: Thing[] = [];
  const changed: Replacement<Thing, Thing>[] = [];
  for (const wanted of apart.added) {
    const there = current.get(wanted.name);
    if (there === undefined) added.push(wanted);
    else if (there !== wanted) changed.push({ current: there, desired: wanted });
  }
  const gone = apart.gone.flatMap(({ name }) => (desired.has(name) ? [] : [name]));
  return { added, changed, gone };
}

/**
 * The differences of the current state from the desired one, as human-readable lines; empty if
 * there are none.
 */
export function rulesetDifferences(wanted: Ruleset, now: CurrentState): string[] {
  if (!now.table) return [`table ${TABLE.family} ${TABLE.name} is missing`];
  const differences: string[] = now.dormant ? [`table ${TABLE.family} ${TABLE.name} is dormant`] : [];
  for (const [name, { base }] of wanted.chains) {
    const there = now.chains.get(name);
    if (there === undefined) differences.push(`chain ${name} is missing`);
    else if (there.rules === null) differences.push(`chain ${name} was changed`);
    else if (!sameHook(there.base, base) || !samePolicy(there.base, base)) {
      differences.push(`chain ${name} has a different hook, priority or policy`);
    }
  }
  for (const name of now.chains.keys())
    if (!wanted.chains.has(name)) differences.push(`chain ${name} is foreign`);
  for (const [name, set] of wanted.sets) {
    const there = now.sets.get(name);
    if (there === undefined) differences.push(`set ${name} is missing`);
    else if (
      there.family !== set.family ||
      there.key !== set.key ||
      (there.timed ?? false) !== (set.timed ?? false) ||
      (!set.timed && (!there.members || !sameMembers(there.members, set.members)))
    ) {
      differences.push(`set ${name} has different members`);
    }
  }
  for (const name of now.sets.keys()) if (!wanted.sets.has(name)) differences.push(`set ${name} is foreign`);
  return [...differences, ...compareMaps(wanted.maps, now.maps)];
}

function compareMaps(wanted: Ruleset['maps'], now: CurrentState['maps']): string[] {
  const differences: string[] = [];
  for (const [name, map] of wanted) {
    const there = now.get(name);
    if (there === undefined) differences.push(`map ${name} is missing`);
    else if (
      !sameKeys(there, map) ||
      there.interval !== map.interval ||
      !sameElements({ ...there, fixed: false }, map)
    ) {
      differences.push(`map ${name} has different elements`);
    }
  }
  for (const name of now.keys()) if (!wanted.has(name)) differences.push(`map ${name} is foreign`);
  return differences;
}
