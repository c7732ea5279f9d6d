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

/** A finding, and the Nodes where it holds: an item of what `nodewall lint -o json` prints. */
export interface NodeFinding extends Finding {
  /** Sorted; `flow` is one of the first. Empty: the rule applies to no Node. */
  readonly nodes: readonly string[];
  /** How many there are, where `nodes` and `rules` have the first ones; absent: those are all. */
  readonly nodeCount?: number;
  readonly ruleCount?: number;
}

/** Rules that a sentence names at most. */
export const MOST_NAMED_RULES = 5;

/** A finding as a sentence about its rule, without the rule. */
export function findingText({ kind, rules, ruleCount, left, nodes }: NodeFinding): string {
  if (nodes.length === 0) return 'applies to no Node';
  const others = named(rules, ruleCount);
  switch (kind) {
    case 'unreachable':
      return rules.length === 0
        ? 'decides nothing: all that it matches is decided before any rule (exemptions, anti-spoofing)'
        : `decides nothing: ${others} ${rules.length === 1 ? 'matches' : 'match'} all of its flows first`;
    case 'selects-nothing':
      return 'matches no flow there: its peers have no address, or only of a family that the Node does not have';
    case 'no-effect':
      return rules.length === 0
        ? 'changes no verdict: its flows are allowed without it too, as no other rule decides them or the failsafe list keeps them open'
        : `changes no verdict: without it ${others} would decide with the same one`;
    case 'partly-shadowed':
      return `decides ${percent(left ?? 0)} of what it matches: ${others} decide${rules.length === 1 ? 's' : ''} the rest first, with another verdict`;
    case 'wider':
      return `is wider than ${others}, with the same verdict`;
    case 'failsafe':
      return 'does not close what the failsafe list keeps open; a rule that names the ports would';
    default:
      return kind satisfies never;
  }
}

function named(rules: readonly DecidingRule[], count = rules.length): string {
  const names = rules.slice(0, MOST_NAMED_RULES).map(({ policy, rule }) => `${policy}/${rule}`);
  const rest = count - names.length;
  return rest > 0 ? `${names.join(', ')} and ${rest} more` : names.join(', ');
}

/** No share is rounded to all or nothing. */
function percent(share: number): string {
  if (share > 0.999) return 'nearly all';
  return share < 0.001 ? 'nearly nothing' : `${(share * 100).toFixed(1)} %`;
}
