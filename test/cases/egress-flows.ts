import assert from 'node:assert/strict';
import { compileEgress } from '../../controller/egress/compile-egress.ts';
import { type EgressExplainer, egressExplainer } from '../../controller/egress/decide.ts';
import type { Fence } from '../docs/markdown.ts';
import { describePermission, egressOracle, isPermitted } from '../oracle/egress/egress-oracle.ts';
import { formatEgressAnswer, parseEgressFlowLine } from './flow-line.ts';
import type { Inputs } from './inputs.ts';

/** The flows as they are written, each with its answer; comments and empty lines stay. */
export function egressAnswered(text: string, inputs: Inputs): string {
  const explain = toExplainer(inputs);
  return text
    .replace(/\n$/, '')
    .split('\n')
    .map((line) => {
      if (!isFlow(line)) return `${line}\n`;
      const { flow, words } = parseEgressFlowLine(line);
      return `${words} ${formatEgressAnswer(explain(flow))}\n`;
    })
    .join('');
}

/** What explain answers is what the oracle permits. */
export function checkEgressFlows(fence: Fence, inputs: Inputs, file: string): void {
  const explain = toExplainer(inputs);
  const judge = egressOracle(inputs.raw.objects, inputs.raw.config);
  for (const [i, line] of fence.text.split('\n').entries()) {
    if (!isFlow(line)) continue;
    const { flow } = parseEgressFlowLine(line);
    const answer = explain(flow);
    const permissions = judge(flow);
    const wanted = permissions.map(describePermission).join(' or ');
    const found = `${file}:${fence.line + 1 + i}: the oracle says ${wanted}, explain ${JSON.stringify(answer)}`;
    assert.ok(isPermitted(permissions, answer), found);
  }
}

function toExplainer({ objects, config }: Inputs): EgressExplainer {
  return egressExplainer(objects, compileEgress(objects, config.egress));
}

function isFlow(line: string): boolean {
  return line.trim() !== '' && !line.startsWith('#');
}
