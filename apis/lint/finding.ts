import type { DecidingRule } from '../difference/row.ts';
import type { Flow } from '../flow.ts';
import type { Direction } from '../objects.ts';

/**
 * unreachable: decides no flow. partly-shadowed: rules with another verdict, which match other
 * flows too, decide some of its flows before it. no-effect: without it every verdict is the same.
 * wider: matches all flows of another rule with the same verdict, and more. selects-nothing:
 * matches no flow. failsafe: the failsafe list skips it, which changes verdicts.
 */
export const FINDING_KINDS = [
  'unreachable',
  'selects-nothing',
  'no-effect',
  'partly-shadowed',
  'wider',
  'failsafe',
] as const;
export type FindingKind = (typeof FINDING_KINDS)[number];

/**
 * not-hit: no packet matched the rule for a time. wider-than-seen: it allows many networks or
 * ports, and the flows that it decided had few. failsafe-in-effect: the failsafe list keeps flows
 * that it would deny.
 */
export const SEEN_FINDING_KINDS = ['not-hit', 'wider-than-seen', 'failsafe-in-effect'] as const;
export type SeenFindingKind = (typeof SEEN_FINDING_KINDS)[number];

/** Something about a rule that its author may not have meant. */
export interface Finding extends DecidingRule {
  readonly kind: FindingKind;
  readonly direction: Direction;
  /**
   * unreachable, partly-shadowed: those that decide before it. no-effect: those that would decide.
   * wider: those whose flows it matches.
   */
  readonly rules: readonly DecidingRule[];
  /**
   * partly-shadowed: the share of its flows that it decides, 0 to 1; all protocols count alike, as
   * do IPv4 and IPv6. Else null.
   */
  readonly left: number | null;
  /**
   * One of the flows that it does not decide (unreachable, partly-shadowed, failsafe) or decides.
   * Null: there is none.
   */
  readonly flow: Flow | null;
}
