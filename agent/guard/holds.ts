import { hash } from 'node:crypto';
import type { AddressSet, CompiledRule, NodeState } from '../../apis/compiled.ts';
import type { FailingRule, TriedPolicy } from '../../apis/node-report.ts';
import type { ApiGroup } from '../../apis/objects.ts';
import type { Family } from '../../lib/net/address.ts';
import { policyKey, substitute } from '../apply/envelope.ts';
import type { Fault, GuardState, Hold, HoldReason, PolicyChange, Proof, Trial } from './guard-state.ts';
import { isBrief } from './held-step.ts';

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
export function policyDigest(state: NodeState, key: string): string | null {
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

export interface GuardReport {
  readonly tried: readonly TriedPolicy[];
  readonly held: readonly FailingRule[];
}

/** @param judged the changes of a state of which it is not known yet whether it is tried */
export function guardReport(
  { trial, proof, holds, lacking }: GuardState,
  judged: readonly PolicyChange[],
  wanted: NodeState | null,
): GuardReport {
  const generationOf = (key: string): number | undefined =>
    wanted?.rules.find((rule) => policyKey(rule) === key)?.source.generation;
  return {
    tried: [...waitingOf(holds.filter(isBrief), proof), ...triedOf(trial?.changes ?? judged, trial, lacking)],
    held: failingOf(holds, generationOf),
  };
}

/** Changes in force and not confirmed. @param trial null: it is judged whether they are tried */
function triedOf(
  changes: readonly PolicyChange[],
  trial: Trial | null,
  lacking: Family | null,
): TriedPolicy[] {
  const texts = [...(trial?.failing ?? [])].map(([probe, { error, fault }]) =>
    probeText(probe, error, fault),
  );
  const reasons = [
    ...(lacking === null ? [] : [notConfirmedIn(lacking)]),
    ...(texts.length === 0 ? [] : [`not confirmed: since the change ${texts.join('; ')}`]),
  ];
  const why = reasons.length === 0 ? {} : { reason: reasons.join('; ') };
  return changes.map((one) => ({ ...identityOf(one), ...why }));
}

/** Why what is tried is not confirmed while the rules of a family are those of before. */
export function notConfirmedIn(lacking: Family): string {
  return `${unchangedIn(lacking)} yet; the agent tries again`;
}

function unchangedIn(family: Family): string {
  return `not confirmed: the rules of IPv${family} could not be changed`;
}

/** Changes that are tried once the confirmed rules are proven. */
function waitingOf(changes: readonly PolicyChange[], proof: Proof | null): TriedPolicy[] {
  const missing = proof?.missing ?? [];
  const reason = `not tried yet: under the confirmed rules, probe ${missing.join(', ')} does not pass`;
  const why = missing.length === 0 ? {} : { reason };
  return changes.map((one) => ({ ...identityOf(one), isWaiting: true, ...why }));
}

function probeText(probe: string, error: string, fault: Fault | null): string {
  const rule = fault === null ? '' : `; rule ${fault.policy}/${fault.rule} denies it`;
  return `probe ${probe} failed (${error})${rule}`;
}

/**
 * The held changes, as rules that this node cannot enforce.
 * @param wanted the generation of a policy that is wanted now: one may have the rules of another
 */
function failingOf(holds: readonly Hold[], wanted: (key: string) => number | undefined): FailingRule[] {
  return holds
    .filter(({ isBrief }) => !isBrief)
    .map((hold): FailingRule => {
      const { apiGroup, policy, generation: held } = identityOf(hold);
      const generation = wanted(hold.key) ?? held;
      const fault = hold.why.kind === 'probe' ? hold.why.fault : null;
      const isAtFault = fault?.policy === policy && fault.apiGroup === apiGroup;
      const rule = isAtFault ? fault.rule : null;
      return {
        apiGroup,
        policy,
        generation,
        rule,
        reason: holdText(hold.why) + againText(hold),
        rolledBack: true,
      };
    });
}

function againText({ isUnproven }: Hold): string {
  return isUnproven === true ? '; no rule denies it, so the change is tried again ten minutes later' : '';
}

/** Why a policy is held, for people. */
export function holdText(why: HoldReason): string {
  switch (why.kind) {
    case 'probe': {
      const { probe, error, fault } = why;
      return `rolled back: ${probeText(probe, error, fault)}`;
    }
    case 'unconfirmed':
      return why.lacking == null
        ? 'rolled back: not confirmed by hand (nodewall confirm) in time'
        : `rolled back: ${unchangedIn(why.lacking)} in time; nodewall retry tries it again`;
    case 'interrupted':
      return 'rolled back: the agent ended, or the kernel lost the rules, each time before they were confirmed';
    case 'unproven':
      return `rolled back: it was interrupted before it was confirmed, and probe ${why.probes.join(', ')}, which counted, does not pass under the confirmed rules; nodewall retry tries it again`;
  }
}

function identityOf({ key, generation }: PolicyChange): TriedPolicy {
  const slash = key.indexOf('/');
  return { apiGroup: key.slice(0, slash) as ApiGroup, policy: key.slice(slash + 1), generation };
}

/** Why `nodewall confirm` is refused. */
export const NOT_CONFIRMED = {
  interrupted:
    'not confirmed: the change was interrupted, and connections that were made before prove nothing. Connect anew once it is tried again, then confirm',
  unknown: 'not confirmed: the kernel cannot be asked about the rules; try again',
} as const;
