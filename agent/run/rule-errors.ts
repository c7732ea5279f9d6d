import type { CompiledRule, NodeState } from '../../apis/compiled.ts';
import { type FailingRule, MOST_FAILING } from '../../apis/stream.ts';
import { RefusedError } from '../apply/dataplane.ts';
import type { Enforced } from '../apply/enforcer.ts';
import { changedPolicies, policyKey } from '../apply/plan/substitute.ts';
import { RenderError } from '../render/rule-renderer.ts';

/** Longest reason (characters). Longer ones are cut, because people read them in a status. */
export const LONGEST_REASON = 500;

/** The policies that an apply left out or kept in an earlier version, for the report. */
export function failingRules({ failed, envelope }: Pick<Enforced, 'failed' | 'envelope'>): FailingRule[] {
  const policies = Map.groupBy(envelope.plain.rules, policyKey);
  return [...failed].slice(0, MOST_FAILING).flatMap(([key, error]) => {
    const [first] = policies.get(key) ?? [];
    return first === undefined ? [] : [failingRule(first, error)];
  });
}

/** The policies to report if nothing could be applied: all that are wanted and not in force. */
export function allFailing(wanted: NodeState, inForce: NodeState | null, error: Error): FailingRule[] {
  const policies = Map.groupBy(wanted.rules, policyKey);
  return changedPolicies(wanted, inForce)
    .slice(0, MOST_FAILING)
    .flatMap((key) => policies.get(key)?.slice(0, 1) ?? [])
    .map((rule) => failingRule(rule, error));
}

function failingRule({ source }: CompiledRule, error: Error): FailingRule {
  const { apiGroup, policy, generation } = source;
  const blamed = error instanceof RefusedError || error instanceof RenderError ? error.source : null;
  const isOfIt = blamed?.apiGroup === apiGroup && blamed.policy === policy;
  return {
    apiGroup,
    policy,
    generation,
    rule: isOfIt ? blamed.rule : null,
    reason: error.message.slice(0, LONGEST_REASON),
  };
}
