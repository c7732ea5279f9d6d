import { hash } from 'node:crypto';
import type { AddressSet, CompiledRule, NodeState } from '../../apis/compiled.ts';
import { policyKey, substitute } from '../apply/plan/substitute.ts';
import type { Hold, PolicyChange } from './guard-state.ts';

/** The state with the confirmed version of each policy that is held. */
export function withHolds(state: NodeState, holds: readonly Hold[], confirmed: NodeState | null): NodeState {
  return holds.reduce((rest, { key, sets }) => {
    return sets.length === 0 ? substitute(rest, key, confirmed) : withSets(rest, sets, confirmed);
  }, state);
}

/** The state with the confirmed members of these sets. */
export function withSets(state: NodeState, ids: readonly string[], confirmed: NodeState | null): NodeState {
  const kept = ids.flatMap((id): [string, AddressSet][] => {
    const set = confirmed?.addressSets.get(id);
    return set === undefined || !state.addressSets.has(id) ? [] : [[id, set]];
  });
  return { ...state, addressSets: new Map([...state.addressSets, ...kept]) };
}

/** The policies whose rules differ, sorted by key; equal objects cost nothing. */
export function policyChanges(before: NodeState | null, now: NodeState): PolicyChange[] {
  if (before?.rules === now.rules) return [];
  const old = Map.groupBy(before?.rules ?? [], policyKey);
  const fresh = Map.groupBy(now.rules, policyKey);
  const changes: PolicyChange[] = [];
  for (const [key, rules] of fresh) {
    const others = old.get(key);
    if (others?.length === rules.length && rules.every((rule, i) => rule === others[i])) continue;
    const digest = rulesDigest(rules);
    const other = others === undefined ? null : rulesDigest(others);
    if (other !== digest)
      changes.push({ key, digest, before: other, generation: rules[0]?.source.generation ?? 0 });
  }
  for (const [key, rules] of old)
    if (!fresh.has(key)) changes.push({ key, digest: null, before: rulesDigest(rules), generation: 0 });
  return changes.sort((a, b) => (a.key < b.key ? -1 : 1));
}

/** The digest of a policy's rules in this state; null: it has none. */
export function digestOf(state: NodeState, key: string): string | null {
  const rules = state.rules.filter((rule) => policyKey(rule) === key);
  return rules.length === 0 ? null : rulesDigest(rules);
}

/** A digest of the rules' meaning, with the policy's uid; a generation alone changes nothing. */
function rulesDigest(rules: readonly CompiledRule[]): string {
  return hash(
    'sha256',
    JSON.stringify(rules, (key, value) => (key === 'generation' ? undefined : value)),
  );
}

/** By identity first: unchanged rules are mostly the same objects. */
export function sameRules(before: NodeState | null, { rules }: NodeState): boolean {
  if (before === null) return rules.length === 0;
  if (before.rules === rules) return true;
  return (
    before.rules.length === rules.length &&
    rules.every(
      (rule, i) => rule === before.rules[i] || JSON.stringify(rule) === JSON.stringify(before.rules[i]),
    )
  );
}
