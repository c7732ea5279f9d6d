import type { Answer } from '../apis/flow.ts';
import type { NodeFlow } from '../apis/node-flows.ts';
import { word } from './record-text.ts';

/** The protocol of a kind, with its port or type. */
export function serviceText({
  protocol,
  port,
  icmpType,
  icmpCode,
  allPorts,
}: Omit<NodeFlow, 'decision'>): string {
  const of = word(protocol);
  if (allPorts === true) return `${of} all others`;
  if (port !== undefined) return `${of} ${word(port)}`;
  const type = icmpCode === undefined ? word(icmpType) : `${word(icmpType)}/${word(icmpCode)}`;
  return `${of} ${type}`.trim();
}

/** A verdict, and what decides so. */
export function answerText(answer: Answer): string {
  return `${word(answer.verdict)} ${ruleText(answer)}`;
}

function ruleText({ policy, rule, reason, exemption }: Answer): string {
  if (reason === 'exempt') return `(exempt: ${word(exemption)})`;
  return policy === null || rule === null ? `(${word(reason)})` : `${word(policy)}/${word(rule)}`;
}
