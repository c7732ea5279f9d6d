import type { DecidingRule } from '../../apis/difference/row.ts';
import type { Finding } from '../../apis/lint/list-findings.ts';

/** Rules that a sentence names at most. */
const MOST_RULES = 5;

/** A finding as a sentence about its rule, without the rule. */
export function findingText({ kind, rules, left }: Finding): string {
  switch (kind) {
    case 'unreachable':
      return rules.length === 0
        ? 'decides nothing: all that it matches is decided before any rule (exemptions, anti-spoofing)'
        : `decides nothing: ${named(rules)} ${rules.length === 1 ? 'matches' : 'match'} all of its flows first`;
    case 'selects-nothing':
      return 'matches no flow there: its peers have no address, or only of a family that the Node does not have';
    case 'no-effect':
      return rules.length === 0
        ? 'changes no verdict: its flows are allowed without it too, as no other rule decides them or the failsafe list keeps them open'
        : `changes no verdict: without it ${named(rules)} would decide with the same one`;
    case 'partly-shadowed':
      return `decides ${percent(left ?? 0)} of what it matches: ${named(rules)} decide${rules.length === 1 ? 's' : ''} the rest first, with another verdict`;
    case 'wider':
      return `is wider than ${named(rules)}, with the same verdict`;
    case 'failsafe':
      return 'does not close what the failsafe list keeps open; a rule that names the ports would';
    default:
      return kind satisfies never;
  }
}

function named(rules: readonly DecidingRule[]): string {
  const names = rules.slice(0, MOST_RULES).map(({ policy, rule }) => `${policy}/${rule}`);
  const rest = rules.length - names.length;
  return rest > 0 ? `${names.join(', ')} and ${rest} more` : names.join(', ');
}

/** No share is rounded to all or nothing. */
function percent(share: number): string {
  if (share > 0.999) return 'nearly all';
  return share < 0.001 ? 'nearly nothing' : `${(share * 100).toFixed(1)} %`;
}
