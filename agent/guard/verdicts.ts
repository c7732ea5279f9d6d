import type { AddressSet, CompiledRule, NodeState } from '../../apis/compiled.ts';
import { isDenial } from '../../apis/compiled.ts';
import type { Config } from '../../apis/config.ts';
import { StateDifference } from '../../apis/difference/state-difference.ts';
import { hasAddress, memberTotal } from '../../lib/net/member-set.ts';
import { type Forms, policyKey, substitute } from '../apply/envelope.ts';
import { decidingRule, evaluator } from '../observe/explain.ts';
import { everyRule, ruleMatches } from '../observe/flow-match.ts';
import { flowReader } from '../observe/known-flow.ts';
import type { Fault, GuardEvent, PolicyChange } from './guard-state.ts';
import { policyDigest } from './holds.ts';
import { flowsOf, type Probe, peerOf } from './probes.ts';

/** The rule that denies a flow of each probe; probes that no rule denies are absent. */
export function faults(
  probes: readonly Probe[],
  state: NodeState,
  config: Config,
): ReadonlyMap<string, Fault> {
  const toKnown = flowReader(state, config);
  const evaluate = evaluator(state, config, everyRule(ruleMatches(state, config)));
  const found = new Map<string, Fault>();
  for (const probe of probes) {
    for (const flow of flowsOf(probe)) {
      const rule = decidingRule(evaluate(toKnown(flow), null));
      if (rule === null || (rule.action !== 'Drop' && rule.action !== 'Reject')) continue;
      if (!found.has(probe.name)) found.set(probe.name, rule.source);
    }
  }
  return found;
}

/** More changes at a time than these are not told apart. */
const MOST_SUSPECTS = 16;

interface Suspicion {
  /** In force, with what the node adds. */
  readonly state: NodeState;
  /** The confirmed state. */
  readonly before: NodeState | null;
  readonly changes: readonly PolicyChange[];
  readonly config: Config;
}

/**
 * The keys of the policies without whose changes no rule denies the probe's flows; empty: there are
 * no such ones, or too many changes. The policy of the rule may not have changed: another one may
 * have allowed these flows before.
 */
export function policiesAtFault(probe: Probe, { state, before, changes, config }: Suspicion): string[] {
  if (changes.length > MOST_SUSPECTS) return [];
  const faultWithout = (keys: readonly string[]): Fault | undefined => {
    const rest = keys.reduce((one, key) => substitute(one, key, before), state);
    return faults([probe], rest, config).get(probe.name);
  };
  const suspects = changes.map(({ key }) => key);
  const found: string[] = [];
  for (;;) {
    const fault = faultWithout(found);
    if (fault === undefined) return found.filter((key) => faultWithout(without(found, key)) !== undefined);
    const key = `${fault.apiGroup}/${fault.policy}`;
    const left = suspects.filter((one) => !found.includes(one));
    const next = left.includes(key) ? key : left.find((one) => faultWithout([...found, one]) === undefined);
    if (next === undefined) return [];
    found.push(next);
  }
}

function without(keys: readonly string[], key: string): string[] {
  return keys.filter((one) => one !== key);
}

/** Ids of the sets that have a probe's address in one state only. */
export function touchedSets(
  probes: () => readonly Probe[],
  before: NodeState | null,
  now: NodeState,
): readonly string[] {
  if (before === null || before.addressSets === now.addressSets) return [];
  const changed = changedSets(before, now);
  if (changed.length === 0) return [];
  const addresses = probes().flatMap((probe) => flowsOf(probe).flatMap((flow) => peerOf(flow) ?? []));
  return changed
    .filter(({ id, members }) => {
      const old = before.addressSets.get(id)?.members;
      return addresses.some(
        (text) => hasAddress(members, text) !== (old !== undefined && hasAddress(old, text)),
      );
    })
    .map(({ id }) => id);
}

/**
 * Side by side, because the sets of two states mostly have the same order: look-ups take longer.
 */
function changedSets(before: NodeState, now: NodeState): AddressSet[] {
  const others = before.addressSets.values();
  const changed: AddressSet[] = [];
  for (const set of now.addressSets.values()) {
    const { value: other } = others.next();
    if (set !== other && set !== before.addressSets.get(set.id)) changed.push(set);
  }
  return changed;
}

/** A state in force. */
export interface JudgedState extends Forms {
  /** Its number (RoundBefore); null: the newest. */
  readonly round: number | null;
}

export type JudgedAs = Pick<Extract<GuardEvent, { kind: 'applied' }>, 'isTried' | 'changes' | 'sets'>;

interface Judgement extends Forms {
  /** The confirmed state, with what the node adds; null: none ever was. */
  readonly before: NodeState | null;
  /** The policies whose rules differ; if none do, the sets that have another probe's address. */
  readonly changes: readonly PolicyChange[];
  readonly sets: readonly string[];
  readonly probes: () => readonly Probe[];
  readonly config: Config;
}

/** Whether the state is tried, or confirmed as it is applied. */
export function judgedAs(judgement: Judgement): JudgedAs {
  const { plain, resolved, before, changes, sets, probes, config } = judgement;
  if (changes.length === 0 && sets.length === 0) return { isTried: false, changes, sets };
  const all = probes();
  const old = before === null ? new Map<string, Fault>() : faults(all, before, config);
  const now = faults(all, resolved, config);
  const flipped = all.map(({ name }) => name).filter((name) => old.has(name) !== now.has(name));
  if (changes.length > 0) {
    const isTried = flipped.length > 0 || newlyDenies(before, resolved, changes, config);
    return { isTried, changes, sets };
  }
  // The policies that decide: their sets keep the confirmed members after a rollback.
  const deciding = flipped.flatMap((name) => now.get(name) ?? old.get(name) ?? []);
  const byKey = new Map(deciding.map((one) => [`${one.apiGroup}/${one.policy}`, one.generation]));
  const named = [...byKey].map(([key, generation]): PolicyChange => {
    const digest = policyDigest(plain, key);
    return { key, digest, before: digest, generation };
  });
  return { isTried: flipped.length > 0, changes: named, sets };
}

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
  if (!changesMayDeny(before, now, changes)) return false;
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
    for (const set of state.addressSets.values()) members += memberTotal(set.members);
  }
  return rules > MOST_RULES || members > MOST_MEMBERS;
}

/** False: the changed policies only allow more, whatever the other rules are. */
export function changesMayDeny(
  before: NodeState | null,
  now: NodeState,
  changes: readonly PolicyChange[],
): boolean {
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
