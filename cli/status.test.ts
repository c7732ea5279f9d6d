import assert from 'node:assert/strict';
import { oneLine } from './record-text.ts';
import { statusText } from './status.ts';

describe('the text of a status', () => {
  it('has problems first, five of a kind, and no control sequences', () => {
    const silent = Array.from({ length: 7 }, (_, i) => ({
      object: `Node/n${i}`,
      phase: 'Silent',
      message: 'no report since \u001b[31mnoon\nand more',
    }));
    const text = statusText({
      nodes: { Enforced: 2, Silent: 7 },
      policies: { Realized: 1, Failed: 1 },
      guardrails: {},
      rollouts: [{ policy: 'staged', progress: 'Step 1 of 4', message: '1 of 3 nodes have the new version' }],
      problems: [{ object: 'ClusterNetworkPolicy/p', phase: 'Failed', message: 'n1: no set' }, ...silent],
    });
    assert.deepEqual(text.split('\n').slice(0, 3), [
      'problem                 phase   why',
      'ClusterNetworkPolicy/p  Failed  n1: no set',
      'Node/n0                 Silent  no report since \\u001b[31mnoon',
    ]);
    assert.deepEqual(text.split('\n').slice(6), [
      'Node/n4                 Silent  no report since \\u001b[31mnoon',
      '2 more                  Silent  -o json shows all',
      '',
      'nodes       2 Enforced, 7 Silent',
      'policies    1 Realized, 1 Failed',
      'guardrails  none',
      'rollouts    staged: Step 1 of 4. 1 of 3 nodes have the new version',
      '',
    ]);
  });

  it('says so if there are none', () => {
    const nodes = { Enforced: 1 };
    assert.match(
      statusText({ nodes, policies: {}, guardrails: {}, rollouts: [], problems: [] }),
      /\nNo problems\.\n$/,
    );
  });
});

describe('one line of a message', () => {
  it('says that it was cut', () => {
    assert.equal(oneLine('12345\nmore', 5), '12345');
    assert.equal(oneLine('123456', 5), '1234…');
  });
});
