import type { CompiledRule, NodeState } from '../../apis/compiled.ts';
import type { Config } from '../../apis/config.ts';
import { StateDifference } from '../../apis/difference/state-difference.ts';
import { memberCount } from '../../lib/net/member-set.ts';
import { policyKey } from '../apply/plan/substitute.ts';
import type { PolicyChange } from './guard-state.ts';

/**
 * Rules, and members of sets, of both states together up to which the difference is computed: it
 * runs in the agent's thread (docs/adr/0022-guarded-apply.md).
 */
const MOST_RULES = 5_000;
const MOST_MEMBERS = 50_000;

/**
 * Whether the state denies a connection that the other one allows: by the exact difference, or, for
 * rule sets too large for it, whenever rules that deny were added or others were removed. Both
 * states have the addresses of names. Null for `before`: a state without rules.
 */
export function newlyDenies(
  before: NodeState | null,
  now: NodeState,
  changes: readonly PolicyChange[],
  config: Config,
): boolean {
  if (!mayDeny(before, now, changes)) return false;
  // Only rules count here: both sides have the same Node.
  const old: NodeState = { ...now, ...rulesOf(before), nodeAddresses: now.nodeAddresses };
  if (isLarge([old, now])) return true;
  const difference = new StateDifference(config);
  const pair = difference.register(old, now);
  return difference.rows(pair).some(({ row }) => row.before === 'Allow' && row.after !== 'Allow');
}

/** With the sets that the failsafe list names, as of `now`. */
function rulesOf(before: NodeState | null): Partial<NodeState> {
  if (before === null) return { rules: [] };
  const { rules, addressSets, serviceSets, allNodes, controllers, apiServerPorts } = before;
  return { rules, addressSets, serviceSets, allNodes, controllers, apiServerPorts };
}

function isLarge(states: readonly NodeState[]): boolean {
  let rules = 0;
  let members = 0;
  for (const state of states) {
    rules += state.rules.length;
    for (const set of state.addressSets.values())
      members += memberCount(set.members.v4) + memberCount(set.members.v6);
  }
  return rules > MOST_RULES || members > MOST_MEMBERS;
}

/** False: the changed policies only allow more, whatever the other rules are. */
export function mayDeny(before: NodeState | null, now: NodeState, changes: readonly PolicyChange[]): boolean {
  const keys = new Set(changes.map(({ key }) => key));
  const changed = (rule: CompiledRule): boolean => rule.mode === 'Enforce' && keys.has(policyKey(rule));
  const text = (rules: readonly CompiledRule[]): Set<string> =>
    new Set(
      rules.filter(changed).map((rule) => JSON.stringify({ ...rule, source: null, place: placeOf(rule) })),
    );
  const [old, fresh] = [text(before?.rules ?? []), text(now.rules)];
  const added = [...fresh].filter((one) => !old.has(one));
  const removed = [...old].filter((one) => !fresh.has(one));
  const actionOf = (one: string): string => (JSON.parse(one) as CompiledRule).action;
  return added.some((one) => actionOf(one) !== 'Allow') || removed.some((one) => !isDenial(actionOf(one)));
}

/** Where the rule stands in its policy. */
function placeOf({ source }: CompiledRule): unknown {
  return [source.apiGroup, source.policy, source.direction, source.ruleIndex];
}

function isDenial(action: string): boolean {
  return action === 'Drop' || action === 'Reject';
}
