import assert from 'node:assert/strict';
import { nodeMetricsPath, nodeOfMetricsPath, parseMetricsAnswer, parseScraped } from './node-metrics.ts';

describe('metrics of nodes', () => {
  it('reads back the node of a path', () => {
    assert.equal(nodeOfMetricsPath(nodeMetricsPath('worker-1')), 'worker-1');
    for (const path of ['/metrics', '/metricsx/nodes/a', '/']) assert.equal(nodeOfMetricsPath(path), null);
  });

  it('takes nothing of an answer but its id, and its text or problem', () => {
    assert.deepEqual(parseMetricsAnswer({ id: '1', text: 'a 1', more: 1 }), { id: '1', text: 'a 1' });
    assert.deepEqual(parseMetricsAnswer({ id: '1', problem: 'too many' }), { id: '1', problem: 'too many' });
    const wrong = [null, {}, { id: '1' }, { id: '', text: '' }, { id: 'x'.repeat(65), text: '' }];
    for (const value of [...wrong, { id: '1', problem: 'x'.repeat(501) }, { text: 'a 1' }])
      assert.equal(parseMetricsAnswer(value), null);
    assert.equal(parseScraped({}), null);
  });
});
