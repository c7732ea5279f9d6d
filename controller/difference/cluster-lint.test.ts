import assert from 'node:assert/strict';
import { MOST_FINDINGS } from '../../apis/console-documents.ts';
import { findingText, type NodeFinding } from '../../apis/lint/finding.ts';
import { firstFindings } from './cluster-lint.ts';

function finding(rules: number, nodes: number): NodeFinding {
  return {
    kind: 'unreachable',
    direction: 'ingress',
    policy: 'p',
    rule: 'r',
    ruleIndex: 0,
    rules: Array.from({ length: rules }, (_, i) => ({ policy: 'other', rule: `r${i}`, ruleIndex: i })),
    left: null,
    flow: { direction: 'ingress' },
    nodes: Array.from({ length: nodes }, (_, i) => `node-${i}`),
  };
}

describe('the first findings', () => {
  it('say the same as all, whatever the size of the cluster', () => {
    const found = Array.from({ length: MOST_FINDINGS + 7 }, () => finding(300, 5_000));
    const lint = firstFindings(found);
    assert.equal(lint.leftOut, 7);
    const [first = assert.fail()] = lint.findings;
    assert.equal(first.nodeCount, 5_000);
    assert.equal(
      findingText(first),
      'decides nothing: other/r0, other/r1, other/r2, other/r3, other/r4 and 295 more match all of its flows first',
    );
    assert.equal(findingText(first), findingText(finding(300, 5_000)));
    assert.ok(JSON.stringify(lint).length < 1_100_000, `${JSON.stringify(lint).length}`);
  });

  it('apply to no Node, or to the Nodes that they name', () => {
    const { findings } = firstFindings([finding(0, 0), finding(1, 1)]);
    assert.deepEqual(findings.map(findingText), [
      'applies to no Node',
      'decides nothing: other/r0 matches all of its flows first',
    ]);
  });
});
