import assert from 'node:assert/strict';
import { nodeMetricsPath, nodeOfMetricsPath } from './scrape-path.ts';

describe('paths of scrapers', () => {
  it('name a node, which is read back', () => {
    assert.equal(nodeOfMetricsPath(nodeMetricsPath('worker-1')), 'worker-1');
    for (const path of ['/metrics', '/metrics/nodes', '/metricsx/nodes/a', '/'])
      assert.equal(nodeOfMetricsPath(path), null);
  });
});
