/** Objects applied one after another, ten times as many. */
import { startCluster, type TestCluster } from '../cluster/cluster.ts';

process.env.NODEWALL_MORE_PAIRS ??= '10';
const { describeReapply } = await import('./reapply.ts');

describe('a real API server', () => {
  let cluster: TestCluster;
  before(async function () {
    this.timeout(1_800_000);
    cluster = await startCluster();
  });
  after(() => cluster?.close());

  describeReapply(() => cluster);
});
