import { EGRESS_DROP_REASONS, type EgressDropReason } from '../../../apis/egress/node-egress.ts';
import { type Chain, type Match, type NftRule, plainChain, plainRule } from '../../render/ruleset.ts';
import { dropId } from './counted.ts';

const PREFIX = 'egress-drop-';

/** The chain that drops packets for a reason, and counts them. */
export function dropChain(reason: EgressDropReason): string {
  return `${PREFIX}${reason}`;
}

/** Leads to the chain of a reason. `why`: more than the reason says. */
export function dropRule(
  reason: EgressDropReason,
  why: string | null,
  ...matches: readonly Match[]
): NftRule {
  return { ...plainRule({ kind: 'goto', chain: dropChain(reason) }, ...matches), comment: why };
}

export const NOT_SERVED = 'not a pod that this gateway serves';
export const INSIDE = 'the tunnel does not lead into the cluster';

/**
 * One for each reason. `no-family` stays until somebody changes the objects, so TCP gets a reset:
 * its clients need not wait. It is only used before routing, where the kernel can send one.
 */
export function dropChains(): Chain[] {
  return EGRESS_DROP_REASONS.map((reason) => {
    const drop: NftRule = { ...plainRule({ kind: 'drop' }), counter: true, comment: reason };
    const isTcp = { match: 'l4proto', protocols: ['tcp'] } as const;
    const reset: NftRule = {
      ...plainRule({ kind: 'reject', with: 'tcp reset' }, isTcp),
      counter: true,
      comment: reason,
    };
    const rules = reason === 'no-family' ? [reset, drop] : [drop];
    return { ...plainChain(dropChain(reason), rules), ruleId: dropId(reason) };
  });
}
