import type { DecidingRule } from './difference/row.ts';
import type { Considered, Explanation, Flow, Verdict } from './flow.ts';
import { ipProtocolName } from './ip-protocols.ts';
import type { Violation } from './validate/guardrail.ts';

/** Explanations and decisions in words, as the command line and the console show it. */

const OUTCOMES: Readonly<Record<Considered['outcome'], string>> = {
  'no match': 'no match',
  skipped: 'skipped by the failsafe list',
  spared: 'skipped: local pods are exempt, and the rule names no pod',
  audited: 'audited: matched, decides nothing',
  passed: 'passed: on to the baseline tier',
  decided: 'decided',
};

/** The outcome of a rule that was tested. */
export function outcomeText({ mismatch, outcome }: Pick<Considered, 'mismatch' | 'outcome'>): string {
  return mismatch === null ? OUTCOMES[outcome] : `no match: ${mismatch}`;
}

/** A flow on a node, as in `ingress tcp on cp-1: 10.1.0.7 to any address port 22`. */
export function flowText(flow: Flow, node: string): string {
  const end = (address: string | undefined, port: number | undefined): string =>
    `${address ?? 'any address'}${port === undefined ? '' : ` port ${port}`}`;
  const { direction, protocol, traffic, interfaceGroup: group } = flow;
  const named = protocol === undefined ? 'any protocol' : ipProtocolName(protocol);
  const what = [direction, ...(traffic === 'NodePort' ? [traffic] : []), named].join(' ');
  const link = `${direction === 'ingress' ? 'in' : 'out'} by an interface of group ${group}`;
  const ends = `${end(flow.src, flow.srcPort)} to ${end(flow.dst, flow.dstPort)}`;
  const { originalDst, originalDstPort } = flow;
  const hasOriginal = originalDst !== undefined || originalDstPort !== undefined;
  const before = end(originalDst ?? flow.dst, originalDstPort ?? flow.dstPort);
  const nat = hasOriginal ? `, before NAT ${before}` : '';
  const untracked = flow.untracked === true ? ', untracked' : '';
  return `${what} on ${node}: ${ends}${nat}${untracked}${group === undefined ? '' : `, ${link}`}`;
}

/** A Pass does not decide; it restricts the rest of the evaluation to the baseline tier. */
function passedText({ considered = [] }: Explanation): string {
  const passed = considered.find(({ outcome }) => outcome === 'passed');
  return passed === undefined ? '' : `passed by ${passed.policy}/${passed.rule}; of the baseline tier `;
}

/** Why the verdict is as it is: what follows the verdict and a colon. */
export function reasonText(answer: Explanation): string {
  const by =
    answer.policy === null ? 'no rule matched' : `rule ${answer.policy}/${answer.rule} (tier ${answer.tier})`;
  switch (answer.reason) {
    case 'exempt':
      return `exempt (${answer.exemption})`;
    case 'spoofed':
      return `spoofed (antiSpoofing): a pod cannot send with a Node's address`;
    case 'default':
      return `${passedText(answer)}no rule matched`;
    case 'rule':
      return by;
    case 'failsafe': {
      const skipped = answer.skipped.map(({ policy, rule }) => `${policy}/${rule}`).join(', ');
      return `the failsafe list skipped ${skipped}; ${answer.policy === null ? 'no other rule matched' : by}`;
    }
  }
}

/** A verdict with the rule that decides, in a difference. */
export function decidedText(verdict: Verdict, rule: DecidingRule | null): string {
  if (rule !== null) return `${verdict} (${rule.policy}/${rule.rule})`;
  return verdict === 'Drop'
    ? 'Drop (anti-spoofing, which begins with the first rule on a node)'
    : `${verdict} (no rule)`;
}

/** A violation, as in `on cp-1: {"direction":"ingress",…} is decided by protect-api/drop-rest`. */
export function brokenText({ node, flow, rule }: Violation): string {
  const decides = rule === null ? 'no rule' : `${rule.policy}/${rule.rule}`;
  return `on ${node}: ${JSON.stringify(flow)} is decided by ${decides}`;
}
