import type { NodeState } from '../../apis/compiled.ts';
import type { Config } from '../../apis/config.ts';
import { hasAddress } from '../../lib/net/member-set.ts';
import { decidingRule, evaluator } from '../observe/explain.ts';
import { flowReader } from '../observe/known-flow.ts';
import { everyRule } from '../observe/rule-lookup.ts';
import { ruleMatches } from '../observe/rule-match.ts';
import type { Fault } from './guard-state.ts';
import { flowsOf, type Probe } from './probes.ts';

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

/** Ids of the sets that have a probe's address in one state only. */
export function touchedSets(
  probes: () => readonly Probe[],
  before: NodeState | null,
  now: NodeState,
): readonly string[] {
  if (before === null || before.addressSets === now.addressSets) return [];
  const changed = [...now.addressSets.values()].filter((set) => set !== before.addressSets.get(set.id));
  if (changed.length === 0) return [];
  const addresses = probes().flatMap((probe) => flowsOf(probe).flatMap(({ dst }) => dst ?? []));
  return changed
    .filter(({ id, members }) => {
      const old = before.addressSets.get(id)?.members;
      return addresses.some(
        (text) => hasAddress(members, text) !== (old !== undefined && hasAddress(old, text)),
      );
    })
    .map(({ id }) => id);
}
