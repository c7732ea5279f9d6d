import type { FlowAnswer } from '../apis/flow.ts';
import type { NodeFlow } from '../apis/node-flows.ts';
import { fieldText } from './record-text.ts';

/** The protocol of a kind, with its port or type. */
export function kindServiceText({
  protocol,
  port,
  icmpType,
  icmpCode,
  allPorts,
}: Omit<NodeFlow, 'decision'>): string {
  const of = fieldText(protocol);
  if (allPorts === true) return `${of} all others`;
  if (port !== undefined) return `${of} ${fieldText(port)}`;
  const type = icmpCode === undefined ? fieldText(icmpType) : `${fieldText(icmpType)}/${fieldText(icmpCode)}`;
  return `${of} ${type}`.trim();
}

/** A verdict, and what decides so. */
export function answerText(answer: FlowAnswer): string {
  return `${fieldText(answer.verdict)} ${ruleText(answer)}`;
}

function ruleText({ policy, rule, reason, exemption }: FlowAnswer): string {
  if (reason === 'exempt') return `(exempt: ${fieldText(exemption)})`;
  return policy === null || rule === null
    ? `(${fieldText(reason)})`
    : `${fieldText(policy)}/${fieldText(rule)}`;
}
