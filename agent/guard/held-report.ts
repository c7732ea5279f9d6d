import type { ApiGroup } from '../../apis/objects.ts';
import type { FailingRule, TriedPolicy } from '../../apis/stream.ts';
import type { Family } from '../../lib/net/address.ts';
import type { Fault, Hold, HoldReason, PolicyChange, Proof, Trial } from './guard-state.ts';

/** Changes in force and not confirmed. @param trial null: it is judged whether they are tried */
export function triedOf(
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
export function waitingOf(changes: readonly PolicyChange[], proof: Proof | null): TriedPolicy[] {
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
