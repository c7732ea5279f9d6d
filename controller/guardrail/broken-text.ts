import type { Violation } from '../../apis/validate/guardrail.ts';

/** As in `on cp-1: {"direction":"ingress",…} is decided by protect-api/drop-rest`. */
export function brokenText({ node, flow, rule }: Violation): string {
  const decides = rule === null ? 'no rule' : `${rule.policy}/${rule.rule}`;
  return `on ${node}: ${JSON.stringify(flow)} is decided by ${decides}`;
}
