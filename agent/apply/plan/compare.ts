import { sameMembers } from '../../../lib/net/member-set.ts';
import { type Ruleset, TABLE } from '../../render/ruleset.ts';
import { type CurrentState, sameHook, sameKeys, samePolicy } from './current-state.ts';
import { sameElements } from './map-change.ts';

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
