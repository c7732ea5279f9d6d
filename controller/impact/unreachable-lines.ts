import type { NodeFinding } from '../lint/cluster-lint.ts';
import { findingText } from '../lint/finding-text.ts';

/** Rules that are named one by one. */
const MOST_RULES = 5;

/** Warnings about rules that decide nothing, as in `spec.ingress[1]: decides nothing on n1: …`. */
export function unreachableLines(findings: readonly NodeFinding[]): string[] {
  const unreachable = findings.filter(({ kind }) => kind === 'unreachable');
  const lines = unreachable.slice(0, MOST_RULES).map((finding) => {
    const { direction, ruleIndex, nodes } = finding;
    const [first = ''] = nodes;
    const where = nodes.length === 1 ? first : `${first} and ${nodes.length - 1} more`;
    return `spec.${direction}[${ruleIndex}]: on ${where}: ${findingText(finding)}`;
  });
  const left = unreachable.length - lines.length;
  return left === 0 ? lines : [...lines, `${left} more rules decide nothing; nodewall lint shows all`];
}
