import type { ApiGroup } from '../../apis/objects.ts';
import type { FailingRule, TriedPolicy } from '../../apis/stream.ts';
import type { Hold, HoldReason, PolicyChange } from './guard-state.ts';

/** @param waiting what is tried once the confirmed rules are proven */
export function triedOf(changes: readonly PolicyChange[], waiting: readonly PolicyChange[]): TriedPolicy[] {
  return [
    ...waiting.map((one): TriedPolicy => ({ ...identityOf(one), isWaiting: true })),
    ...changes.map(identityOf),
  ];
}

/**
 * What is held, as rules that this node cannot enforce.
 * @param wanted the generation of a policy that is wanted now: one may have the rules of another
 */
export function failingOf(
  holds: readonly Hold[],
  wanted: (key: string) => number | undefined,
): FailingRule[] {
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
      const rule = fault === null ? '' : `; rule ${fault.policy}/${fault.rule} denies it`;
      return `rolled back: probe ${probe} failed (${error})${rule}`;
    }
    case 'unconfirmed':
      return 'rolled back: not confirmed by hand (nodewall confirm) in time';
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
