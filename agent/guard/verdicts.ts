import type { AddressSet, NodeState } from '../../apis/compiled.ts';
import type { Config } from '../../apis/config.ts';
import { hasAddress } from '../../lib/net/member-set.ts';
import type { Forms } from '../apply/envelope.ts';
import { substitute } from '../apply/plan/substitute.ts';
import { decidingRule, evaluator } from '../observe/explain.ts';
import { flowReader } from '../observe/known-flow.ts';
import { everyRule } from '../observe/rule-lookup.ts';
import { ruleMatches } from '../observe/rule-match.ts';
import type { Fault, GuardEvent, PolicyChange } from './guard-state.ts';
import { digestOf } from './holds.ts';
import { newlyDenies } from './newly-denies.ts';
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
export interface Judged extends Forms {
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
    const digest = digestOf(plain, key);
    return { key, digest, before: digest, generation };
  });
  return { isTried: flipped.length > 0, changes: named, sets };
}
